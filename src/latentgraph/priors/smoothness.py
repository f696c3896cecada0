"""Neighbours should be alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from latentgraph.blocks import Block
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.priors.law import Law, log_share
from latentgraph.priors.prior import Prior, positive

Signal = Literal["out", "x"]


@dataclass(eq=False)
class Smoothness(Prior):
    r"""The expected Dirichlet energy of the output, or of the features, h, along the edges of the graph.

    .. math:: L = \sum_i \sum_{j \in C_i} P_{ij} \, |h_i - h_j|^2 \Big/
              \sum_i \sum_{j \in C_i} \frac{1}{|C_i|} \, |h_i - h_j|^2

    with :math:`C_i` the candidates of i. 0 where neighbours are equal, 1 for edges to anybody; the scale of h does not
    matter. All candidates count by their probability, not only those that were sampled, so both the graph and h learn.

    Parameters
    ----------
    of : "out", the network's output (class scores before the softmax), or "x", the features that it is given
    rows : so many random nodes, with all their candidates, in every step. None: all

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> x = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> graph = DiscreteDGM(torch.nn.Identity(), k=1, temperature=1.0)(x)
    >>> bool(Smoothness("x")(graph, x, x) < 0.001)
    True
    """

    of: Signal = "out"
    rows: int | None = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "rows")
        if self.of not in get_args(Signal):
            raise InputError(f"of={self.of!r}; choose one of {get_args(Signal)}.")

    @property
    def name(self) -> str:
        return f"smoothness_{self.of}_prior"

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        h = x if self.of == "x" else out
        if len(h) != graph.num_nodes or h.layout != torch.strided:
            raise InputError(
                f"Smoothness(of={self.of!r}) needs a dense row for each of the {graph.num_nodes} nodes, but this is a "
                f"{h.layout} tensor of shape {tuple(h.shape)}. Use the other of 'out' and 'x'."
            )
        law = Law.of(graph)
        h = h.flatten(1).to(graph.x_hat.dtype)
        h = h - law.mean_of_graphs(h)
        rows = law.some(self.rows, generator)
        return energies(law, h, rows).mean() / _energy_of_anybody(law, h).clamp_min(torch.finfo(h.dtype).tiny)


def energies(law: Law, h: Tensor, rows: Tensor | None = None) -> Tensor:
    r"""(rows,) :math:`\sum_j P_{ij} |h_i - h_j|^2` of some nodes, default all; h (n, c) is centred, or digits are lost.

    :math:`= |h_i|^2 + (P |h|^2)_i - 2 \, h_i \cdot (P h)_i`: a matrix product for each block.
    """
    squares = h.square().sum(1, keepdim=True)
    own = torch.arange(len(h), device=h.device) if rows is None else rows

    def of_rows(log_w: Tensor, gone: Tensor, block: Block, seen: Tensor) -> Tensor:
        return log_share(log_w, gone).exp() @ seen[block.columns]

    seen = torch.cat([h, squares, torch.ones_like(squares)], dim=1)
    mean = law.over_rows(of_rows, seen, rows=rows)
    mine = seen.index_select(0, own)
    # The last column is 1, or 0 for a node without candidates.
    return mean[:, -1] * mine[:, -2] + mean[:, -2] - 2 * (mine[:, :-2] * mean[:, :-2]).sum(1)


def _energy_of_anybody(law: Law, h: Tensor) -> Tensor:
    r"""The mean of the energies if all candidates were as probable: that of :math:`2 s |h_i|^2 / |C_i|`, with s nodes
    in the graph of i, and h centred.
    """
    size = law.sizes.index_select(0, law.number)
    return (2 * size / law.candidates.clamp_min(1) * h.square().sum(1)).mean()
