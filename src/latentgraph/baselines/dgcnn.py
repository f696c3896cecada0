"""DGCNN: edge convolutions on the nearest neighbours of the features, found again in every layer."""

from __future__ import annotations

from torch import Tensor, nn

from latentgraph import presets
from latentgraph.baselines.method import NetworkMethod, Population


class DGCNN(NetworkMethod):
    """Two edge convolutions of width 16 with 5 neighbours each, and a linear classifier."""

    def graph(self, population: Population) -> Tensor | None:
        return None

    def network(self, population: Population) -> nn.Module:
        return presets.dgcnn(population.x.shape[1], population.num_classes)
