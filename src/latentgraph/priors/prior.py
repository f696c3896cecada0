"""What a prior on a learned graph is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph


@dataclass(eq=False)
class Prior(ABC):
    """A wish about a graph, as a number that is small where it is fulfilled: `training.fit(priors=[...])` adds it.

    Attributes
    ----------
    weight : what the number is multiplied with before it is added to the loss of the task
    """

    weight: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise InputError(f"weight={self.weight} of {type(self).__name__}; it must be finite and not negative.")

    @abstractmethod
    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """A graph, the features (n, d) and the network's output (n, c) of its nodes -> 0-d, without the weight.

        Differentiable in the embedding and the temperature of the graph, and in whatever else is used. Nodes, if not
        all are looked at, are drawn from `generator`.
        """

    @property
    def name(self) -> str:
        """Under which `fit` records the number."""
        return f"{type(self).__name__.lower()}_prior"


def over_graphs(
    prior: Prior, graphs: Sequence[LatentGraph], x: Tensor, out: Tensor, generator: torch.Generator | None
) -> Tensor:
    """The sum over the graphs of a network: 0-d."""
    if not graphs:
        raise InputError(f"{prior!r} is about learned graphs, but the network has returned none. Leave it out.")
    return torch.stack([prior(graph, x, out, generator=generator) for graph in graphs]).sum()


def positive(prior: Prior, *names: str) -> None:
    """Refuse settings that are neither None nor positive and finite."""
    for name in names:
        value = getattr(prior, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}={value} of {type(prior).__name__}; it must be positive and finite.")
