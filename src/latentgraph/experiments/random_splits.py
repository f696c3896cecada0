"""Documents again, on ten random splits of the sizes of the paper's: what a learned graph gains, split by split.

On one split the accuracy of a method hangs on the 500 nodes that happen to be tested. On the same random splits methods
are compared in pairs: the mean difference, and its standard error over the splits.
"""

from __future__ import annotations

from functools import cache

from latentgraph.datasets.planetoid import NAMES, Citations, planetoid
from latentgraph.experiments.citation import MOST_STEPS, QUICK_STEPS, accuracies, population
from latentgraph.experiments.citation_methods import COMPARED, LARGER_FEATURES, OURS, SKIP
from latentgraph.experiments.experiment import Cell, Experiment, gain, mean_and_deviation, paired
from latentgraph.experiments.results import Results
from latentgraph.text_table import Table

KEY = ("data", "method", "split")
SPLITS = 10
METHODS = (OURS, "GCN, 8 members", "GCN", SKIP, "MLP", "ridge", "logistic regression")
PROTOCOL = (
    "random splits, the number of the split is the seed of the split and of the method: 500 nodes to test on, 500 to "
    "stop by and to choose weights or strength, the rest to learn from. Rows sum to one. Consensus of 8 sampled "
    "graphs. The test nodes are scored once"
)


def cells(splits: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Split by split, so that an interrupted run has pairs."""
    return [
        {"data": data, "method": method, "split": split}
        for split in range(splits)
        for data in (NAMES[:1] if quick else NAMES)
        for method in METHODS
    ]


@cache
def citations(data: str, split: int, data_root: str | None) -> Citations:
    return planetoid(data, data_root, split="random", seed=split)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    documents, name = citations(cell["data"], cell["split"], data_root), cell["method"]
    seen = population(documents, rows_sum_to_one=name not in LARGER_FEATURES)
    method = COMPARED[name](cell["split"], QUICK_STEPS if quick else MOST_STEPS)
    return accuracies(method, seen, documents)


def tables(results: Results) -> list[Table]:
    accuracy = [
        [method, *(mean_and_deviation(_of(results, data, method), SPLITS) for data in NAMES)] for method in METHODS
    ]
    gained = [[method, *(_gain(results, data, method) for data in NAMES)] for method in METHODS[1:]]
    return [
        Table("accuracy in %, mean ± standard deviation of 10 splits", ["method", *NAMES], accuracy),
        Table(f"{OURS} minus the method, in points: mean ± standard error", ["method", *NAMES], gained),
    ]


def _of(results: Results, data: str, method: str) -> list[float]:
    return results.column("accuracy", data=data, method=method)


def _gain(results: Results, data: str, method: str) -> str:
    ours, theirs = (results.by("split", "accuracy", data=data, method=name) for name in (OURS, method))
    return gain(paired(ours, theirs), SPLITS)


EXPERIMENTS = {"citation-random": Experiment("random-splits", KEY, SPLITS, cells, compute, tables, PROTOCOL)}
