"""Graphs too small for k neighbours: everybody is a neighbour, and a node has itself in the places left."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# (embedding, graph ids) of nodes whose graphs are large enough -> (n, k) neighbours
Choose = Callable[[Tensor, Tensor], Tensor]


def others_in_graph(batch: Tensor | None, num_nodes: int) -> Tensor:
    """(n,) how many other nodes the graph of each node has; `batch` holds ascending graph ids."""
    if batch is None:
        return torch.full((num_nodes,), num_nodes - 1)
    _, number, sizes = torch.unique_consecutive(batch, return_inverse=True, return_counts=True)
    others: Tensor = sizes.index_select(0, number) - 1
    return others


def with_small_graphs(choose: Choose, x_hat: Tensor, k: int, batch: Tensor | None) -> Tensor:
    """(n, k) neighbours: chosen where a graph has more than k nodes; else all others, then the node itself.

    Nothing is random in a small graph, and the order of its neighbours (that of the rows) means nothing.

    >>> batch = torch.tensor([0, 0, 0, 1])  # graphs of three nodes and of one
    >>> with_small_graphs(lambda x, b: x, torch.randn(4, 2), 3, batch)
    tensor([[1, 2, 0],
            [0, 2, 1],
            [0, 1, 2],
            [3, 3, 3]])
    """
    n, device = len(x_hat), x_hat.device
    batch = torch.zeros(n, dtype=torch.long, device=device) if batch is None else batch
    others = others_in_graph(batch, n)
    large = (others >= k).nonzero()[:, 0]
    if len(large) == n:
        return choose(x_hat, batch)
    own = torch.arange(n, device=device)[:, None]
    first = torch.searchsorted(batch, batch)[:, None]  # the first node of each node's graph
    place = torch.arange(k, device=device)
    other = first + place
    neighbors = torch.where(place < others[:, None], other + (other >= own), own)
    if len(large):
        chosen = choose(x_hat.index_select(0, large), batch.index_select(0, large))
        neighbors[large] = large[chosen]
    return neighbors
