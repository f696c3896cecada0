"""Where a training stands, kept in a folder, so that it goes on after an interruption as if there had been none.

The folder is one of `latentgraph.store`: never half written, never a pickle. A state is a tree of dicts, lists and
numbers with tensors as leaves; the tensors go into a safetensors file, and JSON keeps the tree.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from latentgraph import store
from latentgraph.errors import InputError
from latentgraph.store.manifest import MANIFEST


class Checkpoint:
    """A folder for one training, and how often its state is written there.

    Parameters
    ----------
    folder : made when it is first written; a training whose state it holds is continued
    seconds : between two writings; 0 writes after every step. The result of the training does not depend on it
    """

    def __init__(self, folder: str | Path, seconds: float = 5.0) -> None:
        self.folder = Path(folder)
        self.seconds = seconds
        self._written = time.monotonic()

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written >= self.seconds

    def save(self, state: Mapping[str, Any]) -> None:
        tensors: dict[str, Tensor] = {}
        tree = _pack(dict(state), "state", tensors)
        store.save(self.folder, {"state.json": tree, "state.safetensors": tensors})
        self._written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last; None if there is none."""
        if not (self.folder / MANIFEST).is_file():
            return None
        parts = store.load(self.folder)
        state: dict[str, Any] = _unpack(parts.json("state.json"), parts.tensors("state.safetensors"))
        return state


class Standing:
    """Everything of a training that changes while it runs.

    Parameters
    ----------
    options : what was asked for; a state of other options is refused
    holders : what has a `state_dict` (network, optimizer, ...), by name; None for what is not there
    generator : of sampling and batches
    device : where the network is; dropout draws from its random state
    """

    def __init__(
        self, options: dict[str, Any], holders: Mapping[str, Any], generator: torch.Generator, device: torch.device
    ) -> None:
        self.options = options
        self.holders = {name: holder for name, holder in holders.items() if holder is not None}
        self.generator = generator
        self.device = device
        self._which = () if device.type == "mps" else (device,)  # of which there is one only

    def state(self) -> dict[str, Any]:
        random = {"generator": self.generator.get_state(), "cpu": torch.get_rng_state()}
        if self.device.type != "cpu":
            random["device"] = torch.get_device_module(self.device).get_rng_state(*self._which)
        holders = {name: holder.state_dict() for name, holder in self.holders.items()}
        return {"options": self.options, "holders": holders, "random": random}

    def restore(self, state: Mapping[str, Any], folder: Path) -> None:
        kept, now = state["options"], self.options
        differ = [f"{name}={kept.get(name)!r} there, {now[name]!r} here" for name in now if kept.get(name) != now[name]]
        if state["holders"].keys() != self.holders.keys():
            differ.append(f"{', '.join(state['holders'])} there, {', '.join(self.holders)} here")
        if differ:
            raise InputError(f"{folder} holds another training: {'; '.join(differ)}. {ADVICE}")
        try:
            for name, holder in self.holders.items():
                holder.load_state_dict(state["holders"][name])
        except (RuntimeError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder} holds the training of another network ({reason}) {ADVICE}") from None
        self.generator.set_state(state["random"]["generator"])
        torch.set_rng_state(state["random"]["cpu"])
        if self.device.type != "cpu":
            torch.get_device_module(self.device).set_rng_state(state["random"]["device"], *self._which)


ADVICE = "Continue with what it was begun with, delete the folder, or name another one."


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """`value` as JSON can hold it; its tensors are put into `tensors`, under the path to them."""
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _pack(part, f"{name}.{key}", tensors)] for key, part in value.items()]}
    if isinstance(value, list | tuple):
        parts = [_pack(part, f"{name}.{i}", tensors) for i, part in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} is a {type(value).__name__}, which a checkpoint cannot keep; numbers and tensors it can.")


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content].clone()  # on memory of its own, which is aligned as any other tensor's
    if kind == "dict":
        return {key: _unpack(part, tensors) for key, part in content}
    return float(content) if kind == "float" else tuple(_unpack(content, tensors))
