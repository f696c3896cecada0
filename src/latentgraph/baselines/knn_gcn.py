"""What one would try before learning a graph: graph convolutions on the nearest neighbours of the features."""

from __future__ import annotations

from torch import Tensor

from latentgraph.baselines.gcn import GCN
from latentgraph.baselines.method import Population
from latentgraph.graph import neighbors_to_edges
from latentgraph.sampling import nearest


class KnnGCN(GCN):
    """The network of `GCN` on the graph of the 10 nearest rows; a given graph is not used."""

    k = 10

    def graph(self, population: Population) -> Tensor | None:
        x = population.x.to_dense()
        return neighbors_to_edges(nearest(x, min(self.k, len(x) - 1)))
