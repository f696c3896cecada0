"""Networks on a graph that is given, computed for the rows that matter: exact, and a fraction of the whole graph.

SGCN and GCNZ on the knowledge graph; the same network on nearest neighbours of the word vectors, and without a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from latentgraph.dropout import Dropout
from latentgraph.graph import LatentGraph
from latentgraph.sampling import nearest
from latentgraph.sparse import LastSeen
from latentgraph.zero_shot.classes import Classes
from latentgraph.zero_shot.hierarchy import (
    SparseMatrix,
    neighbourhood,
    restricted,
    row_normalised,
    symmetric_normalised,
)
from latentgraph.zero_shot.network import RowNetwork


class GivenGraphNet(nn.Module):
    r"""Convolutions :math:`X^{(l+1)} = \sigma(P X^{(l)} \Theta^{(l)})` with a constant P; no :math:`\sigma` at the end.

    Parameters
    ----------
    matrix : P (n, n)
    widths : of the features, from the word vectors to the rows
    learn, targets : rows that are returned, in training and in evaluation mode: the first ones
    dropout : of the hidden features
    """

    def __init__(
        self, matrix: sp.csr_array, widths: Sequence[int], learn: int, targets: int, *, dropout: float = 0.5
    ) -> None:
        super().__init__()
        depth = len(widths) - 1
        self.blocks = nn.ModuleList(map(SparseMatrix, restricted(matrix, np.arange(targets), depth)))
        self.linears = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.between = nn.Sequential(nn.LeakyReLU(0.2), Dropout(dropout))
        self.learn, self.targets = learn, targets
        self.is_stochastic = False
        self._first = LastSeen[Tensor]()  # P X: the word vectors do not change

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        """All word vectors (n, d) -> rows (targets, c), in training (learn, c); no learned graphs."""
        h = x
        for layer, (block, linear) in enumerate(zip(self.blocks, self.linears, strict=True)):
            is_last = layer == len(self.linears) - 1
            h = block(h) if layer else self._first.get(x, lambda: self.blocks[0](x))
            if is_last and self.training:
                h = h[: self.learn]
            h = linear(h)
            h = h if is_last else self.between(h)
        return h, []


class SGCN(RowNetwork):
    """Two convolutions D^-1 A X Theta on the knowledge graph: what the paper's network is without its graph modules.

    512 hidden features instead of 2,048 as in most networks here: what one core can do in a minute.
    """

    hidden: tuple[int, ...] = (512,)
    dropout: float = 0.5

    def matrix(self, classes: Classes) -> sp.csr_array:
        """P (n, n)."""
        return row_normalised(neighbourhood(classes.parent_edges, len(classes.x)))

    def network(self, classes: Classes) -> nn.Module:
        widths = [classes.x.shape[1], *self.hidden, classes.rows.shape[1]]
        return GivenGraphNet(self.matrix(classes), widths, classes.learn, classes.targets, dropout=self.dropout)

    def seen(self, classes: Classes) -> Classes:
        """All nodes of the knowledge graph, also those that a learned graph would not have."""
        return replace(super().seen(classes), num_candidates=len(classes.x))


class GCNZ(SGCN):
    """Six convolutions with the symmetric normalisation D^-1/2 A D^-1/2 on the knowledge graph.

    The widths are about a sixteenth of the original's: six hops from a thousand classes reach most of WordNet.
    """

    lr = 5e-3
    hidden = (128, 128, 64, 64, 64)

    def matrix(self, classes: Classes) -> sp.csr_array:
        return symmetric_normalised(neighbourhood(classes.parent_edges, len(classes.x)))


class NearestGraph(SGCN):
    """The same two convolutions on the k nearest neighbours of the word vectors, the node itself included."""

    k: int = 3

    def matrix(self, classes: Classes) -> sp.csr_array:
        n = classes.num_candidates
        chosen = nearest(classes.x[:n], self.k, loop=True).numpy()
        rows = np.repeat(np.arange(n), self.k)
        size = len(classes.x)
        return sp.csr_array((np.full(n * self.k, 1 / self.k, np.float32), (rows, chosen.ravel())), shape=(size, size))

    def seen(self, classes: Classes) -> Classes:
        return RowNetwork.seen(self, classes)


class NoGraph(SGCN):
    """The same two layers without a graph: each class sees its own word vector alone."""

    def matrix(self, classes: Classes) -> sp.csr_array:
        return sp.eye_array(len(classes.x), dtype=np.float32, format="csr")
