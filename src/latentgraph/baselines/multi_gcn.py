"""Multi-GCN (Kazi et al. 2019, self-attention equipped): a graph and a branch for each meta column, then a vote."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from latentgraph.baselines.method import Population
from latentgraph.baselines.population_graph import PopulationGraphMethod, graph_of_each
from latentgraph.graph import LatentGraph


class MultiGCN(PopulationGraphMethod):
    """Branches of two graph convolutions, 16 hidden features, dropout 0.3; how far each is trusted is learned."""

    hidden, dropout = 16, 0.3

    def graph(self, population: Population) -> Tensor | None:
        return symmetric_normalised(graph_of_each(population, self.rules))

    def network(self, population: Population) -> nn.Module:
        branches = max(len(self.rules), 1)
        return MultiNet(branches, population.x.shape[1], self.hidden, population.num_classes, self.dropout)


class MultiNet(nn.Module):
    is_stochastic = False

    def __init__(self, branches: int, inputs: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(inputs, hidden) for _ in range(branches))
        self.second = nn.ModuleList(nn.Linear(hidden, classes) for _ in range(branches))
        self.dropout = nn.Dropout(dropout)
        self.trust = nn.Parameter(torch.zeros(branches, classes))  # all the same at first

    @property
    def attention(self) -> Tensor:
        """(branches, classes) how much a branch counts for a class; sums to one over the branches."""
        return self.trust.softmax(0)

    def forward(
        self, x: Tensor, graph: Tensor, batch: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, list[LatentGraph]]:
        x = x.to_dense()
        outs = []
        for first, second, matrix in zip(self.first, self.second, graph, strict=True):
            hidden = (matrix @ first(self.dropout(x))).relu()
            outs.append(matrix @ second(self.dropout(hidden)))
        return (torch.stack(outs) * self.attention[:, None]).sum(0), []


def symmetric_normalised(weights: Tensor) -> Tensor:
    """D^-1/2 (W + I) D^-1/2 of each of the graphs (m, n, n)."""
    weights = weights + torch.eye(weights.shape[1])
    scale = weights.sum(2).rsqrt()
    return scale[:, :, None] * weights * scale[:, None]
