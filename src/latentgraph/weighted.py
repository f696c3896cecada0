r"""Convolutions on a sampled graph whose edges have weights :math:`w_{ij}`: where all are 1, the plain ones.

The weights carry the gradient from the task to the graph (`latentgraph.gradients`). Candidates that were not sampled
have weight zero: they change no result, but their weights have gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.graph import LatentGraph


def weighted_sum(graph: LatentGraph, h: Tensor) -> Tensor:
    r""":math:`\sum_j w_{ij} h_j`: (n, c) -> (n, c)."""
    return weighted_sum_over_neighbors(graph.weighed, _weights(graph, h), h, graph.weighed_backwards)


def weighted_mean(graph: LatentGraph, h: Tensor) -> Tensor:
    r""":math:`\sum_j w_{ij} h_j / k`, where k is the number of i's neighbours; zero if there are none."""
    return weighted_sum(graph, h) / _degree(graph)


def weighted_diffusion(graph: LatentGraph, h: Tensor) -> Tensor:
    r""":math:`(h_i + \sum_j w_{ij} h_j) / (k + 1)`, the diffusion of a graph convolution.

    Where nodes may have sampled themselves (`loop`), a node that did has k neighbours and itself among them, any other
    k + 1; and nodes may have different k. In general :math:`D^{-1/2} (W + I') D^{-1/2} h` with the degrees D of the
    sampled graph, self-loops included, and I' for those who have not sampled themselves.
    """
    assert graph.neighbors is not None
    n, k = graph.neighbors.shape
    if not graph.loop and graph.kept is None:
        return (h + weighted_sum(graph, h)) / (k + 1)
    own = graph.neighbors == torch.arange(n, device=h.device)[:, None]
    missing = ~(own if graph.kept is None else own & graph.kept).any(1, keepdim=True)
    scale = (graph.degrees[:, None] + missing.to(h.dtype)).rsqrt()
    scaled = scale * h
    return scale * (missing * scaled + weighted_sum(graph, scaled))


def weighted_attention(graph: LatentGraph, h: Tensor, u: Tensor, v: Tensor, slope: float) -> Tensor:
    r"""Attention :math:`\alpha_{ij} \propto w_{ij} \exp(\text{LeakyReLU}(u_i + v_j))`, where a node sees itself, too.

    h (n, heads, c), u and v (n, heads) -> (n, heads, c)
    """
    over = graph.weighed
    n, m = over.shape
    own = over == torch.arange(n, device=h.device)[:, None]  # with loop=True; it counts once, below
    weights = _weights(graph, h).masked_fill(own, 0.0)
    theirs = v.index_select(0, over.reshape(-1)).view(n, m, -1)
    score = F.leaky_relu(torch.cat([u + v, (u[:, None] + theirs).flatten(1)], 1), slope).view(n, m + 1, -1)
    # The largest among those that count is 0, so that their sum does not underflow; the others do not overflow.
    counts = F.pad(weights > 0, (1, 0), value=True)[..., None]
    score = score - score.detach().masked_fill(~counts, -torch.inf).amax(1, keepdim=True)
    share = F.pad(weights, (1, 0), value=1.0)[..., None] * score.clamp_max(30.0).exp()
    share = share / share.sum(1, keepdim=True)
    neighbours = h.index_select(0, over.reshape(-1)).view(n, m, *h.shape[1:])
    return share[:, 0, :, None] * h + torch.einsum("imh,imhc->ihc", share[:, 1:], neighbours)


def weighted_aggregate(graph: LatentGraph, message: Tensor, aggr: str) -> Tensor:
    r"""Messages (n, m, c) -> (n, c): :math:`\sum_j w_{ij} m_{ij}`, that over k, or :math:`\max_j w_{ij} m_{ij}`.

    The maximum is over sampled edges: another one cannot win, and its weight has no gradient. Without edges all are 0.
    """
    assert graph.neighbors is not None
    k = graph.neighbors.shape[1]
    weighted = _weights(graph, message)[..., None] * message
    sampled, others = weighted[:, :k], weighted[:, k:]
    if graph.kept is not None:
        if aggr == "max":
            largest = sampled.masked_fill(~graph.kept[..., None], -torch.inf).max(1).values
            return largest.masked_fill(graph.degrees[:, None] == 0, 0.0)
        return sampled.sum(1) if aggr == "sum" else sampled.sum(1) / _degree(graph)
    if aggr == "max":
        return sampled.max(1).values
    # Apart from each other: the sampled ones are then added up in the same order as without weights.
    return sampled.sum(1) + others.sum(1) if aggr == "sum" else sampled.mean(1) + others.sum(1) / k


def _degree(graph: LatentGraph) -> int | Tensor:
    """k, or (n, 1): what a mean over neighbours divides by."""
    assert graph.neighbors is not None
    return graph.neighbors.shape[1] if graph.kept is None else graph.degrees[:, None].clamp_min(1)


def _weights(graph: LatentGraph, h: Tensor) -> Tensor:
    assert graph.weights is not None
    return graph.weights.to(h.dtype)
