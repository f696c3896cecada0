"""What earns `DGMClassifier` its rank among the seven tables, the graph or the forest? One part is left out at a time.

The cells are those of `suite`, in the same results file: the same splits, the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

from torch import Tensor, nn

from latentgraph.attended import Attended
from latentgraph.estimators import DGMClassifier
from latentgraph.estimators.network import FromPrincipal
from latentgraph.experiments import suite
from latentgraph.experiments.experiment import Cell, Experiment, gain, paired
from latentgraph.experiments.results import Results
from latentgraph.experiments.suite_data import TABLES
from latentgraph.graph import LatentGraph
from latentgraph.model import DGMNet
from latentgraph.stacks import Stack
from latentgraph.text_table import Table


class WithoutGraph(DGMClassifier):
    """The same network and training, but nobody has neighbours: each row is told of itself alone."""

    def _network(self, outputs: int) -> tuple[DGMNet, nn.Module]:
        net, head = super()._network(outputs)
        for stack in net.modules():
            if isinstance(stack, Stack):
                for number, step in enumerate(stack.steps):
                    if isinstance(step, Attended):
                        stack.steps[number] = Alone.with_weights_of(step)
        return net, head


class Alone(Attended):
    """The mean over the neighbours is the row itself."""

    @classmethod
    def with_weights_of(cls, other: Attended) -> Alone:
        found = cls(other.skip.in_features, other.skip.out_features, dropout=other.skip.dropout)
        found.load_state_dict(other.state_dict())
        return found

    def _on(self, graph: LatentGraph, h: Tensor) -> Tensor:
        return h


class GraphAsItStarts(DGMClassifier):
    """f stays where it starts, at the principal components of the weighted columns: the graph is not learned."""

    def _network(self, outputs: int) -> tuple[DGMNet, nn.Module]:
        net, head = super()._network(outputs)
        for embed in net.modules():
            if isinstance(embed, FromPrincipal):
                for weight in embed.correction.parameters():
                    nn.init.zeros_(weight)
                embed.requires_grad_(False)
        return net, head


WITHOUT: dict[str, Callable[..., DGMClassifier]] = {
    "the graph": WithoutGraph,
    "learning the graph": GraphAsItStarts,
    "the forest": lambda random_state: DGMClassifier(trees=0, random_state=random_state),
    "spreading few labels": lambda random_state: DGMClassifier(spread=False, random_state=random_state),
}
METHODS = {f"latentgraph without {part}": make for part, make in WITHOUT.items()}


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return suite.cells_of((suite.OURS, *METHODS), seeds, quick)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    make = METHODS.get(cell["method"], DGMClassifier)
    return suite.accuracy(make(random_state=cell["seed"]), suite.split_of(cell, data_root), semi_supervised=True)


def tables(results: Results) -> list[Table]:
    """What each part is worth: the classifier as it comes minus the classifier without it, seed by seed."""
    title = "the classifier minus itself without a part, in points of accuracy, with {} of the training labels"
    header = ["without", *TABLES, "mean of the tables"]
    return [
        Table(title.format(labels), header, [[part, *_worth(results, labels, part)] for part in WITHOUT])
        for labels in suite.LABELS
    ]


def _worth(results: Results, labels: str, part: str) -> list[str]:
    """On each table over the seeds, and over the tables: mean ± standard error."""
    methods = suite.OURS, f"latentgraph without {part}"
    found = [
        paired(*(results.by("seed", "accuracy", table=table, labels=labels, method=method) for method in methods))
        for table in TABLES
    ]
    means = [tuple(map(mean, zip(*pairs, strict=True))) for pairs in found if pairs]
    return [*(gain(pairs, suite.SEEDS) for pairs in found), gain(means, len(TABLES))]


EXPERIMENTS = {"table-parts": Experiment("tables", suite.KEY, suite.SEEDS, cells, compute, tables, suite.PROTOCOL)}
