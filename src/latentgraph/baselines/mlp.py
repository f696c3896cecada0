"""A perceptron: what is known of a row without its neighbours."""

from __future__ import annotations

from torch import Tensor, nn

from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.model import DGMNet
from latentgraph.stacks import mlp


class MLP(NetworkMethod):
    """One hidden layer of 64, dropout 0.5."""

    hidden, dropout = 64, 0.5

    def graph(self, population: Population) -> Tensor | None:
        return None

    def network(self, population: Population) -> nn.Module:
        widths = [population.x.shape[1], self.hidden, population.num_classes]
        return DGMNet([(None, mlp(widths, dropout=self.dropout))])
