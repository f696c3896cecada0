"""Do the defaults hold up? `DGMClassifier` as it comes beside simple methods as they come, on seven tables.

Twice: with all labels of the training rows, and with 5 % of them. Accuracy on test rows that nothing was fitted on. The
methods of scikit-learn have its defaults too (more trees and iterations where it warns), on standardised columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from latentgraph.estimators import DGMClassifier
from latentgraph.experiments.experiment import Cell, Experiment
from latentgraph.experiments.knn_gcn import KnnGCN
from latentgraph.experiments.results import Results
from latentgraph.experiments.suite_data import TABLES, Split
from latentgraph.text_table import Table

OURS = "latentgraph"
LABELS = ("all", "5 %")
SEEDS = 5
KEY = ("table", "labels", "seed", "method")
PROTOCOL = (
    "stratified 80/20 split by seed (TADPOLE: its own folds); 5 %: that part of the training labels of each class"
)

WIDE = 500  # with more columns boosting looks at a tenth of them in a split: it would take an hour for 20 classes

Method = Callable[[int, int, int], Any]


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


# (seed, number of labels, number of columns) -> an estimator
METHODS: dict[str, Method] = {
    OURS: lambda seed, labels, columns: DGMClassifier(random_state=seed),
    "logistic regression": lambda seed, labels, columns: _scaled(LogisticRegression(max_iter=5000)),
    "random forest": lambda seed, labels, columns: RandomForestClassifier(500, random_state=seed),
    "gradient boosting": lambda seed, labels, columns: HistGradientBoostingClassifier(
        max_features=0.1 if columns > WIDE else 1.0, random_state=seed
    ),
    "MLP": lambda seed, labels, columns: _scaled(MLPClassifier(max_iter=1000, random_state=seed)),
    "kNN": lambda seed, labels, columns: _scaled(KNeighborsClassifier(min(5, labels))),
    "label spreading": lambda seed, labels, columns: _scaled(LabelSpreading(kernel="knn", n_neighbors=7)),
    "kNN-GCN": lambda seed, labels, columns: KnnGCN(seed),
}
SEMI_SUPERVISED = (OURS, "label spreading", "kNN-GCN")  # these get the rows without a label, too


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return cells_of(METHODS, seeds, quick)


def cells_of(methods: Iterable[str], seeds: int, quick: bool) -> list[Cell]:
    """Seed by seed, so that an interrupted run has something of every table."""
    tables = ("breast cancer", "wine") if quick else tuple(TABLES)
    return [
        {"table": table, "labels": labels, "seed": seed, "method": name}
        for seed in range(seeds)
        for table in tables
        for labels in LABELS
        for name in methods
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    split, name = split_of(cell, data_root), cell["method"]
    model = METHODS[name](cell["seed"], int((split.y >= 0).sum()), split.x.shape[1])
    return accuracy(model, split, semi_supervised=name in SEMI_SUPERVISED)


def split_of(cell: Cell, data_root: str | None) -> Split:
    split = TABLES[cell["table"]](cell["seed"], data_root)
    return split.with_few_labels(cell["seed"]) if cell["labels"] == "5 %" else split


def accuracy(model: Any, split: Split, *, semi_supervised: bool) -> dict[str, float]:
    """Of the test rows, by a model that is fitted on all other rows, or on those with a label."""
    known = np.ones(len(split.y), bool) if semi_supervised else split.y >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(split.x[known], split.y[known])
    return {"accuracy": float((model.predict(split.x_test) == split.y_test).mean())}


def tables(results: Results) -> list[Table]:
    """With all labels, and with few."""
    return [Table(_title(labels), list(header(results, labels)), table(results, labels)) for labels in LABELS]


def _title(labels: str) -> str:
    return (
        f"accuracy in % with {labels} of the training labels, mean and standard error over seeds; †: not more than one "
        "standard error below the best simple method"
    )


def table(results: Results, labels: str) -> list[list[str]]:
    """Rows (method, a cell for each table, mean rank), best first: mean and standard error over the seeds in percent.

    A dagger marks what is within one standard error (of its own) of the best of the simple methods.
    """
    tables = _complete(results, labels)
    if not tables:
        return []
    mean, error = np.empty((2, len(METHODS), len(tables)))
    for i, method in enumerate(METHODS):
        for j, name in enumerate(tables):
            values = 100 * np.array(results.column("accuracy", table=name, labels=labels, method=method))
            mean[i, j], error[i, j] = values.mean(), values.std(ddof=min(1, len(values) - 1)) / len(values) ** 0.5
    rank = rankdata(-mean, axis=0).mean(1)
    best = np.delete(mean, list(METHODS).index(OURS), axis=0).max(0)
    rows = [
        [
            method,
            *(f"{m:.1f} ± {e:.1f}{'†' if m + e >= b else ''}" for m, e, b in zip(mean[i], error[i], best, strict=True)),
            f"{rank[i]:.2f}",
        ]
        for i, method in enumerate(METHODS)
    ]
    return sorted(rows, key=lambda row: float(row[-1]))


def header(results: Results, labels: str) -> tuple[str, ...]:
    return ("method", *_complete(results, labels), "mean rank")


def _complete(results: Results, labels: str) -> list[str]:
    """The tables on which all methods have been run: others have no ranks yet."""
    return [
        name
        for name in TABLES
        if all(results.column("seed", table=name, labels=labels, method=method) for method in METHODS)
    ]


EXPERIMENTS = {"tables": Experiment("tables", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
