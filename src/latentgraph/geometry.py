"""Spaces in which the graph embedding lives.

A geometry answers three questions: where does a point land that the network put anywhere (`project`), how far are two
points apart (`sq_dist`), and how far are all pairs apart (`sq_cdist`). Distances are squared: that is what the edge
probability p_ij = exp(-t dist^2) needs, and the square is smooth where the distance itself is not. Inside, a square
root is taken only by `vector_norm` and `cdist`, whose derivative at zero is defined as zero: the square that follows
makes this the true derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from latentgraph.errors import InputError


class Geometry(ABC):
    """A space with a distance. Points are the rows of a floating-point tensor."""

    def project(self, x: Tensor) -> Tensor:
        """Map any vectors (..., d) to points of the space; points of the space stay where they are."""
        return x

    @abstractmethod
    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared distance between points (..., d) and (..., d), row by row with broadcasting: (...)."""

    @abstractmethod
    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared distance between all pairs of points (n, d) and (m, d): (n, m)."""

    def learned(self) -> list[Tensor]:
        """The numbers of the space that may have a gradient (`latentgraph.curvature`)."""
        return []

    def detached(self) -> Geometry:
        """The same space with plain numbers, for samplers."""
        return self


@dataclass(frozen=True)
class Euclidean(Geometry):
    """The flat space, dist(x, y) = |x - y|.

    >>> Euclidean().sq_dist(torch.tensor([0., 0.]), torch.tensor([3., 4.]))
    tensor(25.)
    """

    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        return (x - y).square().sum(-1)

    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        return _chord(x, y).square()


@dataclass(frozen=True)
class PoincareBall(Geometry):
    r"""Hyperbolic space of constant negative curvature -c, as the open ball of radius 1 / sqrt(c), c = `curvature`.

    .. math:: d(x, y) = \frac{1}{\sqrt{c}} \cosh^{-1}\left(1 + 2 \frac{c |x - y|^2}{(1 - c|x|^2)(1 - c|y|^2)}\right)

    Points outside the ball are moved to the sphere of relative radius 1 - eps just inside it; points inside that
    sphere are not touched. eps is 1e-5 in single and 1e-10 in double precision: the nearest to the boundary at which
    1 - c|x|^2 still has three good digits.

    >>> ball = PoincareBall()
    >>> ball.project(torch.tensor([[0.3, 0.4], [30., 40.]], dtype=torch.float64)).norm(dim=1)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """

    curvature: float | Tensor = 1.0  # a tensor is 0-d, and may have a gradient: `latentgraph.curvature`

    def __post_init__(self) -> None:
        if not 0 < self.curvature < float("inf"):
            raise InputError(
                f"curvature={self.curvature!r} but the Poincare ball needs a positive number c (its curvature is -c). "
                "Pass a value such as 1.0, or use Euclidean() for a flat space."
            )

    def learned(self) -> list[Tensor]:
        return [self.curvature] if isinstance(self.curvature, Tensor) else []

    def detached(self) -> PoincareBall:
        return PoincareBall(_plain(self.curvature))

    def project(self, x: Tensor) -> Tensor:
        scale, norm = _safe_norm(x)
        limit = (1 - _ball_eps(x.dtype)) / self.curvature**0.5
        ratio = (limit / scale).clamp_max(x.shape[-1])  # of points outside, none reaches the clamp
        return torch.where(norm > ratio, limit * (x / scale / norm), x)

    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        chord = torch.linalg.vector_norm(x - y, dim=-1)
        return self._from_chord(chord, self._gap(x) * self._gap(y))

    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        return self._from_chord(_chord(x, y), self._gap(x)[:, None] * self._gap(y)[None, :])

    def _gap(self, x: Tensor) -> Tensor:
        """1 - c |x|^2, kept positive for points that were not projected."""
        return (1 - self.curvature * x.square().sum(-1)).clamp_min(_ball_eps(x.dtype))

    def _from_chord(self, chord: Tensor, gaps: Tensor) -> Tensor:
        # arcosh(1 + 2 z) = 2 arsinh(sqrt(z)): the right-hand side keeps its digits for small z.
        c = self.curvature
        return (4 / c) * torch.asinh(chord * (c / gaps).sqrt()).square()


@dataclass(frozen=True)
class Sphere(Geometry):
    """The sphere of radius 1 / sqrt(curvature), dist(x, y) = the angle between x and y times the radius.

    Points are given by their directions, as unit vectors for every radius. Vectors are divided by their norm; the zero
    vector, which has no direction, becomes the first axis.

    >>> Sphere().sq_dist(torch.tensor([1., 0.]), torch.tensor([-1., 0.])).sqrt()
    tensor(3.1416)
    """

    curvature: float | Tensor = 1.0  # a tensor is 0-d, and may have a gradient: `latentgraph.curvature`

    def __post_init__(self) -> None:
        if not 0 < self.curvature < float("inf"):
            raise InputError(
                f"curvature={self.curvature!r} but a sphere needs a positive number, 1 / radius^2. "
                "Pass a value such as 1.0, or use Euclidean() for a flat space."
            )

    def learned(self) -> list[Tensor]:
        return [self.curvature] if isinstance(self.curvature, Tensor) else []

    def detached(self) -> Sphere:
        return Sphere(_plain(self.curvature))

    def project(self, x: Tensor) -> Tensor:
        scale, norm = _safe_norm(x)
        pole = torch.zeros_like(x)
        pole[..., 0] = 1
        is_zero = (x.abs() < torch.finfo(x.dtype).tiny).all(-1, keepdim=True)  # as good as zero: 1 / |x| overflows
        return torch.where(is_zero, pole, x / scale / norm)

    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        return self._sq_arc(torch.linalg.vector_norm(x - y, dim=-1), torch.linalg.vector_norm(x + y, dim=-1))

    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        return self._sq_arc(_chord(x, y), _chord(x, -y))

    def _sq_arc(self, chord: Tensor, antichord: Tensor) -> Tensor:
        """From |x - y| and |x + y| of unit vectors: good digits from coincident to antipodal."""
        return (2 / self.curvature**0.5 * torch.atan2(chord, antichord)).square()


@dataclass(frozen=True)
class Product(Geometry):
    """A product of spaces: each takes its share of the coordinates, squared distances add.

    >>> space = Product([(Euclidean(), 2), (Sphere(), 3)])
    >>> space.project(torch.ones(1, 5))
    tensor([[1.0000, 1.0000, 0.5774, 0.5774, 0.5774]])
    """

    factors: Sequence[tuple[Geometry, int]]

    def __post_init__(self) -> None:
        factors = tuple((geometry, int(dim)) for geometry, dim in self.factors)
        if not factors or any(dim < 1 for _, dim in factors):
            raise InputError(
                f"Product got factors {factors!r}; it needs at least one (geometry, dim) pair, each with dim >= 1, "
                "such as Product([(Euclidean(), 2), (PoincareBall(), 2)])."
            )
        object.__setattr__(self, "factors", factors)

    def learned(self) -> list[Tensor]:
        numbers = [number for geometry, _ in self.factors for number in geometry.learned()]
        return list({id(number): number for number in numbers}.values())  # factors may share one

    def detached(self) -> Product:
        return Product([(geometry.detached(), dim) for geometry, dim in self.factors])

    def project(self, x: Tensor) -> Tensor:
        return torch.cat([g.project(part) for g, part in self._split(x)], dim=-1)

    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self._split(x), self._split(y), strict=True)
        return torch.stack([g.sq_dist(px, py) for (g, px), (_, py) in parts]).sum(0)

    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self._split(x), self._split(y), strict=True)
        return torch.stack([g.sq_cdist(px, py) for (g, px), (_, py) in parts]).sum(0)

    def _split(self, x: Tensor) -> list[tuple[Geometry, Tensor]]:
        dims = [dim for _, dim in self.factors]
        if x.shape[-1] != sum(dims):
            raise InputError(
                f"the points have {x.shape[-1]} coordinates but the product space has {'+'.join(map(str, dims))} = "
                f"{sum(dims)}. Make the embedding's output width {sum(dims)}, or change the product's dimensions."
            )
        ends = [0, *torch.tensor(dims).cumsum(0).tolist()]
        return [(g, x[..., a:b]) for (g, _), (a, b) in zip(self.factors, pairwise(ends), strict=True)]


def _plain(number: float | Tensor) -> float:
    return number.item() if isinstance(number, Tensor) else number


def _chord(x: Tensor, y: Tensor) -> Tensor:
    """|x_i - y_j| for all pairs, from coordinate differences: |x|^2 + |y|^2 - 2xy loses the digits of close pairs."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def _safe_norm(x: Tensor) -> tuple[Tensor, Tensor]:
    """(s, |x / s|) with s the largest coordinate: neither 1e30 nor 1e-30 over- or underflows.

    |x / s| is at least 1; for the zero vector it is set to 1, so that a division by it stays finite.
    """
    tiny = torch.finfo(x.dtype).tiny
    scale = x.detach().abs().amax(-1, keepdim=True).clamp_min(tiny)
    return scale, torch.linalg.vector_norm(x / scale, dim=-1, keepdim=True).clamp_min(1.0)


def _ball_eps(dtype: torch.dtype) -> float:
    return 1e-10 if dtype == torch.float64 else 1e-5
