"""Diagnosis of patients (the paper's section on healthcare): TADPOLE, ten given folds, three tables.

The features are used as given, scaled to [0, 1]. Column 0 nearly is the diagnosis. So a logistic regression on it alone
and a random forest stand beside, and everything is done again without that column and its copy ("without scores").

The columns have no names, so nobody knows age and sex among them: graphs made by hand join patients by the features
with the fewest values (`baselines.population_graph`). Among all columns, the score is one of these in every fold.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from latentgraph.baselines import simple
from latentgraph.datasets.tadpole import NUM_FOLDS, tadpole
from latentgraph.experiments import medical
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, mean_and_deviation
from latentgraph.experiments.medical import BEST, INDUCTIVE, LEARNED, TRANSDUCTIVE, Make
from latentgraph.experiments.results import Results, published
from latentgraph.text_table import Table

KEY = ("setting", "columns", "method", "fold", "seed")
SEEDS = 1  # a fold is the repetition
ALL, WITHOUT = "all", "without scores"
COLUMNS = (ALL, WITHOUT)
NUM_CLASSES = 3
STEPS, QUICK_STEPS = 400, 40  # at most
FEWER_STEPS = {"DGMClassifier": 200, "LDS": 150}  # the default of the one; the other trains five times in a step
QUICK_FOLDS = 2
QUICK_FEWER = {"LDS": 10}

COLUMN_0 = "logistic regression, column 0 only"
SIMPLE: dict[str, Make] = {
    COLUMN_0: lambda seed, steps: simple.logistic_regression(strengths=simple.STRENGTHS, columns=slice(0, 1)),
    **medical.SIMPLE,
}
F_AND_G = ("MLP + GC", "GC + GC", "MLP + EC", BEST)


def _network(kind: str, words: str) -> str:
    """The name of a network as a method: the paper's best choice has no more than its kind."""
    return kind if words == BEST else f"{kind}, {words}"


ARCHITECTURES: dict[str, Make] = {
    _network(kind, words): medical.learned(kind, words) for kind in LEARNED for words in F_AND_G
}
METHODS: dict[str, Make] = {**SIMPLE, **medical.NETWORKS}
BESIDE = ("random forest", COLUMN_0)  # what has to be beaten, beside every table

PROTOCOL = (
    "10 given folds; 15 % of the training rows of each class held back, to stop by and to choose a strength; the test "
    "fold is scored once. inductive: the patients of the test fold join after training. without scores: column 0 and "
    "what correlates with it by more than 0.9 left out, per fold"
)


def _cells(
    settings: tuple[str, ...], methods: tuple[str, ...], seeds: int, quick: bool, data_root: str | None = None
) -> list[Cell]:
    """Fold by fold, so that an interrupted run has something of every method; of `settings` quickly the last alone."""
    return [
        {"setting": setting, "columns": columns, "method": method, "fold": fold, "seed": seed}
        for fold in range(QUICK_FOLDS if quick else NUM_FOLDS)
        for seed in range(seeds)
        for columns in COLUMNS
        for setting in (settings[-1:] if quick else settings)
        for method in methods
        if not (method == COLUMN_0 and columns == WITHOUT) and not (method == "LDS" and setting == INDUCTIVE)
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    name, seed = cell["method"], cell["seed"]
    fold = tadpole(cell["fold"], data_root)
    if cell["columns"] == WITHOUT:
        fold = fold.without_scores()
    steps = QUICK_FEWER.get(name, QUICK_STEPS) if quick else FEWER_STEPS.get(name, STEPS)
    steps = 0 if name in SIMPLE else steps
    method = {**METHODS, **ARCHITECTURES}[name](seed, steps)
    patients = medical.population(fold.x, fold.y, fold.train, NUM_CLASSES, seed=seed)
    found = medical.answers(method, patients, cell["setting"])
    return {"accuracy": float((found == fold.y)[fold.test].mean()), "steps": steps}


def _ours(results: Results, method: str, setting: str, columns: str) -> list[float]:
    return results.column("accuracy", method=method, setting=setting, columns=columns)


def _by_accuracy(results: Results, names: list[str], setting: str) -> list[str]:
    """The best first; what has not been computed at the end."""
    mean = {name: np.mean(found) for name in names if (found := _ours(results, name, setting, ALL))}
    return sorted(names, key=lambda name: -mean.get(name, -1))


def _architectures(results: Results) -> list[Table]:
    paper = published("tadpole-architectures")["rows"]
    rows = []
    for kind in LEARNED:
        for words in F_AND_G:
            ours = [_ours(results, _network(kind, words), TRANSDUCTIVE, columns) for columns in COLUMNS]
            rows.append([f"{kind}, {words}", as_printed(paper[kind][words]), *map(mean_and_deviation, ours)])
    for name in BESIDE:
        ours = [_ours(results, name, TRANSDUCTIVE, columns) for columns in COLUMNS]
        rows.append([name, as_printed(None), *map(mean_and_deviation, ours)])
    return [Table("f + g, transductive; " + UNIT, ["network", "paper", *OURS], rows)]


def _methods(results: Results) -> list[Table]:
    paper = published("tadpole")["rows"]
    rows = []
    for name in _by_accuracy(results, list(METHODS), TRANSDUCTIVE):
        ours = [_ours(results, name, TRANSDUCTIVE, columns) for columns in COLUMNS]
        rows.append([name, as_printed(paper.get(name)), *map(mean_and_deviation, ours)])
    return [Table("transductive; " + UNIT, ["method", "paper", *OURS], rows)]


def _inductive(results: Results) -> list[Table]:
    paper = published("tadpole-inductive")["rows"]
    rows = []
    for name in _by_accuracy(results, [name for name in METHODS if name != "LDS"], INDUCTIVE):
        ours = [_ours(results, name, setting, columns) for columns in COLUMNS for setting in medical.SETTINGS]
        rows.append([name, as_printed(paper.get(name)), *map(mean_and_deviation, ours)])
    header = [f"{setting}, {words}" for words in OURS for setting in medical.SETTINGS]
    return [Table("inductive beside transductive; " + UNIT, ["method", "paper, inductive", *header], rows)]


UNIT = "accuracy in %, mean ± standard deviation over folds"
OURS = ("ours", "ours, without scores")

EXPERIMENTS = {
    name: Experiment("tadpole", KEY, SEEDS, partial(_cells, settings, methods), compute, tables, PROTOCOL)
    for name, settings, methods, tables in (
        ("tadpole-architectures", (TRANSDUCTIVE,), (*BESIDE, *ARCHITECTURES), _architectures),
        ("tadpole", (TRANSDUCTIVE,), tuple(METHODS), _methods),
        ("tadpole-inductive", medical.SETTINGS, tuple(name for name in METHODS if name != "LDS"), _inductive),
    )
}
