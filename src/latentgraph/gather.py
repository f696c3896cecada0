"""Sums over the k neighbours of each node, forward and backward by gathering: nothing is scattered."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Backwards(NamedTuple):
    """The graph of (n, k) neighbours read backwards: its n k edges, sorted by who was chosen."""

    chooser: Tensor  # (n k) who chose
    start: Tensor  # (n,), or one for each that can be chosen: where the edges of each chosen node begin
    edge: Tensor  # (n k) which edge it is in the order of the choosers


def backwards(neighbors: Tensor, num_sources: int | None = None) -> Backwards:
    """With k edges into every node there may be any number out of it; `num_sources` (default n) can be chosen."""
    n, k = neighbors.shape
    n = n if num_sources is None else num_sources
    chosen, edge = neighbors.reshape(-1).sort(stable=True)
    return Backwards(edge // k, torch.searchsorted(chosen, torch.arange(n, device=chosen.device)), edge)


def sum_over_neighbors(neighbors: Tensor, h: Tensor, turned: Backwards) -> Tensor:
    """(n, k) neighbours of each node, features (m, c) of all that can be chosen -> the sum over them (n, c)."""
    out: Tensor = _GatherSum.apply(neighbors, h, *turned)  # type: ignore[no-untyped-call]
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
        return F.embedding_bag(neighbors, h, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chooser, start = ctx.saved_tensors
        return None, F.embedding_bag(chooser, grad.contiguous(), start, mode="sum"), None, None, None


class _WeightedGatherSum(torch.autograd.Function):
    """As above; the gradient of a weight is the product of what came and what was wanted, edge by edge."""

    @staticmethod
    def forward(
        ctx: Any, neighbors: Tensor, weights: Tensor, h: Tensor, chooser: Tensor, start: Tensor, edge: Tensor
    ) -> Tensor:
        ctx.save_for_backward(neighbors, weights, h, chooser, start, edge)
        return F.embedding_bag(neighbors, h, per_sample_weights=weights, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        neighbors, weights, h, chooser, start, edge = ctx.saved_tensors
        grad = grad.contiguous()
        turned = weights.reshape(-1).index_select(0, edge)
        of_h = F.embedding_bag(chooser, grad, start, per_sample_weights=turned, mode="sum")
        # One neighbour of all nodes after the other: (n, c) numbers at a time instead of (n, k, c).
        of_weights = torch.stack([(h.index_select(0, column) * grad).sum(1) for column in neighbors.T], dim=1)
        return None, of_weights, of_h, None, None, None
