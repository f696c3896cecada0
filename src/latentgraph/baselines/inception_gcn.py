"""InceptionGCN (Kazi et al. 2019): filters of several reaches side by side, on the population graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from latentgraph.baselines.method import Population
from latentgraph.baselines.population_graph import PopulationGraphMethod, summed_graph
from latentgraph.baselines.spectral_gcn import Chebyshev, rescaled_laplacian
from latentgraph.graph import LatentGraph


class InceptionGCN(PopulationGraphMethod):
    """Chebyshev filters of orders 1, 3 and 6 with 16 features each, joined; then of orders 1 and 3, the maximum."""

    hidden, dropout = 16, 0.3
    orders = ((1, 3, 6), (1, 3))
    lr = 5e-3  # as for `SpectralGCN`, from which this differs by the orders alone

    def graph(self, population: Population) -> Tensor | None:
        return rescaled_laplacian(summed_graph(population, self.rules))

    def network(self, population: Population) -> nn.Module:
        return InceptionNet(population.x.shape[1], self.hidden, population.num_classes, self.orders, self.dropout)


class InceptionNet(nn.Module):
    is_stochastic = False

    def __init__(
        self, inputs: int, hidden: int, classes: int, orders: tuple[Sequence[int], Sequence[int]], dropout: float
    ) -> None:
        super().__init__()
        self.first = nn.ModuleList(Chebyshev(inputs, hidden, order) for order in orders[0])
        self.second = nn.ModuleList(Chebyshev(hidden * len(orders[0]), classes, order) for order in orders[1])
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, graph: Tensor, batch: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, list[LatentGraph]]:
        x = self.dropout(x.to_dense())
        x = self.dropout(torch.cat([filter_(x, graph) for filter_ in self.first], dim=1).relu())
        return torch.stack([filter_(x, graph) for filter_ in self.second]).amax(0), []
