"""Graph convolutional and graph attention networks on a given graph, two layers each, as they are usually trained."""

from __future__ import annotations

from torch import nn

from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.model import DGMNet
from latentgraph.stacks import gat, gcn


class GCN(NetworkMethod):
    """Two graph convolutions, 64 hidden features, dropout 0.5."""

    hidden = 64

    def network(self, population: Population) -> nn.Module:
        return DGMNet([(None, gcn([population.x.shape[1], self.hidden, population.num_classes], dropout=0.5))])


class GAT(NetworkMethod):
    """Two attention layers, 8 heads that are averaged, 16 hidden features, dropout 0.5."""

    hidden, heads = 16, 8

    def network(self, population: Population) -> nn.Module:
        widths = [population.x.shape[1], self.hidden, population.num_classes]
        return DGMNet([(None, gat(widths, heads=self.heads, dropout=0.5))])
