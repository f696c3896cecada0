"""Whom a node could have sampled: for gradients that weigh edges that were not."""

from __future__ import annotations

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.probability import log_p_of_neighbors
from latentgraph.sampling import nearest
from latentgraph.sampling.noise import draw_seed, exponential_noise_of_pairs

FEW = 64  # candidates of a node that are always affordable


def default_count(k: int) -> int:
    """All others in a graph of up to 65 nodes, else at least four times as many as are sampled."""
    return max(FEW, 4 * k)


@torch.no_grad()
def candidates(graph: LatentGraph, count: int | None = None, *, guests: int = 0) -> Tensor:
    """(n, m) candidates of each node: its k sampled neighbours in their order, then the nearest others, nearest first.

    Parameters
    ----------
    count : m at most, default 64 or 4 k. In a batch of graphs there are no more than the smallest of them has
    guests : the last rows of the graph, which choose among the others
    """
    assert graph.neighbors is not None
    if graph.kept is not None:
        raise InputError(
            "the nodes have different numbers of neighbours, but this gradient chooses k of them for every node. Use "
            "Softmax, StraightThrough, Reinforce or PlackettLuce, or leave degrees out."
        )
    k = graph.neighbors.shape[1]
    x_hat = graph.x_hat.detach()
    residents = x_hat[: len(x_hat) - guests]
    others = _smallest_graph(graph.batch, len(residents)) - (not graph.loop)
    if others < k:  # with fill=True
        raise InputError(
            f"a graph has {others} candidates for k={k} neighbours, so nothing to choose. Use a gradient that "
            "weighs sampled edges only (Softmax, StraightThrough), or lower k."
        )
    m = max(k, min(default_count(k) if count is None else count, others))
    near = nearest(residents, m, geometry=graph.geometry, loop=graph.loop, batch=graph.batch)
    if guests:
        theirs = nearest(x_hat[len(residents) :], m, geometry=graph.geometry, candidates=residents)
        near = torch.cat([near, theirs])
    chosen = (near[:, :, None] == graph.neighbors[:, None]).any(2)
    order = chosen.to(torch.uint8).argsort(dim=1, stable=True)  # those not chosen come first, still nearest first
    return torch.cat([graph.neighbors, near.gather(1, order)[:, : m - k]], dim=1)


def log_p_of(graph: LatentGraph, candidates: Tensor) -> Tensor:
    """(n, m) log p of the candidates, differentiable."""
    return log_p_of_neighbors(graph.x_hat, candidates, graph.temperature, graph.geometry)


def exponential(
    candidates: Tensor, *, guests: int = 0, keys: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Independent Exp(1) variables (n, m) in double precision, the same for a row whoever else is in the call."""
    n, m = candidates.shape
    rows = torch.arange(n - guests, device=candidates.device)
    if guests:
        rows = torch.cat([rows, -1 - torch.arange(guests, device=rows.device) if keys is None else keys])
    seed = draw_seed(generator)
    pairs = exponential_noise_of_pairs(seed, rows.repeat_interleave(m), candidates.reshape(-1), torch.float64)
    return pairs.view(n, m)


def _smallest_graph(batch: Tensor | None, nodes: int) -> int:
    return nodes if batch is None else int(torch.unique_consecutive(batch, return_counts=True)[1].min())
