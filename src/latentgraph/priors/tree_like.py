"""The embedding's distances should look like those of a tree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes
from latentgraph.geometry import Geometry
from latentgraph.graph import LatentGraph
from latentgraph.priors.prior import Prior, positive

# The three ways to cut four points into two pairs, as columns of the six distances of `PAIRS`.
PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))


@dataclass(eq=False)
class TreeLike(Prior):
    r"""Gromov's four-point condition, on random quadruples of nodes.

    Of the three sums :math:`\Delta_{01} + \Delta_{23}, \; \Delta_{02} + \Delta_{13}, \; \Delta_{03} + \Delta_{12}` the
    two largest are equal if and only if the distances are those of points of a tree. With
    :math:`S_1 \ge S_2 \ge S_3` the sums in order,

    .. math:: L = \text{mean of } \frac{S_1 - S_2}{\max_{ab} \Delta_{ab}} \in [0, 1]

    which is twice the hyperbolicity :math:`\delta` of a quadruple, by its diameter: 0 for a tree, 0.59 for a square.
    Each quadruple has its own diameter, so that no outlier makes all others look small. It is about the embedding
    alone, whatever kind of graph it has, and the temperature does not matter.

    Parameters
    ----------
    quadruples : how many in every step, of four different nodes of a graph. Graphs of three nodes or fewer are trees

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], requires_grad=True)
    >>> TreeLike()(DiscreteDGM(torch.nn.Identity(), k=1)(square), square, square)
    tensor(0.5858, grad_fn=<MeanBackward0>)
    """

    quadruples: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "quadruples")

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        drawn = draw_quadruples(graph_sizes(graph.batch, graph.num_nodes), self.quadruples, generator)
        if not len(drawn):
            return graph.x_hat.new_zeros(())
        return hyperbolicity(graph.x_hat, drawn.to(graph.x_hat.device), graph.geometry).mean()


def hyperbolicity(x_hat: Tensor, quadruples: Tensor, geometry: Geometry) -> Tensor:
    """2 delta / diameter of quadruples (q, 4) of points (n, d_hat): (q,). Zero where all four are one point."""
    ends = [x_hat.index_select(0, quadruples[:, corner]) for corner in range(4)]
    sq_dist = torch.stack([geometry.sq_dist(ends[a], ends[b]) for a, b in PAIRS], dim=1)  # (q, 6)
    apart = sq_dist > 0
    distance = torch.where(apart, sq_dist, 1.0).sqrt() * apart  # the slope at zero is set to zero
    sums = distance.view(-1, 3, 2).sum(2).sort(1).values
    diameter = distance.amax(1)
    return (sums[:, 2] - sums[:, 1]) / torch.where(diameter > 0, diameter, 1.0)


def draw_quadruples(sizes: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """(count, 4) different nodes of one graph each, the graphs in proportion to their nodes: all four alike in law.

    `sizes` (graphs,) are their nodes; those with fewer than four are left out, and if all are, the result is (0, 4).
    """
    first = sizes.cumsum(0) - sizes
    large = sizes >= 4
    first, sizes = first[large], sizes[large]
    if not len(sizes):
        return torch.empty(0, 4, dtype=torch.long)
    node = torch.randint(int(sizes.sum()), (count,), generator=generator)
    which = torch.searchsorted(sizes.cumsum(0), node, right=True)
    first, sizes = first.index_select(0, which), sizes.index_select(0, which)
    chosen = torch.empty(count, 0, dtype=torch.long)
    for taken in range(4):
        # The r-th of those that are not taken: pass each taken one, from the smallest on, that is not behind r.
        uniform = torch.rand(count, dtype=torch.float64, generator=generator)
        place = (uniform * (sizes - taken)).long()
        for column in chosen.sort(1).values.unbind(1):
            place = place + (place >= column)
        chosen = torch.cat([chosen, place[:, None]], dim=1)
    return first[:, None] + chosen
