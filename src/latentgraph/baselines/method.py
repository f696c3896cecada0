"""The interface of all compared methods: a population in, the class of each of its rows out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.model import consensus
from latentgraph.training import NodeSet, fit


@dataclass(frozen=True)
class Population:
    """Rows that are seen together, and what may be known of them.

    Attributes
    ----------
    x : (n, d) features; a sparse CSR tensor where a method can take one
    y : (n,) classes 0, 1, ...; -1 where the class is not to be used: rows to be tested on, or without a label
    num_classes : how many classes there are, seen or not
    stop : (n,) bool, rows whose class decides when to stop, or which strength to take, but not what is learned;
        None: there are none
    edge_index : (2, e) a given graph, or None
    meta : columns (n,) from which population graphs are made by hand: age, sex, site, ...
    """

    x: Tensor
    y: Tensor
    num_classes: int
    stop: Tensor | None = None
    edge_index: Tensor | None = None
    meta: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def known(self) -> Tensor:
        """(n,) bool: whose class may be used, for learning or for stopping."""
        return self.y >= 0

    @property
    def learn(self) -> Tensor:
        """(n,) bool: whose class is learned from."""
        return self.known if self.stop is None else self.known & ~self.stop

    def select(self, rows: Tensor) -> Population:
        """The population of these rows (m,) alone, without a given graph: what an inductive method sees at first."""
        if self.edge_index is not None:
            raise InputError("a part of a population has no graph yet: give it edges of its own.")
        return replace(
            self,
            x=self.x.index_select(0, rows),
            y=self.y.index_select(0, rows),
            stop=None if self.stop is None else self.stop.index_select(0, rows),
            meta={name: column[rows.numpy()] for name, column in self.meta.items()},
        )


class Method(ABC):
    """Learns from a population and tells the class of every row, of that population or of a larger one.

    A transductive comparison fits and predicts the same population, in which the rows to be tested on have the class
    -1. An inductive one fits the rows to learn from alone, and then predicts a population that has others, too.
    """

    inductive: ClassVar[bool] = True  # whether it can predict another population than it was fitted on

    @abstractmethod
    def fit(self, population: Population) -> Self: ...

    @abstractmethod
    def predict(self, population: Population) -> Tensor:
        """(n,) the class of each row."""


class NetworkMethod(Method):
    """A network, trained by Adam on the rows to learn from; the weights that do best on the rows to stop by are kept.

    A subclass says which network (`network`) and on which graph (`graph`).

    Parameters
    ----------
    seed : of the weights, of dropout and of sampled graphs
    steps, patience : at most so many steps; stop after so many without a better score on the rows to stop by
    """

    lr: float = 1e-2
    weight_decay: float = 5e-4
    eval_every: int = 10
    samples: int = 8

    def __init__(self, seed: int = 0, *, steps: int = 400, patience: int = 150) -> None:
        self.seed, self.steps, self.patience = seed, steps, patience

    @abstractmethod
    def network(self, population: Population) -> nn.Module:
        """A new network for such a population, called as `net(x, graph, batch, generator=...)` -> (out, graphs)."""

    def features(self, population: Population) -> Tensor:
        """What the network sees of the rows: their features as they are, unless a subclass prepares them."""
        return population.x

    def graph(self, population: Population) -> Tensor | None:
        """What the network gets beside the features: the given graph, unless a subclass makes one."""
        return population.edge_index

    def training(self, population: Population) -> dict[str, Any]:
        """More arguments of `training.fit`, such as `baseline` for networks that learn a graph."""
        return {}

    def fit(self, population: Population) -> Self:
        x, graph = self.features(population), self.graph(population)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self.net = self.network(population)
            more = self.training(population)
        stop = population.known & ~population.learn
        self.history = fit(
            self.net,
            NodeSet(x, population.y, population.learn, graph),
            validation=NodeSet(x, population.y, stop, graph) if bool(stop.any()) else None,
            **{
                "steps": self.steps,
                "patience": self.patience,
                "lr": self.lr,
                "weight_decay": self.weight_decay,
                "eval_every": self.eval_every,
                "seed": self.seed,
                **more,
            },
        )
        return self

    def predict(self, population: Population) -> Tensor:
        return self.predict_proba(population).argmax(1)

    def predict_proba(self, population: Population) -> Tensor:
        """(n, classes), the mean over `samples` sampled graphs where the network samples some."""
        generator = torch.Generator().manual_seed(self.seed)
        x, graph = self.features(population), self.graph(population)
        probability, _ = consensus(self.net, x, graph, samples=self.samples, generator=generator)
        return probability
