"""What one process knows, told to all; and what all must be able to do, or none does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from latentgraph.checkpoint import _pack, _unpack
from latentgraph.distributed.collectives import count_all, from_first, gather
from latentgraph.distributed.group import Team
from latentgraph.errors import InputError, SaidByFirstError

T = TypeVar("T")


def tell(value: Any, team: Team) -> Any:
    """What the first process has, in every process: dicts, lists, numbers, texts, tensors, and None."""
    tensors: dict[str, Tensor] = {}
    shapes: list[tuple[str, list[int], str]] = []
    text = b""
    if team.first:
        tree = _pack(value, "it", tensors)
        shapes = [(name, list(x.shape), str(x.dtype).removeprefix("torch.")) for name, x in tensors.items()]
        text = json.dumps([tree, shapes]).encode()
    size = int(from_first(torch.tensor(len(text)), team))
    data = from_first(torch.frombuffer(bytearray(text), dtype=torch.uint8) if team.first else _empty(size), team)
    tree, shapes = json.loads(bytes(data.tolist()))
    for name, shape, dtype in shapes:
        x = tensors[name].contiguous() if team.first else torch.empty(shape, dtype=getattr(torch, dtype))
        # As bytes: not every way of sending knows every type.
        flat = from_first(x.reshape(-1).view(torch.uint8).clone(), team)
        tensors[name] = flat.view(x.dtype).view(shape)
    return _unpack(tree, tensors)


def _empty(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8)


def first_decides(function: Callable[[], T], team: Team | None) -> T:
    """Call a function in the first process only, and tell its result to all; a complaint of it ends all of them."""
    if team is None:
        return function()
    found, error = None, None
    if team.first:
        try:
            found = function()
        except (InputError, OSError) as trouble:
            error = trouble
    fine = tell(error is None, team)
    if error is not None:
        raise error
    if not fine:
        raise SaidByFirstError("the first process says why.")
    result: T = tell(found, team)
    return result


def together(function: Callable[[], T], team: Team | None) -> T:
    """Call a function in every process; if one of them complains, all end, and the first says why."""
    if team is None:
        return function()
    found: Any = None
    words = ""
    error: InputError | OSError | None = None
    try:
        found = function()
    except (InputError, OSError) as trouble:
        error, words = trouble, str(trouble) or type(trouble).__name__
    data = torch.tensor(list(words.encode()), dtype=torch.uint8)
    sizes = [size for (size,) in count_all([len(data)], team)]
    if not any(sizes):
        return found
    all_words = bytes(gather(data, sizes, team).tolist())
    if error is not None and team.first:
        raise error
    if not team.first:
        raise SaidByFirstError("the first process says why.")
    who = next(rank for rank, size in enumerate(sizes) if size)
    raise InputError(f"process {who}: {all_words[: sizes[who]].decode()}")


@torch.no_grad()
def begin_alike(modules: Iterable[nn.Module], team: Team) -> None:
    """The weights and buffers of the first process, in every process."""
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.numel():
                # As bytes of a copy: not every way of sending knows every type.
                data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).clone()
                tensor.copy_(from_first(data, team).view(tensor.dtype).view(tensor.shape))
