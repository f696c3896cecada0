"""The edges and the non-edges of a graph as pairs of different nodes, whichever way an edge points."""

from __future__ import annotations

import torch
from torch import Tensor

from latentgraph.errors import InputError


def codes_of(edge_index: Tensor, n: int) -> Tensor:
    """(2, e) edges -> (e,) the number i n + j of each pair i <= j: both directions have the same."""
    return edge_index.amin(0) * n + edge_index.amax(0)


def pairs_of(codes: Tensor, n: int) -> Tensor:
    """(m,) numbers of pairs -> (2, m) pairs."""
    return torch.stack([codes // n, codes % n])


def edge_codes(edge_index: Tensor, n: int) -> Tensor:
    """(m,) the pairs that are joined, ascending, each once; nobody is a pair with itself."""
    return codes_of(edge_index[:, edge_index[0] != edge_index[1]], n).unique()


def draw_non_edges(edges: Tensor, n: int, count: int, generator: torch.Generator) -> Tensor:
    """(count,) pairs of different nodes that no edge joins, drawn uniformly, with replacement.

    edges : (m,) all pairs that are joined, ascending, each once
    """
    free = n * (n - 1) // 2 - len(edges)
    if free <= 0:
        raise InputError("the input graph joins all pairs of nodes: there is nothing to tell its edges from.")
    found: list[Tensor] = []
    missing = count
    while missing > 0:
        # Of n^2 ordered pairs 2 x free will do.
        ends = torch.randint(n, (2, missing * n * n // (2 * free) + 8), generator=generator)
        drawn = codes_of(ends[:, ends[0] != ends[1]].to(edges.device), n)
        found.append(drawn[~torch.isin(drawn, edges)][:missing])
        missing -= len(found[-1])
    return torch.cat(found)
