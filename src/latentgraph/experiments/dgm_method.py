"""Learned graphs as methods of a comparison: the paper's networks, and our classifier as it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from latentgraph.baselines.method import Method, NetworkMethod, Population
from latentgraph.estimators import DGMClassifier
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet


class DGM(NetworkMethod):
    """A network of graph modules, trained as in the paper.

    Where graphs are sampled, the graph loss is added to the cross-entropy, with a moving average of each node's reward
    as what was expected of it; a continuous graph is learned by the cross-entropy alone. Where rows have a given graph,
    the first f sees it.

    Parameters
    ----------
    build : (number of features, number of classes) -> a new network, such as `presets.medical_net`
    """

    def __init__(
        self, build: Callable[[int, int], DGMNet], seed: int = 0, *, steps: int = 400, patience: int = 150
    ) -> None:
        super().__init__(seed, steps=steps, patience=patience)
        self.build = build

    def network(self, population: Population) -> nn.Module:
        return self.build(population.x.shape[1], population.num_classes)

    def training(self, population: Population) -> dict[str, Any]:
        return {"baseline": MovingAverageBaseline(len(population.x))} if self.net.is_stochastic else {}


class AsItComes(Method):
    """`DGMClassifier` with its defaults, but perhaps fewer steps. It holds back rows of its own to stop by."""

    def __init__(self, seed: int = 0, *, steps: int = 200) -> None:
        self.model = DGMClassifier(random_state=seed, steps=steps)

    def fit(self, population: Population) -> Self:
        self.population = population
        self.model.fit(population.x.numpy(), population.y.numpy())
        return self

    def predict(self, population: Population) -> Tensor:
        if population is self.population:
            return torch.as_tensor(self.model.transduction_)
        return torch.as_tensor(self.model.predict(population.x.numpy()))
