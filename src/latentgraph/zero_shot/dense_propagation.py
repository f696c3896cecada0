"""DGP, dense graph propagation: every class is connected to all its descendants, and to all its ancestors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from latentgraph.dropout import Dropout
from latentgraph.graph import LatentGraph
from latentgraph.sparse import LastSeen
from latentgraph.zero_shot.classes import Classes
from latentgraph.zero_shot.given_graph import SGCN
from latentgraph.zero_shot.hierarchy import SparseMatrix, by_distance, child_matrix, needed, row_normalised, stacked


class DensePropagationNet(nn.Module):
    r"""Two phases, descendants and then ancestors, with a learned weight for every distance:

    .. math:: H = \sigma\Big(\sum_{d=0}^K \alpha_d \, (D_d^{\downarrow})^{-1} A_d^{\downarrow} X \Theta\Big), \qquad
              W = \sum_{d=0}^K \beta_d \, (D_d^{\uparrow})^{-1} A_d^{\uparrow} H \Theta', \qquad
              \alpha, \beta = \text{softmax of learned numbers}

    The matrices are those of `hierarchy.by_distance`: d = 0 is the node itself, d = K all that are K or more steps
    away. The first phase is computed for the targets and their ancestors alone, which is exact.
    """

    def __init__(
        self,
        parent_edges: Tensor,
        widths: tuple[int, int, int],
        n: int,
        learn: int,
        targets: int,
        *,
        furthest: int,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        children = child_matrix(parent_edges, n)
        up = [row_normalised(matrix)[:targets] for matrix in by_distance(children.T, furthest)]
        relevant = needed(stacked(up), np.arange(len(up) * targets))  # the targets and their ancestors
        down = [row_normalised(matrix)[relevant] for matrix in by_distance(children, furthest)]
        self.down = nn.ModuleList(map(SparseMatrix, down))
        self.up = nn.ModuleList(SparseMatrix(matrix[:, relevant]) for matrix in up)
        self.down_weight = nn.Parameter(torch.zeros(furthest + 1))
        self.up_weight = nn.Parameter(torch.zeros(furthest + 1))
        self.first = nn.Linear(widths[0], widths[1], bias=False)
        self.second = nn.Linear(widths[1], widths[2], bias=False)
        self.between = nn.Sequential(nn.LeakyReLU(0.2), Dropout(dropout))
        self.learn, self.targets = learn, targets
        self.is_stochastic = False
        self._down = LastSeen[Tensor]()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        """All word vectors (n, d) -> rows (targets, c), in training (learn, c); no learned graphs."""
        means = self._down.get(x, lambda: torch.stack([matrix(x) for matrix in self.down]))  # (K + 1, r, d)
        h = self.between(self.first(torch.einsum("k,krd->rd", self.down_weight.softmax(0), means)))
        beta = self.up_weight.softmax(0)
        collected = torch.stack([b * matrix(h) for b, matrix in zip(beta, self.up, strict=True)]).sum(0)
        return self.second(collected[: self.learn] if self.training else collected), []


class DGP(SGCN):
    """`DensePropagationNet` with distances up to `furthest` told apart."""

    furthest: int = 4

    def network(self, classes: Classes) -> nn.Module:
        widths = (classes.x.shape[1], self.hidden[0], classes.rows.shape[1])
        return DensePropagationNet(
            classes.parent_edges,
            widths,
            len(classes.x),
            classes.learn,
            classes.targets,
            furthest=self.furthest,
            dropout=self.dropout,
        )
