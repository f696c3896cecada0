"""Can a learned graph be read? How far it joins rows of the same class, whether another seed finds it again, and what
its bridges between classes are worth.

`DGMClassifier` as it comes, on all rows of a table at once; the labels of the test rows are hidden from it. Only what
test rows choose is counted against classes: the others have been learned from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentgraph.datasets.tadpole import tadpole
from latentgraph.estimators import DGMClassifier
from latentgraph.experiments.experiment import Cell, Experiment
from latentgraph.experiments.results import Results
from latentgraph.experiments.suite_data import TABLES, Split
from latentgraph.reports import homophily, stability
from latentgraph.text_table import Table

KEY = ("data", "seed")
SEEDS = 5
APART = 1000  # from the seed of a model to that of its pair
WITHOUT = "TADPOLE, without scores"
DATA = ("breast cancer", "wine", "digits", "TADPOLE", WITHOUT, "brain age")
STEPS, QUICK_STEPS = 200, 20
PROTOCOL = (
    "stratified 80/20 split by seed (TADPOLE: its own folds); the test rows are there, but without their labels; "
    "two models with seeds 0 and 1000, 1 and 1001, ... on the same rows; graphs of 8 samples. Bridges: test rows of "
    "whose chosen neighbours, as predicted, more than half have another class than their own prediction"
)

Array = NDArray[Any]
SHARES = ("homophily", "by chance", "overlap", "overlap by chance", "bridges", "errors of bridges", "other errors")


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [{"data": data, "seed": seed} for seed in range(seeds) for data in (DATA[:2] if quick else DATA)]


def _split(data: str, seed: int, data_root: str | None) -> Split:
    if data != WITHOUT:
        return TABLES[data](seed, data_root)
    fold = tadpole(seed, data_root).without_scores()
    return Split(fold.x[fold.train], fold.y[fold.train], fold.x[fold.test], fold.y[fold.test])


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    split, seed = _split(cell["data"], cell["seed"], data_root), cell["seed"]
    x, y = np.concatenate([split.x, split.x_test]), np.concatenate([split.y, split.y_test])
    test = np.arange(len(y)) >= len(split.y)
    steps = QUICK_STEPS if quick else STEPS
    models = [
        DGMClassifier(random_state=seed + apart, steps=steps).fit(x, np.where(test, -1, y)) for apart in (0, APART)
    ]
    return measures(models[0].graph_, models[1].graph_, models[0].transduction_, y, test)


def measures(graph: sp.csr_array, again: sp.csr_array, predicted: Array, y: Array, test: Array) -> dict[str, float]:
    """Of a graph in which row i has chosen column j, and of that of another seed."""
    of_test = sp.diags_array(test.astype(float)) @ graph
    same = homophily(of_test, y)
    both = stability([graph, again])
    share = crossing(of_test, predicted)[test]
    wrong = (predicted != y)[test]
    bridge = share > 0.5
    return {
        "homophily": same.edge,
        "by chance": same.chance,
        "overlap": both.overlap,
        "overlap by chance": both.chance,
        "bridges": float(bridge.mean()),
        "errors of bridges": float(wrong[bridge].mean()) if bridge.any() else np.nan,
        "other errors": float(wrong[~bridge].mean()) if not bridge.all() else np.nan,
    }


def crossing(graph: sp.csr_array, classes: Array) -> Array:
    """(n,) the part of a row's choices that have another class than the row; 0 where it has none."""
    edges = sp.coo_array(graph)
    other = edges.data * (classes[edges.row] != classes[edges.col])
    total = np.bincount(edges.row, weights=edges.data, minlength=len(classes))
    led = np.bincount(edges.row, weights=other, minlength=len(classes))
    return np.divide(led, total, out=np.zeros(len(classes)), where=total > 0)


def tables(results: Results) -> list[Table]:
    rows = []
    for data in DATA:
        found = {name: np.array(results.column(name, data=data), dtype=float) for name in SHARES}
        bridges = found["bridges"]
        # Errors are those of all bridges together: a pair has few of them, or none.
        weights = {"errors of bridges": bridges, "other errors": 1 - bridges}
        shown = [_percent(found[name], weights.get(name, np.ones_like(bridges))) for name in SHARES]
        rows.append([data, *shown, str(len(bridges))])
    return [Table(f"in %, over {SEEDS} pairs of models", ["data", *SHARES, "pairs"], rows)]


def _percent(values: Array, weights: Array) -> str:
    known = ~np.isnan(values) & (weights > 0)
    return f"{100 * np.average(values[known], weights=weights[known]):.1f}" if known.any() else "-"


EXPERIMENTS = {"learned-graphs": Experiment("learned-graphs", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
