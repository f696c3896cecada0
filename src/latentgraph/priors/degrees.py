"""How often a node is chosen: no hubs, or hubs as wanted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.priors.law import Law, in_degrees
from latentgraph.priors.prior import Prior, positive


@dataclass(eq=False)
class Degrees(Prior):
    r"""The expected in-degrees, relative to their mean, against those that are wanted, smallest with smallest.

    .. math:: d_j = \sum_i P_{ij}, \qquad r_j = d_j / \bar d, \qquad L = \frac 1 n \sum_j (r_{(j)} - q_{(j)})^2

    :math:`r_{(j)}` is the j-th smallest, so L is the squared Wasserstein distance between the two distributions of
    degrees. By default q = 1, and L is the squared coefficient of variation: no hubs, and nobody left out. In a
    continuous graph :math:`d_j = \sum_i a_{ij}`. In a discrete one, k d is what j expects if the k neighbours of a node
    were drawn with replacement.

    Parameters
    ----------
    wanted : (m,) a sample of the distribution of degrees, in any order and in any unit, such as `power_law(2.5)`; it is
        interpolated where m is not the number of nodes. None: all the same
    nodes : so many random nodes in every step, as a population of their own. None: all n, in n^2 pairs

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> x = torch.tensor([[0.0], [-1.0], [1.0], [0.0]])  # two nodes in the middle
    >>> graph = DiscreteDGM(torch.nn.Identity(), k=1, temperature=3.0)(x)
    >>> bool(Degrees()(graph, x, x) > 0.5)
    True
    """

    wanted: Tensor | None = None
    nodes: int | None = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "nodes")
        if self.wanted is not None:
            self.wanted = torch.as_tensor(self.wanted)
            fine = self.wanted.ndim == 1 and bool((self.wanted >= 0).all()) and 0 < float(self.wanted.sum()) < torch.inf
            if not fine:
                raise InputError(
                    f"wanted is a tensor of shape {tuple(self.wanted.shape)}; it must be a vector of degrees, none of "
                    "them negative or NaN, and not all zero."
                )

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        law = Law.of(graph).part(self.nodes, generator)
        relative = _relative(in_degrees(law), law)
        if self.wanted is None:
            missing = relative - 1
        else:
            order = relative.detach().argsort(stable=True)
            order = order.index_select(0, law.number.index_select(0, order).argsort(stable=True))  # within each graph
            missing = relative.index_select(0, order) - _relative(_quantiles(self.wanted, law), law).to(relative)
        counts = law.candidates > 0  # a node without candidates has no degree
        return missing.square().masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)


def power_law(exponent: float, count: int = 1000) -> Tensor:
    r"""Degrees (count,) with the density :math:`d^{-\gamma}` from 1 on, at the quantiles :math:`(j - 1/2) / count`.

    >>> power_law(3.0, count=4)
    tensor([1.0690, 1.2649, 1.6330, 2.8284], dtype=torch.float64)
    """
    if not 1 < exponent < float("inf") or count < 1:
        raise InputError(f"exponent={exponent}, count={count}; a power law needs an exponent above 1, and degrees.")
    above = 1 - (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return above ** (-1 / (exponent - 1))


def _relative(degree: Tensor, law: Law) -> Tensor:
    """Degrees (n,) divided by their mean in each graph; zero where all are."""
    return degree / law.mean_of_graphs(degree).clamp_min(torch.finfo(degree.dtype).tiny)


def _quantiles(sample: Tensor, law: Law) -> Tensor:
    """(n,) ascending in each graph of s nodes: the quantiles of a sample (m,) at (j - 1/2) / s, between its values."""
    sample = sample.double().sort().values.to(law.number.device)
    size = law.sizes.index_select(0, law.number)
    first = (law.sizes.cumsum(0) - law.sizes).index_select(0, law.number)
    rank = torch.arange(len(law.number), device=first.device) - first
    place = ((rank.double() + 0.5) / size * len(sample) - 0.5).clamp(0, len(sample) - 1)
    below = place.floor().long()
    above = (below + 1).clamp_max(len(sample) - 1)
    return torch.lerp(sample.index_select(0, below), sample.index_select(0, above), place - below)
