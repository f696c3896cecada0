"""Sampled edges weighted by their probabilities, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from latentgraph.gradients.gradient import Gradient
from latentgraph.graph import LatentGraph


def sampled_softmax(graph: LatentGraph) -> Tensor:
    r""":math:`w_{ij} = k \, \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}` over the sampled edges: (n, k).

    A node that has fewer than k neighbours has their number in the place of k, and weight zero where there is no edge.
    """
    assert graph.neighbors is not None
    assert graph.log_p is not None
    if graph.kept is None:
        k = graph.neighbors.shape[1]
        return k * graph.log_p.view(-1, k).softmax(1)
    # Not -inf: a row without any neighbour would be nan instead of zero.
    log_p = graph.per_node(graph.log_p, missing=torch.finfo(graph.log_p.dtype).min)
    return graph.degrees[:, None] * log_p.softmax(1)


@dataclass
class Softmax(Gradient):
    r"""Weights :math:`w_{ij} = k \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}`, which sum to k.

    The forward pass is another one than that of equal weights: near neighbours count more. Of its gradient the task
    loss has the part that goes through the weights; that other edges might have been sampled is left out.
    """

    def weigh(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        return replace(graph, weights=sampled_softmax(graph))
