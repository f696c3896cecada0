"""Walking over all pairs of nodes without holding all pairs.

Everything quadratic in this library (distances, continuous adjacency, normalisers) is computed for a block of rows
at a time, with the columns that those rows may see. Where gradients are needed a block is computed again in the
backward pass instead of being kept: memory stays O(n + block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

BLOCK = 1 << 20  # pairs held at a time: 4 MB in single precision


@dataclass(frozen=True)
class Block:
    """Rows [row_start, row_stop) of a list of rows, and the nodes [start, stop) they may connect to."""

    row_start: int
    row_stop: int
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        return slice(self.row_start, self.row_stop)

    @property
    def columns(self) -> slice:
        return slice(self.start, self.stop)


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


def pair_tiles(batch: Tensor | None, num_nodes: int) -> Iterator[Block]:
    """Square tiles that meet each pair of nodes of a graph once; those on the diagonal meet it as (i, j) and (j, i).

    For functions of all pairs that are symmetric: half of the pairs tell the rest. A tile is a quarter of a block,
    1 MB in single precision, and stays in the cache of a core. Small graphs share a tile.
    """
    side = max(1, isqrt(BLOCK) // 2)
    spans: list[tuple[int, int]] = []
    for size in graph_sizes(batch, num_nodes).tolist():
        start, stop = spans.pop() if spans else (0, 0)
        if stop - start + size > side and stop > start:
            spans.append((start, stop))
            start = stop
        spans.append((start, stop + size))
    for start, stop in spans:
        for row in range(start, stop, side):
            for column in range(row, stop, side):
                yield Block(row, min(row + side, stop), column, min(column + side, stop))


def other_graph(batch: Tensor | None, rows: Tensor, block: Block) -> Tensor | None:
    """Mask (rows, columns) of the pairs of a block that belong to different graphs; None if there are none."""
    if batch is None or batch[block.start] == batch[block.stop - 1]:
        return None
    return batch.index_select(0, rows)[:, None] != batch[None, block.start : block.stop]


def recomputed(
    function: Callable[..., Tensor], blocks: Iterator[Block], *inputs: Tensor, parameters: Iterable[Tensor] = ()
) -> Tensor:
    """Concatenate `function(block, *inputs)` over blocks, keeping of each block nothing but its result.

    Gradients go to `inputs` and to `parameters`: what else the function computes with, such as the weights of a module.
    What fits into a single block is kept: computing it again would only cost time.
    """
    todo = list(blocks)
    if len(todo) == 1:
        return function(todo[0], *inputs)
    return _Recomputed.apply(function, todo, len(inputs), *inputs, *parameters)  # type: ignore[no-untyped-call]


class _Recomputed(torch.autograd.Function):
    """All blocks as one node of the autograd graph, whose backward pass computes each block, and its gradients, anew.

    One checkpoint for each block would do the same on paper. But it keeps thousands of small things between the large
    ones that come and go; these leave holes in the heap into which the next block does not fit, and the process
    grows with n^2 after all.
    """

    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Tensor], todo: list[Block], num_inputs: int, *tensors: Tensor
    ) -> Tensor:
        ctx.function, ctx.todo, ctx.num_inputs = function, todo, num_inputs
        ctx.save_for_backward(*tensors)
        device = tensors[0].device.type
        ctx.precision = torch.autocast(device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        ctx.random_state, (ctx.devices, ctx.device_states) = torch.get_rng_state(), get_device_states(*tensors)
        out: Tensor | None = None
        for block in todo:
            rows = function(block, *tensors[:num_inputs])
            if out is None:
                out = rows.new_empty(todo[-1].row_stop, *rows.shape[1:])
            out[block.row_start : block.row_stop] = rows
        assert out is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed, saved = ctx.needs_input_grad[3:], ctx.saved_tensors
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in saved[: ctx.num_inputs]]
        wanted = [x for x, need in zip([*inputs, *saved[ctx.num_inputs :]], needed, strict=True) if need]
        totals = [torch.zeros_like(x) for x in wanted]
        with torch.enable_grad(), ctx.precision, torch.random.fork_rng(devices=ctx.devices):
            torch.set_rng_state(ctx.random_state)  # dropout drops the same again
            set_device_states(ctx.devices, ctx.device_states)
            for block in ctx.todo:
                rows = ctx.function(block, *inputs)
                parts = torch.autograd.grad(rows, wanted, grad[block.row_start : block.row_stop], allow_unused=True)
                for total, part in zip(totals, parts, strict=True):
                    if part is not None:
                        total += part
        found = iter(totals)
        return None, None, None, *(next(found) if need else None for need in needed)
