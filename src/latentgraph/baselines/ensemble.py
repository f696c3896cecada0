"""Several networks of the same kind that vote: the control for a consensus of several sampled graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from latentgraph.baselines.method import Method, NetworkMethod, Population
from latentgraph.training import History

APART = 1000  # between the seeds of two members, so that members of ensembles with seeds 0, 1, ... differ


class Ensemble(Method):
    """The mean probability of 8 members, each trained alone with a seed of its own."""

    def __init__(self, make: Callable[[int], NetworkMethod], seed: int = 0, *, members: int = 8) -> None:
        self.members = [make(seed + APART * number) for number in range(members)]

    def fit(self, population: Population) -> Self:
        for member in self.members:
            member.fit(population)
        self.history = History([row for member in self.members for row in member.history.rows])
        return self

    def predict(self, population: Population) -> Tensor:
        return torch.stack([member.predict_proba(population) for member in self.members]).mean(0).argmax(1)
