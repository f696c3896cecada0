"""Networks from word vectors to classifiers: how all of them are trained, stopped and asked."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.loss import nearest_class_reward
from latentgraph.model import consensus
from latentgraph.training import Batches, NodeSet, Task, fit
from latentgraph.zero_shot.classes import Classes, ZeroShotMethod
from latentgraph.zero_shot.scores import stopping_loss


def row_task(classes: Classes, *, unit: bool) -> Task:
    r"""The mean over classes to learn from of :math:`\| w_i - \tilde w_i \|^2`, and the nearest-class reward.

    With `unit` both are divided by their norms first: the direction is learned. A consensus averages such rows.
    The targets of the task are class numbers; the rows are looked up.
    """
    link = F.normalize if unit else nn.Identity()
    true = link(classes.rows)
    nearest = nearest_class_reward(true[: classes.learn])

    def loss(out: Tensor, number: Tensor) -> Tensor:
        return (link(out) - true.index_select(0, number)).square().sum(1).mean()

    def reward(out: Tensor, number: Tensor) -> Tensor:
        return nearest(link(out), number)

    def score(out: Tensor, number: Tensor) -> Tensor:
        return stopping_loss(out, classes.images, classes.length)

    return Task(loss, reward, link, score)


class RowNetwork(ZeroShotMethod):
    """A network that is called as `training.fit` calls it and returns rows for the first nodes, the targets.

    In training it need return no more than the rows of the classes to learn from; in evaluation mode it returns those
    of all targets. The weights with the smallest stopping loss are kept.

    Parameters
    ----------
    seed : of the weights, dropout, mini-batches and sampled graphs
    steps : of Adam, all of which are done
    """

    lr: float = 2e-3
    weight_decay: float = 5e-4
    eval_every: int = 10
    unit: bool = True
    samples: int = 8  # graphs whose predictions are averaged, where some are sampled

    def __init__(self, seed: int = 0, *, steps: int = 100) -> None:
        self.seed, self.steps = seed, steps

    @abstractmethod
    def network(self, classes: Classes) -> nn.Module:
        """A new network for this problem: `net(x, edge_index, batch, generator=...)` -> (rows, graphs)."""

    def seen(self, classes: Classes) -> Classes:
        """The problem as this network sees it: word vectors of unit length."""
        return replace(classes, x=F.normalize(classes.x))

    def batches(self, classes: Classes) -> Batches:
        """The nodes of every training step."""
        return classes.node_set()

    def stopping_nodes(self, classes: Classes) -> NodeSet:
        """The nodes on which to choose the weights to keep."""
        return classes.node_set(stop=True)

    def training(self, classes: Classes) -> dict[str, Any]:
        """More arguments of `training.fit`."""
        return {}

    def fit(self, classes: Classes) -> Self:
        classes = self.seen(classes)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self.net = self.network(classes)
        self.history = fit(
            self.net,
            self.batches(classes),
            validation=self.stopping_nodes(classes),
            task=row_task(classes, unit=self.unit),
            steps=self.steps,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eval_every=self.eval_every,
            seed=self.seed,
            **self.training(classes),
        )
        return self

    def predict(self, classes: Classes) -> Tensor:
        classes = self.seen(classes)
        link = row_task(classes, unit=self.unit).link
        generator = torch.Generator().manual_seed(self.seed)
        rows, _ = consensus(self.net, classes.node_set().x, samples=self.samples, link=link, generator=generator)
        return rows[: classes.targets]
