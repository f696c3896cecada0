"""A perceptron: what is known of a row without its neighbours."""

from __future__ import annotations

from torch import Tensor, nn

from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.dropout import Dropout
from latentgraph.model import DGMNet
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack


class MLP(NetworkMethod):
    """One hidden layer of 64, dropout 0.5. The features may be sparse."""

    hidden, dropout = 64, 0.5

    def graph(self, population: Population) -> Tensor | None:
        return None

    def network(self, population: Population) -> nn.Module:
        layers = Stack(
            SparseLinear(population.x.shape[1], self.hidden, dropout=self.dropout),
            nn.ReLU(),
            Dropout(self.dropout),
            nn.Linear(self.hidden, population.num_classes),
        )
        return DGMNet([(None, layers)])
