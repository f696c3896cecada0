"""Walking over all pairs of nodes without holding all pairs.

Everything quadratic in this library (distances, continuous adjacency, normalisers) is computed for a block of rows
at a time, with the columns that those rows may see. Where gradients are needed a block is computed again in the
backward pass instead of being kept: memory stays O(n + block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK = 1 << 20  # pairs held at a time: 4 MB in single precision


@dataclass(frozen=True)
class Block:
    """Rows [row_start, row_stop) of a list of rows, and the nodes [start, stop) they may connect to."""

    row_start: int
    row_stop: int
    start: int
    stop: int


def graph_sizes(batch: Tensor | None, num_nodes: int) -> Tensor:
    """Number of nodes of each graph; `batch` holds ascending graph ids, None means a single graph."""
    if batch is None:
        return torch.tensor([num_nodes])
    counts: Tensor = torch.unique_consecutive(batch, return_counts=True)[1]
    return counts.cpu()


def row_blocks(rows_per_graph: list[int], nodes_per_graph: list[int], budget: int | None = None) -> Iterator[Block]:
    """Cut rows, sorted by graph, into blocks of at most `budget` pairs (but never less than one row).

    A large graph is cut into many blocks; many small graphs share one block, whose pairs across graphs the caller
    masks (`other_graph`): a few wasted pairs cost less than one call per tiny graph.
    """
    budget = budget or BLOCK
    row, node = 0, 0
    pending = Block(0, 0, 0, 0)
    for num_rows, num_nodes in zip(rows_per_graph, nodes_per_graph, strict=True):
        merged = Block(pending.row_start, row + num_rows, pending.start, node + num_nodes)
        if (merged.row_stop - merged.row_start) * (merged.stop - merged.start) <= budget:
            pending = merged
        else:
            if pending.row_stop > pending.row_start:
                yield pending
            step = max(1, budget // max(num_nodes, 1))
            cuts = [*range(row, row + num_rows, step), row + num_rows]
            for a, b in pairwise(cuts[:-1]):
                yield Block(a, b, node, node + num_nodes)
            pending = Block(cuts[-2] if num_rows else row, row + num_rows, node, node + num_nodes)
        row, node = row + num_rows, node + num_nodes
    if pending.row_stop > pending.row_start:
        yield pending


def all_rows(batch: Tensor | None, num_nodes: int, budget: int | None = None) -> Iterator[Block]:
    """The blocks that cover every node as a row."""
    sizes = graph_sizes(batch, num_nodes).tolist()
    return row_blocks(sizes, sizes, budget)


def other_graph(batch: Tensor | None, rows: Tensor, block: Block) -> Tensor | None:
    """Mask (rows, columns) of the pairs of a block that belong to different graphs; None if there are none."""
    if batch is None or batch[block.start] == batch[block.stop - 1]:
        return None
    return batch.index_select(0, rows)[:, None] != batch[None, block.start : block.stop]


def recomputed(function: Callable[..., Tensor], blocks: Iterator[Block], *inputs: Tensor) -> Tensor:
    """Concatenate `function(block, *inputs)` over blocks, keeping of each block nothing but its result.

    What fits into a single block is kept: computing it again would only cost time.
    """
    todo = list(blocks)
    if len(todo) == 1 or not torch.is_grad_enabled():
        return torch.cat([function(block, *inputs) for block in todo])
    return torch.cat([checkpoint(function, block, *inputs, use_reentrant=False) for block in todo])
