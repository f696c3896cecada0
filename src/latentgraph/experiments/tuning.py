"""The same care for all: networks on documents, each with its best of as many settings.

`citation-tuning` tries settings on the validation nodes of two splits, and looks at no other node. `citation-tuned`
takes for each method the settings with the best mean, and scores them on ten other splits. All are splits of the same
nodes: many that are tested on there have been validation nodes here, for all methods alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from latentgraph.baselines.ensemble import Ensemble
from latentgraph.baselines.gcn import GAT, GCN, SkipGCN
from latentgraph.baselines.method import Method, NetworkMethod
from latentgraph.baselines.mlp import MLP
from latentgraph.datasets.planetoid import NAMES
from latentgraph.experiments.citation import MOST_STEPS, QUICK_STEPS, accuracies, population
from latentgraph.experiments.citation_methods import LARGER_FEATURES, OURS, SKIP
from latentgraph.experiments.experiment import Cell, Experiment, gain, mean_and_deviation, paired
from latentgraph.experiments.parts import Changed
from latentgraph.experiments.random_splits import SPLITS, citations
from latentgraph.experiments.results import Results
from latentgraph.text_table import Table

TRIALS, TRIAL_SPLITS = 20, 2
VOTING = "GCN, 8 members"
ALL: dict[str, list[Any]] = {
    "hidden": [32, 64, 128, 256],
    "dropout": [0.3, 0.5, 0.6, 0.7, 0.8],
    "weight_decay": [5e-5, 2e-4, 5e-4, 1e-3, 2e-3],
    "lr": [0.005, 0.01, 0.02],
}
SPACES: dict[str, dict[str, list[Any]]] = {
    "MLP": ALL,
    "GCN": ALL,
    "GAT": ALL | {"hidden": [8, 16, 32]},  # for each of 8 heads
    OURS: ALL
    | {
        "k": [5, 10, 20, 40],
        "embedding_dim": [4, 8, 16],
        "temperature": [1.0, 4.0, 16.0],
        "auxiliary": [0.3, 1.0, 3.0],
    },
    SKIP: ALL,  # after the others: what a trial draws depends on its place here
}
# data -> method -> the trial with the best mean validation accuracy, of those that have all their trials; a test
# compares with the results file
CHOSEN: dict[str, dict[str, int]] = {"Cora": {"MLP": 12, "GCN": 10, OURS: 14}}

TUNING_PROTOCOL = (
    f"{TRIALS} settings of each method, the first as in the other tables, the others drawn; random splits 10 and 11; "
    "500 nodes to stop by, to choose weights and for the accuracy shown; the nodes to test on are not looked at"
)
TUNED_PROTOCOL = (
    f"random splits 0 to 9, the settings with the best of {TRIALS} mean validation accuracies on two other splits; "
    "validation nodes of the split to stop by and to choose weights; the test nodes are scored once"
)


def drawn(spaces: Mapping[str, Mapping[str, list[Any]]], method: str, trial: int) -> dict[str, Any]:
    """What trial 1, 2, ... of a method changes: drawn by its number. Trial 0 changes nothing."""
    if not trial:
        return {}
    draw = np.random.default_rng([list(spaces).index(method), trial])
    return {name: values[draw.integers(len(values))] for name, values in spaces[method].items()}


def settings(method: str, trial: int) -> dict[str, Any]:
    return drawn(SPACES, method, trial)


def make(method: str, trial: int, seed: int, steps: int) -> NetworkMethod:
    changes = settings(method, trial)
    if method == OURS:
        weight = changes.pop("auxiliary", 1.0)
        return Changed({**changes, "more": {"auxiliary_weight": weight}}, seed, steps=steps)
    kinds: dict[str, type[NetworkMethod]] = {"MLP": MLP, "GCN": GCN, "GAT": GAT, SKIP: SkipGCN}
    found = kinds[method](seed, steps=steps, patience=100)
    vars(found).update(changes)
    return found


def tuning_cells(splits: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [
        {"data": data, "method": method, "trial": trial, "split": SPLITS + split}
        for data in (NAMES[:1] if quick else NAMES)
        for split in range(splits)
        for trial in range(2 if quick else TRIALS)
        for method in SPACES
    ]


def try_settings(cell: Cell, quick: bool, data_root: str | None) -> dict[str, Any]:
    documents = citations(cell["data"], cell["split"], data_root)
    seen = population(documents, rows_sum_to_one=cell["method"] not in LARGER_FEATURES)
    method = make(cell["method"], cell["trial"], cell["split"], QUICK_STEPS if quick else MOST_STEPS).fit(seen)
    right = (method.predict(seen) == documents.y)[documents.validation]
    found = {"settings": settings(cell["method"], cell["trial"]), "validation": float(right.double().mean())}
    return found | {"steps": len(method.history.rows)}


def best_trial(results: Results, data: str, method: str) -> int | None:
    """None until all splits of all trials are there."""
    runs = [results.column("validation", data=data, method=method, trial=trial) for trial in range(TRIALS)]
    complete = all(len(found) == TRIAL_SPLITS for found in runs)
    return int(np.argmax([np.mean(found) for found in runs])) if complete else None


def tuning_tables(results: Results) -> list[Table]:
    rows = []
    for data in NAMES:
        for method in SPACES:
            first = results.column("validation", data=data, method=method, trial=0)
            if (best := best_trial(results, data, method)) is None:
                there = len(results.column("validation", data=data, method=method))
                rows.append([data, method, mean_and_deviation(first), f"{there} of {TRIALS * TRIAL_SPLITS} runs", "-"])
                continue
            found = results.column("validation", data=data, method=method, trial=best)
            words = ", ".join(f"{name} {value}" for name, value in settings(method, best).items())
            rows.append([data, method, mean_and_deviation(first), mean_and_deviation(found), words or "as they were"])
    header = ["data", "method", "as it was", f"best of {TRIALS}", "settings"]
    return [Table(f"validation accuracy in %, mean ± deviation of {TRIAL_SPLITS} splits", header, rows)]


def _fitted(data: str, method: str) -> Callable[[int, int], Method]:
    """(seed, most steps) -> the method with the settings that were chosen for it; the vote's are the GCN's."""
    if method == VOTING:
        return lambda seed, steps: Ensemble(lambda one: make("GCN", CHOSEN[data]["GCN"], one, steps), seed)
    return partial(make, method, CHOSEN[data][method])


def tuned_cells(splits: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [
        {"data": data, "method": method, "split": split}
        for data in CHOSEN
        for split in range(splits)
        for method in (*CHOSEN[data], VOTING)
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    documents, name = citations(cell["data"], cell["split"], data_root), cell["method"]
    seen = population(documents, rows_sum_to_one=name not in LARGER_FEATURES)
    return accuracies(_fitted(cell["data"], name)(cell["split"], QUICK_STEPS if quick else MOST_STEPS), seen, documents)


def tuned_tables(results: Results) -> list[Table]:
    accuracy, gained = [], []
    for method in (*SPACES, VOTING):
        runs = {data: results.by("split", "accuracy", data=data, method=method) for data in CHOSEN}
        accuracy.append([method, *(mean_and_deviation(list(found.values()), SPLITS) for found in runs.values())])
        if method != OURS:
            ours = {data: results.by("split", "accuracy", data=data, method=OURS) for data in CHOSEN}
            gained.append([method, *(gain(paired(ours[data], found), SPLITS) for data, found in runs.items())])
    return [
        Table(f"accuracy in %, mean ± standard deviation of {SPLITS} splits", ["method", *CHOSEN], accuracy),
        Table(f"{OURS} minus the method, in points: mean ± standard error", ["method", *CHOSEN], gained),
    ]


EXPERIMENTS = {
    "citation-tuning": Experiment(
        "tuning",
        ("data", "method", "trial", "split"),
        TRIAL_SPLITS,
        tuning_cells,
        try_settings,
        tuning_tables,
        TUNING_PROTOCOL,
    ),
    "citation-tuned": Experiment(
        "tuned", ("data", "method", "split"), SPLITS, tuned_cells, compute, tuned_tables, TUNED_PROTOCOL
    ),
}
