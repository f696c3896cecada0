"""Where a learned graph should win, and whether it does: goals, read off the results files of the other tables.

Which of our methods stands for a learned graph is written down here for each kind of data, not chosen by its test
accuracy: the best of several by that would be better than any of them. Where several stand for it, validation chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latentgraph.datasets.planetoid import NAMES
from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.citation_methods import OURS, SKIP, WITHOUT_CHANCE
from latentgraph.experiments.experiment import difference, gain, mean_and_deviation, paired
from latentgraph.experiments.heterophilic import BOTH, WITHOUT
from latentgraph.experiments.results import Results, published
from latentgraph.experiments.running import results_file
from latentgraph.text_table import Table

ENOUGH = 2.0  # standard errors
HEADER = ["data", "ours", "in %", "to beat", "in %", "difference, points", "pairs", "reached"]
TITLE = f"accuracy, mean ± standard deviation; difference ± standard error. Reached: by more than {ENOUGH:.0f} of them"


RIVALS = ("ridge", "GCN", SKIP, "GCN, 8 members")


@dataclass(frozen=True)
class Choice:
    """Several methods, from which the validation nodes of each split choose; of equals the first."""

    called: str
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Goal:
    """`ours` against `rival`: a method of the same table, pair by pair, or a number in percent.

    Attributes
    ----------
    shown : what the page calls the data
    table : the experiment with the results
    pair : the column by which runs of two methods belong together: split, fold or seed
    ours : a method, or several, of which each pair takes the one with the best validation accuracy
    where : values of other columns
    wanted : how many pairs there should be
    """

    shown: str
    table: str
    pair: str
    ours: str | Choice
    rival: str | Choice | tuple[str, float]
    where: Mapping[str, Any] = field(default_factory=dict)
    wanted: int = 10

    @property
    def to_beat(self) -> str:
        return self.rival[0] if isinstance(self.rival, tuple) else _called(self.rival)

    def pairs(self, results: Results) -> list[tuple[float, float]]:
        """Our accuracy and that of the rival."""
        ours = self._runs(results, self.ours)
        if isinstance(self.rival, tuple):
            return [(accuracy, self.rival[1] / 100) for accuracy in ours.values()]
        other = self._runs(results, self.rival)
        if self.rival in WITHOUT_CHANCE and self.pair == "seed" and other:  # it is the same for every seed
            other = dict.fromkeys(ours, next(iter(other.values())))
        return paired(ours, other)

    def row(self, results: Results) -> list[str]:
        pairs = self.pairs(results)
        accuracy, theirs = (mean_and_deviation(found) for found in (list(zip(*pairs, strict=True)) or [(), ()]))
        if isinstance(self.rival, tuple):
            theirs = f"{self.rival[1]:.1f}"
        runs = f"{len(pairs)}" if len(pairs) >= self.wanted else f"{len(pairs)} of {self.wanted}"
        answer = _answer(pairs, self.wanted)
        return [self.shown, _called(self.ours), accuracy, self.to_beat, theirs, gain(pairs, len(pairs)), runs, answer]

    def _runs(self, results: Results, method: str | Choice) -> dict[Any, float]:
        """Accuracy by split, fold or seed. A choice is made where all methods to choose from have been computed."""
        if isinstance(method, str):
            return self._column(results, "accuracy", method)
        validation = [self._column(results, "validation", name) for name in method.methods]
        accuracy = [self._column(results, "accuracy", name) for name in method.methods]
        keys = set.intersection(*(set(found) for found in validation))
        best = {key: int(np.argmax([found[key] for found in validation])) for key in keys}
        return {key: accuracy[i][key] for key, i in best.items()}

    def _column(self, results: Results, name: str, method: str) -> dict[Any, float]:
        return results.by(self.pair, name, method=method, **self.where)


def _called(method: str | Choice) -> str:
    return method if isinstance(method, str) else method.called


def _answer(pairs: Sequence[tuple[float, float]], wanted: int) -> str:
    if len(pairs) < 2:
        return "not yet known"
    mean, error = difference(pairs)
    answer = "yes" if mean > ENOUGH * error else "no, below" if -mean > ENOUGH * error else "no, level"
    if len(pairs) < wanted:
        return f"{answer}, so far"
    return f"**{answer}**" if answer == "yes" else answer


def _documents() -> list[Goal]:
    papers = published("citation-k")["rows"]["5"]
    found = []
    for data in NAMES:
        printed, _ = papers[data]
        where = {"data": data, "split": "paper"}
        shown = f"{data}, paper's split"
        found.append(Goal(shown, "citation-methods", "seed", OURS, ("the paper's dDGM", printed), where))
        found += [Goal(shown, "citation-methods", "seed", OURS, rival, where) for rival in RIVALS]
    return found + [
        Goal(f"{data}, random splits", "citation-random", "split", OURS, rival, {"data": data})
        for data in NAMES
        for rival in RIVALS
    ]


def _few_labels() -> list[Goal]:
    (printed,) = published("no-graph")["rows"].values()
    ours = "DGMClassifier as it comes"  # the one of which f is learned
    return [
        Goal(f"{data}, no graph", "no-graph", "seed", ours, ("best printed", best), {"data": data}, wanted=5)
        for data, (best, _) in printed.items()
    ]


def _patients() -> list[Goal]:
    columns = {"all": "TADPOLE", "without scores": "TADPOLE without score-like columns"}
    found = [
        Goal(shown, "tadpole", "fold", "DGMClassifier", "random forest", {"setting": "transductive", "columns": which})
        for which, shown in columns.items()
    ]
    brains = {"setting": "transductive", "site": "without site"}
    rivals = ("logistic regression", "random forest")
    return found + [Goal("brain age", "age", "fold", "DGMClassifier", rival, brains, wanted=5) for rival in rivals]


def _heterophilic() -> list[Goal]:
    """The better of MLP and GCN is another one on each; here it is the better one by its test accuracy."""
    better = {
        "Texas": "MLP",
        "Wisconsin": "MLP",
        "Cornell": "MLP",
        "Actor": "MLP",
        "Chameleon": "GCN",
        "Squirrel": "GCN",
    }
    ours = Choice("dDGM, best, which graphs by validation", (OURS, WITHOUT, BOTH))
    theirs = Choice("MLP, GCN or GCN with skip, by validation", ("MLP", "GCN", SKIP))
    return [
        Goal(data, "heterophilic", "split", ours, rival, {"data": data})
        for data, better_one in better.items()
        for rival in (better_one, theirs)
    ]


GOALS = (*_documents(), *_few_labels(), *_patients(), *_heterophilic())


def table(results: Path) -> Table:
    """All goals, from the results files of a folder."""
    found = by_table(results)
    return Table(TITLE, HEADER, [goal.row(found[goal.table]) for goal in GOALS])


def by_table(results: Path) -> dict[str, Results]:
    return {name: Results(results_file(name, results), experiment(name).key) for name in {g.table for g in GOALS}}
