"""Curvature as something to learn."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.geometry import Geometry, PoincareBall, Product, Sphere


class LearnedCurvature(nn.Module):
    r"""The curvatures of balls and spheres as parameters, :math:`c = e^\lambda`, so that no step makes one negative.

    Give it to a graph module in the place of a geometry. Samplers get the numbers of the moment; the gradient comes by
    log p, or by the weights of edges, as that of the temperature does.

    Alone, a curvature adds nothing: a ball of curvature c is that of curvature 1 with f's output times
    :math:`\sqrt c` and the temperature over c, a sphere is that with the temperature over c. In a product the
    curvatures say how much each factor counts, and how bent a ball is where the points are.

    Parameters
    ----------
    geometry : `PoincareBall`, `Sphere`, or a `Product` with any of them; its curvatures are the initial ones

    Examples
    --------
    >>> from latentgraph.geometry import Euclidean
    >>> from latentgraph.layers import DiscreteDGM
    >>> space = LearnedCurvature(Product([(Euclidean(), 2), (PoincareBall(0.5), 2)]))
    >>> dgm = DiscreteDGM(nn.Linear(8, 4), k=3, geometry=space)
    >>> dgm(torch.randn(20, 8)).log_p.sum().backward()
    >>> bool(space.log_curvature[0].grad != 0)
    True
    """

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        geometry = geometry.detached()
        initial = _curvatures(geometry)
        if not initial:
            raise InputError(
                f"{geometry!r} has no curvature to learn. Use PoincareBall(), Sphere(), or a Product with one of them."
            )
        self.initial = geometry
        # One by one, not as a vector: `training.fit` lets vectors decay, but not single numbers.
        self.log_curvature = nn.ParameterList(nn.Parameter(torch.tensor(math.log(c))) for c in initial)

    def forward(self) -> Geometry:
        """The space with the curvatures of the moment, differentiable."""
        return _with_curvatures(self.initial, (number.exp() for number in self.log_curvature))

    def extra_repr(self) -> str:
        return repr(self().detached())


def _curvatures(geometry: Geometry) -> list[float]:
    match geometry:
        case PoincareBall() | Sphere():
            return [float(geometry.curvature)]
        case Product():
            return [c for factor, _ in geometry.factors for c in _curvatures(factor)]
        case _:
            return []


def _with_curvatures(geometry: Geometry, curvatures: Iterator[Tensor]) -> Geometry:
    """The same space, each ball and sphere with the next of these curvatures."""
    match geometry:
        case PoincareBall():
            return PoincareBall(next(curvatures))
        case Sphere():
            return Sphere(next(curvatures))
        case Product():
            return Product([(_with_curvatures(factor, curvatures), dim) for factor, dim in geometry.factors])
        case _:
            return geometry
