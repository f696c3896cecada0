"""The geometries under test, each with two independent oracles. A new geometry adds one line to SPACES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import geoopt
import pytest
import torch
from mpmath import mp  # type: ignore[import-untyped]
from torch import Tensor

from latentgraph import Euclidean, PoincareBall, Product, Sphere
from latentgraph.geometry import Geometry

mp.dps = 75
Vector = Sequence[float]  # floats, or mpmath's numbers


@dataclass(frozen=True)
class Space:
    """A geometry as a function of the curvature (which flat spaces and the sphere ignore), and what it must equal."""

    name: str
    geometry: Callable[[float], Geometry]
    oracle: Callable[[float], geoopt.Manifold]
    exact: Callable[[Vector, Vector, float], float]  # squared distance with 75 digits, for vectors of any length
    width: int | None = None  # the only number of coordinates there can be
    off: float = 0.0  # points are rounded off the space by this many eps

    def points(self, n: int, dim: int, radius: float, curvature: float, dtype: torch.dtype, seed: int) -> Tensor:
        """n points of the space at up to `radius` (relative to the radius of the ball) from the origin."""
        generator = torch.Generator().manual_seed(seed)
        dim = self.width or dim
        x = torch.randn(n, dim, generator=generator, dtype=torch.float64)
        x *= torch.rand(n, 1, generator=generator, dtype=torch.float64) * radius / curvature**0.5
        return self.geometry(curvature).project((x / x.norm(dim=1).max() * radius / curvature**0.5).to(dtype))


def _flat(x: Vector, y: Vector, c: float) -> float:
    return mp.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def _ball(x: Vector, y: Vector, c: float) -> float:
    gap_x, gap_y = (1 - c * mp.fsum(a**2 for a in v) for v in (x, y))
    return mp.acosh(1 + 2 * c * _flat(x, y, c) / gap_x / gap_y) ** 2 / c


def _sphere(x: Vector, y: Vector, c: float) -> float:
    u, v = ([a / mp.sqrt(mp.fsum(b**2 for b in w)) for a in w] for w in (x, y))
    return (2 * mp.atan2(mp.sqrt(_flat(u, v, c)), mp.sqrt(_flat(u, [-a for a in v], c)))) ** 2


def _product(x: Vector, y: Vector, c: float) -> float:
    return _flat(x[:2], y[:2], c) + _ball(x[2:5], y[2:5], c) + _sphere(x[5:], y[5:], c)


def _geoopt_ball(c: float) -> geoopt.Manifold:
    return geoopt.PoincareBall(c=torch.tensor(c, dtype=torch.float64))


SPACES = [
    Space("euclidean", lambda c: Euclidean(), lambda c: geoopt.Euclidean(ndim=1), _flat),
    Space("ball", PoincareBall, _geoopt_ball, _ball),
    Space("sphere", lambda c: Sphere(), lambda c: geoopt.Sphere(), _sphere, off=2.0),
    Space(
        "product",
        lambda c: Product([(Euclidean(), 2), (PoincareBall(c), 3), (Sphere(), 2)]),
        lambda c: geoopt.ProductManifold((geoopt.Euclidean(ndim=1), 2), (_geoopt_ball(c), 3), (geoopt.Sphere(), 2)),
        _product,
        width=7,
        off=2.0,
    ),
]

every_space = pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
