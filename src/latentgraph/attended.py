r"""Convolutions with a skip connection, on whose edges the gradient goes from the task to the graph."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from latentgraph.diffusion import Diffusion, Graph
from latentgraph.errors import InputError
from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.gradients.softmax import sampled_softmax
from latentgraph.graph import LatentGraph, Part
from latentgraph.sparse_linear import SparseLinear


class SkipDiffusion(nn.Module):
    r"""Skip connection and diffusion, where the edges count as the graph says (:math:`w_{ij}`, or 1),

    .. math:: z_i = S h_i + \Theta \, \frac{h_i + \sum_{j \in \mathcal N_i} w_{ij} h_j}{k + 1}

    On an edge list it is the mean over the neighbours, and half of it the node itself. The features may be sparse;
    `dropout` is of their entries.
    """

    def __init__(self, in_features: int, out_features: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.skip = SparseLinear(in_features, out_features, dropout=dropout)
        self.diffused = SparseLinear(in_features, out_features, bias=False, dropout=dropout)
        self.diffuse = Diffusion()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return self._diffused(x, graph) + self.skip(x)

    def _diffused(self, x: Tensor, graph: Graph) -> Tensor:
        h = self.diffused(x)
        return self._on(graph, h) if isinstance(graph, LatentGraph) else (h + _mean(h, graph)) / 2

    def _on(self, graph: LatentGraph, h: Tensor) -> Tensor:
        return self.diffuse(h, graph)


class Attended(SkipDiffusion):
    r"""The same with the weights :math:`w_{ij} = k \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}`,

    .. math:: z_i = S h_i + \Theta \, \frac{h_i + k \sum_{j \in \mathcal N_i} q_{ij} h_j}{k + 1}, \qquad
              q_{ij} = \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}

    Which neighbours are sampled has no gradient, but their weights q have: the task loss itself moves f, without a
    reward. A graph that has weights of its own (`latentgraph.gradients`) keeps them.
    """

    def _on(self, graph: LatentGraph, h: Tensor) -> Tensor:
        if graph.weights is not None:
            return self.diffuse(h, graph)
        if graph.neighbors is None or graph.log_p is None:
            raise InputError("Attended weighs sampled edges, but a continuous graph has none. Use GCN or GAT.")
        if graph.kept is not None:
            return self.diffuse(h, replace(graph, weights=sampled_softmax(graph)))
        k = graph.neighbors.shape[1]
        q = graph.log_p.view(-1, k).softmax(1).to(h.dtype)
        if torch.is_grad_enabled():
            mean = weighted_sum_over_neighbors(graph.places, q, graph.sources(h), graph.backwards)
            return (h + k * mean) / (k + 1)
        # The same in place: a million rows of 64 features are half a gigabyte each time.
        mean = weighted_sum_over_neighbors(graph.places, q, graph.sources(h), None)
        return mean.mul_(k).add_(h).div_(k + 1)


def _mean(h: Tensor, graph: Tensor | Part) -> Tensor:
    (source, target), rows = (graph, h) if isinstance(graph, Tensor) else (graph.local_edges, graph.sources(h))
    degree = target.bincount(minlength=len(h)).clamp_min(1)
    return torch.zeros_like(h).index_add(0, target, rows.index_select(0, source)) / degree[:, None]
