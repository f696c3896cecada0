"""What a training step sees: nodes, and the targets that may be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.graph import Part


@dataclass(frozen=True)
class NodeSet:
    """Nodes that are seen together, and those among them whose target may be used.

    Attributes
    ----------
    x : (n, d) features
    y : (n,) class numbers, or (n,) / (n, c) numbers for regression
    mask : (n,) bool, the nodes whose target counts; default: class number >= 0, or not NaN
    edge_index : (2, e) input graph, or None
    batch : (n,) graph ids, or None
    node_id : (n,) the numbers under which `MovingAverageBaseline` knows the nodes; default 0 .. n-1
    weight : (n,) how much each node counts in the loss, default the same
    category : (graphs,) what kind of thing each graph of `batch` is, which the network is told as `category=`; None
        for networks that do not ask
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None
    edge_index: Tensor | Part | None = None
    batch: Tensor | None = None
    node_id: Tensor | None = None
    weight: Tensor | None = None
    category: Tensor | None = None

    shares_rewards: ClassVar[bool] = False  # whether `credit` gives one reward to several nodes

    def __post_init__(self) -> None:
        for name in ("y", "mask", "batch", "node_id", "weight"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.x):
                raise InputError(
                    f"{name} has {len(value)} entries but x has {len(self.x)} rows; there must be one each."
                )
        self._check_mask()

    def _check_mask(self) -> None:
        if self.mask is not None and self.mask.dtype != torch.bool:
            raise InputError(f"mask is a {self.mask.dtype} tensor; it must be bool, one entry for each target.")

    @property
    def rows(self) -> Tensor:
        """(m,) the nodes whose target counts, in order."""
        known = ~self.y.isnan() if self.y.is_floating_point() else self.y >= 0
        known = known if known.ndim == 1 else known.all(1)
        return (known if self.mask is None else known & self.mask).nonzero()[:, 0]

    def credit(self, delta: Tensor, rows: Tensor) -> Tensor:
        """Deltas (m,) of targets, their rows (m,) -> (n,) what each node is credited with: its own, or zero."""
        return delta.new_zeros(len(self.x)).index_copy(0, rows, delta)

    def per_target(self, h: Tensor) -> Tensor:
        """Rows (n, c) of nodes -> a row for each target: of a node set, the nodes' own."""
        return h

    def to(self, device: torch.device | str) -> Self:
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)


# The nodes of every step; a sequence of node sets to go through; or a function of (step, generator) that makes one.
Batches = NodeSet | Sequence[NodeSet] | Callable[[int, torch.Generator], NodeSet]
