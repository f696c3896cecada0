"""Who answers for whom: the edges of a node matter to every node that reaches it."""

from __future__ import annotations

import torch
from torch import Tensor

from latentgraph.graph import LatentGraph


@torch.no_grad()
def credit(graph: LatentGraph, delta: Tensor, hops: int | None) -> Tensor:
    r""":math:`\sum_{i \to j} \delta_i` over the nodes i that come to j in at most `hops` steps: (n,) -> (n,).

    A step goes from a node to one that it sampled, whose features it collects. None: over all nodes of j's graph. A
    node is counted once, on however many paths it comes. Whether i comes to j does not depend on the edges of j itself
    (a path that ends in j need not use them), so leaving the others out keeps a gradient unbiased.
    """
    if hops is None:
        if graph.batch is None:
            return delta.sum().expand(len(delta))
        _, number = torch.unique_consecutive(graph.batch, return_inverse=True)
        totals = delta.new_zeros(int(number[-1]) + 1).index_add(0, number, delta)
        return totals.index_select(0, number)
    assert graph.neighbors is not None
    n, k = graph.neighbors.shape
    start = delta.nonzero()[:, 0]
    own = torch.arange(n, device=delta.device)[:, None]
    # A step along an edge that is not there leads nowhere else.
    steps = graph.neighbors if graph.kept is None else torch.where(graph.kept, graph.neighbors, own)
    pairs = start * n + start  # i n + j: i comes to j
    for _ in range(hops):
        begun = (pairs // n).repeat_interleave(k)
        pairs = torch.cat([pairs, begun * n + steps.index_select(0, pairs % n).reshape(-1)]).unique()
    return torch.zeros_like(delta).index_add(0, pairs % n, delta.index_select(0, pairs // n))
