"""How the work of a training is divided: `Alone` by default; `latentgraph.distributed` has ways to share it.

`training.fit` asks the same questions of all of them. Losses, rewards and scores are computed from the labelled rows of
all processes, in every process: whatever function of these rows a task has, it is the same as in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from latentgraph.checkpoint import Checkpoint
from latentgraph.node_set import Batches, NodeSet

if TYPE_CHECKING:
    from latentgraph.distributed.group import Team


@dataclass(frozen=True)
class Labelled:
    """The nodes of a step whose target counts.

    Attributes
    ----------
    rows : (r,) rows of this process's node set
    y : (m, ...) targets of all processes' rows, in order of the processes
    weight : (m,) or None
    node_id : (m,) their names to a moving average
    counts : rows of each process
    start : where this process's rows begin among all
    """

    rows: Tensor
    y: Tensor
    weight: Tensor | None
    node_id: Tensor
    counts: tuple[int, ...]
    start: int = 0

    def own(self, of_all: Tensor) -> Tensor:
        """(..., m) numbers of all rows -> (..., r) those of this process."""
        return of_all[..., self.start : self.start + len(self.rows)]


class Working(Protocol):
    """What `training.fit` needs to know of the processes that train together."""

    options: dict[str, Any]  # for calls of the network

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""

    @property
    def validating(self) -> Working:
        """How the work of a validation is divided."""

    def around(self, nets: list[nn.Module], train: Batches, generator: torch.Generator) -> AbstractContextManager[None]:
        """Around the training: begin with the same weights everywhere, then as `seeing`."""

    def seeing(self, nets: list[nn.Module]) -> AbstractContextManager[None]:
        """Around calls of the networks: let layers see all rows that they would see in one process."""

    def nodes(self, train: Batches, step: int, generator: torch.Generator) -> NodeSet:
        """This process's nodes of a step."""

    def sampling(self, generator: torch.Generator) -> AbstractContextManager[torch.Generator]:
        """Around the forward passes of a step: the generator that they draw from."""

    def labelled(self, nodes: NodeSet) -> Labelled:
        """The labelled rows of a node set."""

    def of_all(self, values: Tensor, labelled: Labelled) -> Tensor:
        """(r, ...) of this process's labelled rows -> (m, ...) of all, differentiable."""

    def total(self, x: Tensor) -> Tensor:
        """The sum over processes."""

    def add_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Sum the gradients over processes."""

    def agreed(self, stop: bool) -> bool:
        """Whether any process wants to stop."""

    def load(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        """The state that was kept last."""


def current_team() -> Team | None:
    """The processes that this one has joined; None for one on its own, which does not even import what they need."""
    group = sys.modules.get("latentgraph.distributed.group")
    found: Team | None = None if group is None else group.team()
    return found


class Alone:
    """One process has all of it."""

    first = True

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    @property
    def validating(self) -> Alone:
        return self

    @contextmanager
    def around(self, nets: list[nn.Module], train: Batches, generator: torch.Generator) -> Iterator[None]:
        yield

    @contextmanager
    def seeing(self, nets: list[nn.Module]) -> Iterator[None]:
        yield

    def nodes(self, train: Batches, step: int, generator: torch.Generator) -> NodeSet:
        return nodes_of_step(train, step, generator)

    @contextmanager
    def sampling(self, generator: torch.Generator) -> Iterator[torch.Generator]:
        yield generator

    def labelled(self, nodes: NodeSet) -> Labelled:
        return labelled_here(nodes)

    def of_all(self, values: Tensor, labelled: Labelled) -> Tensor:
        return values

    def total(self, x: Tensor) -> Tensor:
        return x

    def add_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def agreed(self, stop: bool) -> bool:
        return stop

    def load(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        return checkpoint.load()


def labelled_here(nodes: NodeSet) -> Labelled:
    """The labelled rows of one process's node set."""
    rows = nodes.rows
    return Labelled(
        rows,
        nodes.y.index_select(0, rows),
        None if nodes.weight is None else nodes.weight.index_select(0, rows),
        rows if nodes.node_id is None else nodes.node_id.index_select(0, rows),
        (len(rows),),
    )


def nodes_of_step(train: Batches, step: int, generator: torch.Generator) -> NodeSet:
    """The node set itself, the next of a sequence, or what a function makes."""
    if isinstance(train, NodeSet):
        return train
    return train(step, generator) if callable(train) else train[(step - 1) % len(train)]
