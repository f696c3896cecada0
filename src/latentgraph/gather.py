"""Sums over the k neighbours of each node, forward and backward by gathering: nothing is scattered."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def choosers(neighbors: Tensor) -> tuple[Tensor, Tensor]:
    """Who chose each node: (n, k) neighbours -> (n k) choosing nodes, sorted by whom they chose, and where each begins.

    With k edges into every node but any number out of it, this is the graph read backwards.
    """
    n, k = neighbors.shape
    chosen, order = neighbors.reshape(-1).sort(stable=True)
    return order // k, torch.searchsorted(chosen, torch.arange(n, device=chosen.device))


def sum_over_neighbors(neighbors: Tensor, h: Tensor, chosen_by: tuple[Tensor, Tensor]) -> Tensor:
    """(n, k) neighbours of each node, features (n, c) -> the sum over them (n, c). `chosen_by` is `choosers`."""
    out: Tensor = _GatherSum.apply(neighbors, h, *chosen_by)  # type: ignore[no-untyped-call]
    return out


class _GatherSum(torch.autograd.Function):
    """Forward, node i sums over those it chose; backward, node j sums the gradients of those who chose it."""

    @staticmethod
    def forward(ctx: Any, neighbors: Tensor, h: Tensor, chooser: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(chooser, start)
        return F.embedding_bag(neighbors, h, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chooser, start = ctx.saved_tensors
        return None, F.embedding_bag(chooser, grad.contiguous(), start, mode="sum"), None, None
