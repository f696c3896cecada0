"""Molecules and proteins, each a graph of its own: does a learned graph between the nodes help to classify it?

Ten folds with the classes in the same proportions; a ninth of the other folds decides when to stop, and which strength
to take. A graph to be tested on is seen by no method before the end.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch import Tensor

from latentgraph.datasets.tu import NAMES, tu
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, best_first, mean_and_deviation
from latentgraph.experiments.results import Results, published
from latentgraph.experiments.whole_graph_methods import METHODS
from latentgraph.graph_sets import GraphSet
from latentgraph.text_table import Table

KEY = ("data", "method", "fold")
FOLDS = 10
STEPS, QUICK_STEPS = 600, 20
PROTOCOL = (
    "10 stratified folds, the same for all methods; a ninth of the training folds, stratified, to choose weights (by "
    "accuracy) or a strength. Features of a node: tag, degree up to 10, one-hot. Consensus of 8 sampled graphs. Scored "
    "once"
)


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Fold by fold. `seeds` is of no use here: a fold is the repetition."""
    return [
        {"data": data, "method": method, "fold": fold}
        for fold in range(1 if quick else FOLDS)
        for data in (("MUTAG",) if quick else NAMES)
        for method in METHODS
    ]


def split(y: Tensor, fold: int) -> tuple[Tensor, Tensor, Tensor]:
    """(g,) bool masks of the graphs to learn from, to stop by and to test on."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(y)), y.numpy())
    others, test = list(folds)[fold]
    train, stop = train_test_split(others, test_size=1 / (FOLDS - 1), stratify=y.numpy()[others], random_state=fold)
    masks = torch.zeros(3, len(y), dtype=torch.bool)
    for mask, rows in zip(masks, (train, stop, test), strict=True):
        mask[rows] = True
    return masks[0], masks[1], masks[2]


@cache
def _graphs(data: str, data_root: str | None) -> GraphSet:
    return tu(data, data_root)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    graphs = _graphs(cell["data"], data_root)
    _, stop, test = split(graphs.y, cell["fold"])
    seen = GraphSet(graphs.x, torch.where(test, -1, graphs.y), edge_index=graphs.edge_index, batch=graphs.batch)
    found = METHODS[cell["method"]](seen, stop, cell["fold"], QUICK_STEPS if quick else STEPS)
    return {"accuracy": float((found == graphs.y)[test].double().mean())}


def tables(results: Results) -> list[Table]:
    """The best mean over the collections first; below, what others printed."""
    found = {method: [results.column("accuracy", data=data, method=method) for data in NAMES] for method in METHODS}
    rows = [[method, *(mean_and_deviation(values, FOLDS) for values in found[method])] for method in best_first(found)]
    printed = published("whole-graphs")["rows"]
    rows += [[name, *(as_printed(row.get(data)) for data in NAMES)] for name, row in printed.items()]
    return [
        Table(
            f"accuracy in %, mean ± standard deviation of {FOLDS} folds; another number of folds in brackets",
            ["method", *NAMES],
            rows,
        )
    ]


EXPERIMENTS = {"whole-graphs": Experiment("whole-graphs", KEY, 1, cells, compute, tables, PROTOCOL)}
