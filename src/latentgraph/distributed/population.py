"""Layers that look at all rows of a population, where each process has some of them.

Most layers treat each row by itself. Three kinds do not: dropout, whose coins are drawn for all rows in one go;
normalisation over rows; and whatever of ours has a method `of_part(x, partition)`. Inside `as_whole` they compute what
they would compute for all rows, and give this process's. A layer that is known to look at all rows, but not how, is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from latentgraph.distributed.partition import Partition
from latentgraph.errors import InputError


@contextmanager
def as_whole(net: nn.Module, partition: Partition) -> Iterator[None]:
    """Let the layers of a network see the whole population, for as long as the block lasts."""
    changed = []
    try:
        for module in net.modules():
            if (forward := _of_part(module)) is not None:
                module.forward = partial(_called, forward, partition)
                changed.append(module)
        yield
    finally:
        for module in changed:
            vars(module).pop("forward", None)


@contextmanager
def as_it_is(net: nn.Module) -> Iterator[None]:
    """Inside `as_whole`: the layers of a network that is given all rows by itself."""
    before = [(module, vars(module).pop("forward")) for module in net.modules() if "forward" in vars(module)]
    try:
        yield
    finally:
        for module, forward in before:
            module.forward = forward


OfPart = Callable[[Tensor, Partition], Tensor]


def _called(forward: OfPart, partition: Partition, x: Tensor) -> Tensor:
    return forward(x, partition)


def _of_part(module: nn.Module) -> OfPart | None:
    """What a layer does with some rows of a population; None where it treats each row by itself."""
    own: OfPart | None = getattr(module, "of_part", None)
    if own is not None:
        return own
    if isinstance(module, nn.Dropout):
        return partial(_dropout, module)
    if isinstance(module, nn.BatchNorm1d):
        return partial(_batch_norm, module)
    if isinstance(module, _DropoutNd | _NormBase) or type(module).__module__.startswith("torch_geometric.nn.norm"):
        raise InputError(
            f"{type(module).__name__} looks at all rows, and how several processes share that is not known. Use "
            "nn.Dropout, nn.BatchNorm1d or nn.LayerNorm, give it a method of_part(x, partition), or start one process."
        )
    return None


def rows_of_all(x: Tensor, partition: Partition) -> tuple[int, slice]:
    """How many rows all processes have, and which of these are in x: a whole number of them for each node."""
    each, rest = divmod(len(x), partition.stop - partition.start)
    if rest:
        raise InputError(
            f"a layer that looks at all rows got {len(x)} of them; this process has {partition.stop - partition.start} "
            "nodes, and each must have the same number of rows."
        )
    return each * partition.num_nodes, slice(each * partition.start, each * partition.stop)


def _dropout(module: nn.Dropout, x: Tensor, partition: Partition) -> Tensor:
    """Every process draws the coins of all rows and keeps its own: the same coins as in one process."""
    if not module.training or not module.p:
        return x
    n, own = rows_of_all(x, partition)
    kept = torch.empty(n, *x.shape[1:], dtype=torch.bool, device=x.device).bernoulli_(1 - module.p)
    noise = kept[own].to(x.dtype)
    return x * (noise.div_(1 - module.p) if module.p < 1 else noise)


def _batch_norm(module: nn.BatchNorm1d, x: Tensor, partition: Partition) -> Tensor:
    n, _ = rows_of_all(x, partition)
    return batch_norm(module, x, n, partition.total)


def batch_norm(module: nn.BatchNorm1d, x: Tensor, n: int, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Batch normalisation (r, c) by mean and variance over the n rows of all processes."""
    if module.training or module.running_mean is None or module.running_var is None:
        mean = total(x.sum(0)) / n
        centred = x - mean
        variance = total(centred.square().sum(0)) / n
        if module.training and module.track_running_stats:
            _keep(module, mean.detach(), variance.detach() * n / max(n - 1, 1))
    else:
        centred, variance = x - module.running_mean, module.running_var
    out = centred * (variance + module.eps).rsqrt()
    return out if module.weight is None else out * module.weight + module.bias


@torch.no_grad()
def _keep(module: nn.BatchNorm1d, mean: Tensor, variance: Tensor) -> None:
    """Move the running mean and variance a step towards those of this batch, as torch does."""
    buffers: Any = module
    buffers.num_batches_tracked += 1
    momentum = 1.0 / float(buffers.num_batches_tracked) if module.momentum is None else module.momentum
    buffers.running_mean.lerp_(mean.to(buffers.running_mean), momentum)
    buffers.running_var.lerp_(variance.to(buffers.running_var), momentum)
