"""Graph convolutional and graph attention networks on a given graph, two layers each, as they are usually trained."""

from __future__ import annotations

from torch import Tensor, nn

from latentgraph import diffusion
from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.dropout import Dropout
from latentgraph.model import DGMNet
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack, gat


class GCN(NetworkMethod):
    """Two graph convolutions, 64 hidden features, dropout 0.5. The features may be sparse."""

    hidden, dropout = 64, 0.5

    def network(self, population: Population) -> nn.Module:
        layers = Stack(
            SparseLinear(population.x.shape[1], self.hidden, dropout=self.dropout),
            diffusion.Diffusion(),
            nn.ReLU(),
            Dropout(self.dropout),
            diffusion.GCN(self.hidden, population.num_classes),
        )
        return DGMNet([(None, layers)])


class SkipGCN(GCN):
    """The same with skip connections, z = S x + D^-1/2 A D^-1/2 x Theta: a node's own features are not only averaged.

    The control for networks with skip connections on a learned graph: what do these alone gain?
    """

    def network(self, population: Population) -> nn.Module:
        layers = Stack(
            _Skip(population.x.shape[1], self.hidden, self.dropout),
            nn.ReLU(),
            _Skip(self.hidden, population.num_classes, self.dropout),
        )
        return DGMNet([(None, layers)])


class _Skip(nn.Module):
    def __init__(self, in_features: int, out_features: int, dropout: float) -> None:
        super().__init__()
        self.skip = SparseLinear(in_features, out_features, dropout=dropout)
        self.diffused = SparseLinear(in_features, out_features, bias=False, dropout=dropout)
        self.diffuse = diffusion.Diffusion()

    def forward(self, x: Tensor, graph: diffusion.Graph) -> Tensor:
        return self.skip(x) + self.diffuse(self.diffused(x), graph)


class GAT(NetworkMethod):
    """Two attention layers on 64 linear features, 8 heads that are averaged, 16 hidden features, dropout 0.5."""

    hidden, heads, dropout = 16, 8, 0.5

    def network(self, population: Population) -> nn.Module:
        linear = SparseLinear(population.x.shape[1], 64, dropout=self.dropout)
        widths = [64, self.hidden, population.num_classes]
        return DGMNet([(None, gat(widths, heads=self.heads, dropout=self.dropout))], pre=linear)
