"""The same care for all, on patients: each method with the best of as many settings, chosen inside the training rows.

Settings are compared by three-fold cross-validation within the training rows of a fold, and the best fitted once more
on all of them; the test fold is scored once. Transductive: where a method can use rows without a class, it has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from latentgraph.datasets.tadpole import NUM_FOLDS, tadpole
from latentgraph.estimators import DGMClassifier
from latentgraph.experiments.experiment import Cell, Experiment, best_first, gain, mean_and_deviation, paired
from latentgraph.experiments.results import Results
from latentgraph.experiments.tadpole import ALL, COLUMNS, QUICK_FOLDS, WITHOUT
from latentgraph.experiments.tuning import drawn
from latentgraph.text_table import Table

KEY = ("columns", "method", "fold")
TRIALS, QUICK_TRIALS, INNER = 10, 2, 3
OURS = "DGMClassifier"
PROTOCOL = (
    f"10 given folds, transductive; {TRIALS} settings of each method, the first its defaults, the others drawn; the "
    f"best by the mean accuracy of {INNER} inner folds of the training rows is fitted again on all of these; the test "
    "fold is scored once. without scores: as in the other tables of TADPOLE"
)
HEADER = ("method", "all columns", "without scores")

Array = NDArray[Any]

SPACES: dict[str, dict[str, list[Any]]] = {
    OURS: {
        "k": [5, 10, 20],
        "hidden": [32, 64, 128],
        "dropout": [0.1, 0.3, 0.5],
        "weight_decay": [0.1, 0.3, 1.0],
        "learning_rate": [0.003, 0.01],
        "auxiliary": [0.3, 1.0],
    },
    "random forest": {
        "max_features": ["sqrt", 0.3, 0.5, 1.0],
        "min_samples_leaf": [1, 2, 5, 10],
        "max_depth": [None, 5, 10],
        "criterion": ["gini", "entropy"],
    },
    "gradient boosting": {
        "learning_rate": [0.03, 0.1, 0.3],
        "max_iter": [50, 100, 200],
        "max_leaf_nodes": [7, 15, 31],
        "l2_regularization": [0.0, 1.0, 10.0],
        "max_features": [0.3, 1.0],
    },
    "logistic regression": {"C": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0], "class_weight": [None, "balanced"]},
}
METHODS: dict[str, Callable[..., BaseEstimator]] = {
    OURS: DGMClassifier,
    "random forest": lambda random_state, **settings: RandomForestClassifier(
        500, random_state=random_state, **settings
    ),
    "gradient boosting": HistGradientBoostingClassifier,
    "logistic regression": lambda random_state, **settings: LogisticRegression(max_iter=5000, **settings),
}


def answers(model: Any, x: Array, y: Array) -> Array:
    """(n,) the class of each row, learned from rows whose y is not -1; our classifier has the others in its graph."""
    if isinstance(model, DGMClassifier):
        found: Array = model.fit(x, y).transduction_
        return found
    return np.asarray(model.fit(x[y >= 0], y[y >= 0]).predict(x))


def validated(method: str, trial: int, x: Array, y: Array, train: Array, seed: int) -> float:
    """Mean accuracy over the inner folds: rows `train` lose their class in turn. All other classes in y are unknown."""
    scores = []
    for learn, held_back in StratifiedKFold(INNER, shuffle=True, random_state=seed).split(train, y[train]):
        seen = np.full_like(y, -1)
        seen[train[learn]] = y[train[learn]]
        model = METHODS[method](random_state=seed, **drawn(SPACES, method, trial))
        scores.append(float((answers(model, x, seen) == y)[train[held_back]].mean()))
    return float(np.mean(scores))


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Fold by fold, so that an interrupted run has something of every method."""
    return [
        {"columns": columns, "method": method, "fold": fold}
        for fold in range(QUICK_FOLDS if quick else NUM_FOLDS)
        for columns in COLUMNS
        for method in METHODS
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, Any]:
    fold, method, number = tadpole(cell["fold"], data_root), cell["method"], cell["fold"]
    if cell["columns"] == WITHOUT:
        fold = fold.without_scores()
    known = np.full(len(fold.y), -1)
    known[fold.train] = fold.y[fold.train]
    trials = range(QUICK_TRIALS if quick else TRIALS)
    scores = [validated(method, trial, fold.x, known, fold.train, number) for trial in trials]
    best = int(np.argmax(scores))
    model = METHODS[method](random_state=number, **drawn(SPACES, method, best))
    right = (answers(model, fold.x, known) == fold.y)[fold.test]
    return {"accuracy": float(right.mean()), "validation": scores[best], "settings": drawn(SPACES, method, best)}


def tables(results: Results) -> list[Table]:
    """The best first; and our classifier against each, fold by fold."""
    runs = {
        method: [results.by("fold", "accuracy", method=method, columns=columns) for columns in (ALL, WITHOUT)]
        for method in METHODS
    }
    order = best_first({method: [list(of.values()) for of in found] for method, found in runs.items()})
    accuracy = [[m, *(mean_and_deviation(list(of.values()), NUM_FOLDS) for of in runs[m])] for m in order]
    gained = [
        [m, *(gain(paired(ours, of), NUM_FOLDS) for ours, of in zip(runs[OURS], runs[m], strict=True))]
        for m in order
        if m != OURS
    ]
    return [
        Table(
            f"best of {TRIALS} settings; accuracy in %, mean ± standard deviation over folds", list(HEADER), accuracy
        ),
        Table(f"{OURS} minus the method, in points: mean ± standard error", list(HEADER), gained),
    ]


EXPERIMENTS = {"tadpole-tuned": Experiment("tadpole-tuned", KEY, 1, cells, compute, tables, PROTOCOL)}
