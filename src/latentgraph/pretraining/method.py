"""What a method of pre-training is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.pretraining.embedding import Embedding


class Objective(nn.Module, ABC):
    """The loss of a method on a table. What it learns beside f, such as a temperature, is thrown away in the end."""

    @abstractmethod
    def forward(self, generator: torch.Generator) -> Tensor:
        """The loss of one step, 0-d."""

    def measure(self) -> dict[str, float]:
        """How good the embedding is on what was held out: "validation", smaller is better, and more. Or nothing."""
        return {}


class Method(ABC):
    """How f is pre-trained."""

    @abstractmethod
    def begin(
        self, embedding: Embedding, x: Tensor, edge_index: Tensor | None, generator: torch.Generator
    ) -> Objective:
        """Its loss on features (n, d), plain or sparse CSR, and an input graph (2, e) or None."""


def check_share(name: str, value: float, *, zero: bool = False) -> None:
    if not (0 < value < 1 or (zero and value == 0)):
        raise InputError(f"{name}={value}; it must be a share {'from 0 to' if zero else 'above 0 and'} below 1.")


def check_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name}={value}; it must be at least {least}.")
