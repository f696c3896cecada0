r"""A convolution that trains the graph directly: sampled neighbours, weighted by their probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from latentgraph.diffusion import Graph
from latentgraph.errors import InputError
from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.graph import LatentGraph, Part
from latentgraph.sparse_linear import SparseLinear


class Attended(nn.Module):
    r"""Skip connection and weighted mean over the sampled neighbours,

    .. math:: z_i = S h_i + \Theta \, \frac{h_i + k \sum_{j \in \mathcal N_i} q_{ij} h_j}{k + 1}, \qquad
              q_{ij} = \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}

    Which neighbours are sampled has no gradient, but their weights q have: the task loss itself moves f, without a
    reward. On an edge list all neighbours weigh the same. The features may be sparse; `dropout` is of their entries.
    """

    def __init__(self, in_features: int, out_features: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.skip = SparseLinear(in_features, out_features, dropout=dropout)
        self.diffused = SparseLinear(in_features, out_features, bias=False, dropout=dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        h = self.diffused(x)
        if isinstance(graph, LatentGraph):
            if graph.neighbors is None or graph.log_p is None:
                raise InputError("Attended weighs sampled edges, but a continuous graph has none. Use GCN or GAT.")
            k = graph.neighbors.shape[1]
            q = graph.log_p.view(-1, k).softmax(1).to(h.dtype)
            mean = weighted_sum_over_neighbors(graph.places, q, graph.sources(h), graph.backwards)
            return self.skip(x) + (h + k * mean) / (k + 1)
        return self.skip(x) + (h + _mean(h, graph)) / 2


def _mean(h: Tensor, graph: Tensor | Part) -> Tensor:
    (source, target), rows = (graph, h) if isinstance(graph, Tensor) else (graph.local_edges, graph.sources(h))
    degree = target.bincount(minlength=len(h)).clamp_min(1)
    return torch.zeros_like(h).index_add(0, target, rows.index_select(0, source)) / degree[:, None]
