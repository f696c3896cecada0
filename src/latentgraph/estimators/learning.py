"""How the network of an estimator is trained: on which rows, by which to stop, and for how long if labels are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from latentgraph.checkpoint import Checkpoint
from latentgraph.estimators.network import adamw
from latentgraph.minibatch import RandomRows
from latentgraph.model import DGMNet
from latentgraph.training import Batches, Callback, History, NodeSet, Task, TrainState, evaluate, fit
from latentgraph.watching import watch_edges

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition

FOLDS = 3  # parts of few labels that are asked in turn
FEWEST = 2 * FOLDS  # labels that can be asked at all


@dataclass(frozen=True)
class Learning:
    """All that a training needs but the network, the rows to learn from and those to stop by.

    Attributes
    ----------
    nodes : all rows
    batch_size : tables with more rows, and without an input graph, are learned from in random parts of this size
    auxiliary : weight of the loss of the head that teaches f directly
    partition : how several processes share the rows, or None
    """

    nodes: NodeSet
    task: Task
    auxiliary: float
    learning_rate: float
    weight_decay: float
    patience: int
    batch_size: int
    seed: int
    device: torch.device
    partition: Partition | None
    show: bool

    def train(
        self,
        net: DGMNet,
        head: nn.Module,
        learn: Tensor,
        stop: Tensor | None,
        steps: int,
        *,
        checkpoint: Checkpoint | None = None,
        title: str = "learning the graph",
    ) -> History:
        """Train the network on the rows `learn`; those of `stop` decide when to stop and which weights to keep."""
        train, validation, watch = self._sets(learn, stop)
        return fit(
            net,
            train,
            validation=validation,
            task=self.task,
            auxiliary=head if self.auxiliary else None,
            auxiliary_weight=self.auxiliary,
            optimizer=adamw(nn.ModuleList([net, head]), self.learning_rate, self.weight_decay),
            steps=steps,
            patience=self.patience,
            callbacks=[watch],
            checkpoint=checkpoint,
            seed=self.seed,
            sharing=self.partition,
            show=self.show,
            title=title,
        )

    def steps_for(self, net: DGMNet, head: nn.Module, parts: Sequence[Tensor], most: int) -> int:
        """How long to learn from all labels, if each of the `parts` (n,) of them is kept away once.

        What the network says before its first step counts, too: it begins with the opinion of a forest, and with very
        few labels that may be the best it ever says.
        """
        known = torch.stack(list(parts)).any(0)
        curves = []
        for number, part in enumerate(parts, 1):
            title = f"how long to learn, part {number} of {len(parts)}"
            curves.append(self._curve(*deepcopy((net, head)), known & ~part, part, most, title))
        return best_step(curves)

    def _curve(
        self, net: DGMNet, head: nn.Module, learn: Tensor, stop: Tensor, steps: int, title: str
    ) -> dict[int, float]:
        """Step -> the score of the rows to stop by, summed over them."""
        _, validation, _ = self._sets(learn, stop)
        assert validation is not None
        begun = evaluate(net, validation, self.task, seed=self.seed, partition=self.partition)
        history = self.train(net, head, learn, stop, steps, title=title)
        scores = {int(row["step"]): row["validation"] for row in history.rows if "validation" in row}
        return {step: score * int(stop.sum()) for step, score in ({0: begun["validation"]} | scores).items()}

    def _sets(self, learn: Tensor, stop: Tensor | None) -> tuple[Batches, NodeSet | None, Callback]:
        # Several processes share all rows; one that is alone learns from a large table in parts.
        size = self.batch_size if self.partition is None else len(self.nodes.x)
        train, validation, watch = node_sets(replace(self.nodes, mask=learn), stop, size, self.seed, self.device)
        if self.partition is not None:
            assert isinstance(train, NodeSet)
            train, validation = self.partition.part(train), validation and self.partition.part(validation)
        return train, validation, watch


def parts_of(y: Tensor, known: Tensor, seed: int) -> list[Tensor]:
    """Masks (n,) that deal the labelled rows to `FOLDS` parts, those of a class evenly.

    >>> [int(part.sum()) for part in parts_of(torch.tensor([0, 0, 0, 1, 1, 1, -1]), torch.arange(7) < 6, seed=0)]
    [2, 2, 2]
    """
    random = np.random.RandomState(seed)
    rows = known.nonzero()[:, 0].numpy()
    groups = [rows] if y.is_floating_point() else [rows[y[rows] == c] for c in y[rows].unique()]
    dealt = np.concatenate([random.permutation(group) for group in groups])
    parts = [torch.zeros_like(known) for _ in range(FOLDS)]
    for number, part in enumerate(parts):
        part[dealt[number::FOLDS]] = True
    return parts


def best_step(curves: Sequence[Mapping[int, float]]) -> int:
    """The step with the best sum of scores, the smaller the better, among those that all curves have.

    >>> best_step([{0: 3.0, 10: 1.0, 20: 2.0}, {0: 1.0, 10: 2.0, 20: 0.5, 30: 0.1}])
    20
    """
    common = set.intersection(*(set(curve) for curve in curves))
    return min(sorted(common), key=lambda step: sum(curve[step] for curve in curves))


def node_sets(
    nodes: NodeSet, stop: Tensor | None, batch_size: int, seed: int, device: torch.device
) -> tuple[Batches, NodeSet | None, Callback]:
    """What to learn from, what to stop by, and a callback that watches the edges.

    Parameters
    ----------
    nodes : all rows; its mask says which to learn from
    stop : (n,) the labelled rows that decide when to stop, or None
    batch_size : tables with more rows, and without an input graph, are learned from in random parts of this size
    """
    validation = None if stop is None else replace(nodes, mask=stop, weight=None)
    if len(nodes.x) <= batch_size or nodes.edge_index is not None:
        nodes = nodes.to(device)
        return nodes, None if validation is None else validation.to(device), watch_edges(nodes)
    batches = RandomRows(nodes.x, nodes.y, batch_size, mask=nodes.mask, weight=nodes.weight)
    drawn: list[NodeSet] = []

    def draw(step: int, generator: torch.Generator) -> NodeSet:
        drawn[:] = [batches(step, generator).to(device)]
        return drawn[0]

    def watch(state: TrainState) -> None:
        watch_edges(drawn[0])(state)

    if validation is not None:
        # One part, always the same, and as large as a batch: its rows see neighbours as those of a step do.
        validation = RandomRows(nodes.x, nodes.y, batch_size, mask=stop)(0, torch.Generator().manual_seed(seed))
        validation = validation.to(device)
    return draw, validation, watch
