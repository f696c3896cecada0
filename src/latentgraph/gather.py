"""Sums over the k neighbours of each node, forward and backward by gathering: nothing is scattered."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Backwards(NamedTuple):
    """The graph of (n, k) neighbours read backwards: its n k edges, sorted by who was chosen, then by who chose.

    Numbers of 32 bits where they suffice.
    """

    chooser: Tensor  # (n k) who chose
    start: Tensor  # (n,), or one for each that can be chosen: where the edges of each chosen node begin
    edge: Tensor  # (n k) which edge it is in the order of the choosers


def backwards(neighbors: Tensor, num_sources: int | None = None) -> Backwards:
    """With k edges into every node there may be any number out of it; `num_sources` (default n) can be chosen."""
    n, k = neighbors.shape
    num_sources = n if num_sources is None else num_sources
    if neighbors.device.type == "cpu" and max(n * k, num_sources) < 1 << 31:
        return _counted(neighbors, num_sources)
    chosen, edge = neighbors.reshape(-1).sort(stable=True)
    return Backwards(edge // k, torch.searchsorted(chosen, torch.arange(num_sources, device=chosen.device)), edge)


def _counted(neighbors: Tensor, num_sources: int) -> Backwards:
    """By counting, which takes a fifth of the time of sorting. scipy has it: it turns rows into columns that way."""
    from scipy.sparse import csr_array

    n, k = neighbors.shape
    columns = neighbors.to(torch.int32).reshape(-1).numpy()
    number, first_of_row = (torch.arange(0, n * k + 1, step, dtype=torch.int32).numpy() for step in (1, k))
    turned = csr_array((number[:-1], columns, first_of_row), shape=(n, num_sources)).tocsc()
    chooser, start, edge = (torch.from_numpy(part) for part in (turned.indices, turned.indptr, turned.data))
    return Backwards(chooser, start[:-1], edge)


def sum_over_neighbors(neighbors: Tensor, h: Tensor, turned: Backwards) -> Tensor:
    """(n, k) neighbours of each node, features (m, c) of all that can be chosen -> the sum over them (n, c)."""
    out: Tensor = _GatherSum.apply(neighbors, h, *turned)  # type: ignore[no-untyped-call]
    return out


def mean_with_neighbors(neighbors: Tensor, h: Tensor, turned: Backwards) -> Tensor:
    """(n, k) neighbours of each node, features (n, c) -> the mean over the node itself and its neighbours (n, c)."""
    out: Tensor = _GatherMean.apply(neighbors, h, *turned)  # type: ignore[no-untyped-call]
    return out


def weighted_sum_over_neighbors(neighbors: Tensor, weights: Tensor, h: Tensor, turned: Backwards | None) -> Tensor:
    """The same with a weight (n, k) for each edge, differentiable in the weights, too.

    `turned` is None where no gradient is wanted: sorting the edges would take time and memory for nothing.
    """
    if turned is None:
        return F.embedding_bag(neighbors, h, per_sample_weights=weights, mode="sum")
    out: Tensor = _WeightedGatherSum.apply(neighbors, weights, h, *turned)  # type: ignore[no-untyped-call]
    return out


class _GatherSum(torch.autograd.Function):
    """Forward, node i sums over those it chose; backward, node j sums the gradients of those who chose it."""

    @staticmethod
    def forward(ctx: Any, neighbors: Tensor, h: Tensor, chooser: Tensor, start: Tensor, edge: Tensor) -> Tensor:
        ctx.save_for_backward(chooser, start)
        return _sums(neighbors, h)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chooser, start = ctx.saved_tensors
        return None, F.embedding_bag(chooser, grad.contiguous(), start, mode="sum"), None, None, None


class _GatherMean(torch.autograd.Function):
    """As above, with the node itself, and divided by k + 1: in place, for each pass over (n, c) numbers counts."""

    @staticmethod
    def forward(ctx: Any, neighbors: Tensor, h: Tensor, chooser: Tensor, start: Tensor, edge: Tensor) -> Tensor:
        ctx.save_for_backward(chooser, start)
        ctx.members = neighbors.shape[1] + 1
        return _sums(neighbors, h).add_(h.detach()).div_(ctx.members)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chooser, start = ctx.saved_tensors
        back = F.embedding_bag(chooser, grad.contiguous(), start, mode="sum")
        return None, back.add_(grad).div_(ctx.members), None, None, None


class _WeightedGatherSum(torch.autograd.Function):
    """As above; the gradient of a weight is the product of what came and what was wanted, edge by edge."""

    @staticmethod
    def forward(
        ctx: Any, neighbors: Tensor, weights: Tensor, h: Tensor, chooser: Tensor, start: Tensor, edge: Tensor
    ) -> Tensor:
        ctx.save_for_backward(neighbors, weights, h, chooser, start, edge)
        return _sums(neighbors, h, weights.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        neighbors, weights, h, chooser, start, edge = ctx.saved_tensors
        grad = grad.contiguous()
        turned = weights.reshape(-1).index_select(0, edge)
        of_h = F.embedding_bag(chooser, grad, start, per_sample_weights=turned, mode="sum")
        return None, _products(neighbors, h, grad), of_h, None, None, None


def _sums(neighbors: Tensor, h: Tensor, weights: Tensor | None = None) -> Tensor:
    """Detached: torch's embedding bag would prepare for a backward pass of its own, and take twice as long."""
    return F.embedding_bag(neighbors, h.detach(), per_sample_weights=weights, mode="sum")


def _products(neighbors: Tensor, h: Tensor, grad: Tensor) -> Tensor:
    """h_j . grad_i for each edge from a neighbour j of i: (n, k).

    By what torch's own embedding bag has for the gradient of its weights: it never holds (n, k, c) numbers.
    """
    n, k = neighbors.shape
    first_of_row = torch.arange(0, n * k, k, device=h.device)
    row = torch.arange(n, device=h.device).repeat_interleave(k)
    products: Tensor = torch.ops.aten._embedding_bag_per_sample_weights_backward(
        grad, h.contiguous(), neighbors.reshape(-1), first_of_row, row, 0
    )
    return products.view(n, k)
