"""Operations that all processes take part in, with their gradients.

The loss of a step is the sum of the processes' parts. So the gradient of what one process has given to all is the sum
of the gradients that all of them have computed for it: gathering forward is adding up backward, and sending forward is
sending back. Whatever a process computes from the same numbers as all others counts once: `gather_same`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from latentgraph.distributed.group import Team

# torch 2.13 has renamed it.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def gather(x: Tensor, sizes: Sequence[int], team: Team) -> Tensor:
    """Rows (sizes[rank], ...) of each process -> all rows, in the order of the processes. Backward: the sum."""
    out: Tensor = _Gather.apply(x, tuple(sizes), team, True)  # type: ignore[no-untyped-call]
    return out


def gather_same(x: Tensor, sizes: Sequence[int], team: Team) -> Tensor:
    """The same for what every process goes on to compute alike, such as a mean over all rows.

    Backward, nothing is sent: each process has the gradient of all rows already, and takes that of its own.
    """
    out: Tensor = _Gather.apply(x, tuple(sizes), team, False)  # type: ignore[no-untyped-call]
    return out


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: tuple[int, ...], team: Team, adds_up: bool) -> Tensor:
        ctx.sizes, ctx.team, ctx.adds_up = sizes, team, adds_up
        most = max(sizes)
        padded = x.contiguous() if len(x) == most else torch.cat([x, x.new_zeros(most - len(x), *x.shape[1:])])
        whole = x.new_empty(team.size * most, *x.shape[1:])
        with team.collective("gather", (sum(sizes) - len(x)) * _bytes_of_a_row(x)):
            _all_gather(whole, padded)
        if min(sizes) == most:
            return whole
        return torch.cat([part[:size] for part, size in zip(whole.split(most), sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        team, sizes = ctx.team, ctx.sizes
        if not ctx.adds_up:
            start = sum(sizes[: team.rank])
            return grad[start : start + sizes[team.rank]], None, None, None
        mine = sizes[team.rank]
        parts = _all_to_all(grad.contiguous(), sizes, [mine] * team.size, team)
        return parts.unflatten(0, (team.size, mine)).sum(0), None, None, None


def send_rows(x: Tensor, to: Sequence[int], come: Sequence[int], team: Team) -> Tensor:
    """Rows for each process, those for the first at the top -> rows from each process. Backward: the way back.

    Parameters
    ----------
    x : (sum(to), ...)
    to : how many of the rows go to each process
    come : how many come from each

    Returns
    -------
    (sum(come), ...)
    """
    out: Tensor = _SendRows.apply(x, tuple(to), tuple(come), team)  # type: ignore[no-untyped-call]
    return out


class _SendRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, to: tuple[int, ...], come: tuple[int, ...], team: Team) -> Tensor:
        ctx.to, ctx.come, ctx.team = to, come, team
        return _all_to_all(x, to, come, team)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _all_to_all(grad.contiguous(), ctx.come, ctx.to, ctx.team), None, None, None


def _all_to_all(x: Tensor, to: Sequence[int], come: Sequence[int], team: Team) -> Tensor:
    out = x.new_empty(sum(come), *x.shape[1:])
    with team.collective("exchange", (sum(come) - come[team.rank]) * _bytes_of_a_row(x)):
        dist.all_to_all_single(out, x.contiguous(), list(come), list(to))
    return out


def total(x: Tensor, team: Team) -> Tensor:
    """The sum of the tensors of all processes, entry by entry. Backward: the sum of their gradients, too."""
    out: Tensor = _Total.apply(x, team)  # type: ignore[no-untyped-call]
    return out


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, team: Team) -> Tensor:
        ctx.team = team
        return _added_up(x.clone(), team)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _added_up(grad.clone(memory_format=torch.contiguous_format), ctx.team), None


def _added_up(x: Tensor, team: Team) -> Tensor:
    with team.collective("sum", 2 * x.numel() * x.element_size() * (team.size - 1) // team.size):
        dist.all_reduce(x)
    return x


@torch.no_grad()
def add_gradients(parameters: Iterable[nn.Parameter], team: Team) -> None:
    """Replace the gradient of every parameter by the sum over the processes.

    A parameter without a gradient in all of them stays without: an optimiser passes it over. The sums are the same
    in every process, bit for bit, so that parameters stay the same, too.
    """
    groups: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            groups.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    for (dtype, device), members in groups.items():
        there = torch.tensor([p.grad is not None for p in members], dtype=dtype, device=device)
        parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in members]
        flat = _added_up(torch.cat([there, *parts]), team)
        there, grads = flat[: len(members)], flat[len(members) :].split([p.numel() for p in members])
        for parameter, known, grad in zip(members, there.tolist(), grads, strict=True):
            parameter.grad = grad.view_as(parameter).clone() if known else None


def from_first(x: Tensor, team: Team) -> Tensor:
    """The tensor of the first process, in place of everybody's: of the same shape and type."""
    with team.collective("broadcast", 0 if team.first else x.numel() * x.element_size()):
        dist.broadcast(x, src=0)
    return x


def count_all(numbers: Sequence[int], team: Team) -> list[list[int]]:
    """Some whole numbers of each process, told to all: one list for each process."""
    mine = torch.tensor(list(numbers), dtype=torch.long)
    found = gather(mine[None], [1] * team.size, team)
    return found.tolist()


def _bytes_of_a_row(x: Tensor) -> int:
    return x.element_size() * (x.numel() // len(x) if len(x) else 0)
