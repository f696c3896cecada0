"""Documents that cite each other (the paper's section on benchmark graphs): Cora, CiteSeer and PubMed.

All tables share one results file, for most of the paper's have the same network in one of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import torch

from latentgraph.baselines.method import Method, Population
from latentgraph.datasets.planetoid import NAMES, Citations, planetoid
from latentgraph.experiments.citation_methods import (
    BASE,
    COMPARED,
    LARGER_FEATURES,
    LONGER,
    METHODS,
    OURS,
    PAPER,
    WITH_ITSELF,
    WITHOUT_CHANCE,
)
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, mean_and_deviation
from latentgraph.experiments.results import Results, published
from latentgraph.text_table import Table

KEY = ("data", "split", "method", "seed")
PAPERS, PUBLIC = "paper", "public"
SEEDS = {PAPERS: 10, PUBLIC: 5}  # the second is not of the paper
STEPS = {"Cora": 1000, "CiteSeer": 1000, "PubMed": 300}  # of the paper's networks, at most; a step of PubMed is long
MOST_STEPS = 1000  # of the others, which stop early
QUICK_STEPS = 60
PROTOCOL = (
    "split paper: nodes in the order of the file, the last 500 tested on, 500 before them to stop by and to choose "
    "weights or strength; split public: 20 labels a class, 500, 1000. Rows sum to one; for the paper's networks, "
    "GAT, kNN-GCN and DGCNN to the mean number of words. Consensus of 8 sampled graphs. The test nodes are scored once"
)

NO_DGM = "no DGM, g=gcn"
CORA_ALONE = (WITH_ITSELF[1], WITH_ITSELF[3])  # for time
METHODS_COMPARED = {PAPERS: (BASE, LONGER, NO_DGM, *COMPARED), PUBLIC: (BASE, NO_DGM, *COMPARED)}

# name of a table -> (published row, or None) of each of our methods
TABLES: dict[str, dict[str, str | None]] = {
    "citation-k": {
        **{f"{BASE}, k={k}" if k != 5 else BASE: str(k) for k in (1, 3, 5, 10, 20)},
        **{name: str(k) for k, name in WITH_ITSELF.items()},
    },
    "citation-geometry": {
        BASE: "Euclidean",
        f"{BASE}, hyperbolic": "hyperbolic",
        f"{BASE}, sphere": None,
        f"{BASE}, product": None,
        f"{BASE}, product of spheres": None,
    },
    "citation-dim": {f"{BASE}, d={d}" if d != 4 else BASE: str(d) for d in (2, 4, 6, 8)},
    "citation-layers": {
        NO_DGM: "0",
        BASE: "1",
        f"{BASE}, 2 modules": "2",
        f"{BASE}, 3 modules": "3",
    },
    "citation-f": {BASE: "gcn", **{f"{BASE}, f={name}": name for name in ("gat", "mlp", "id")}},
    "citation-g": {
        BASE: "gcn",
        **{f"{BASE}, g={name}": name for name in ("gat", "edgeconv")},
        **{f"no DGM, g={name}": f"{name}, without DGM" for name in ("gcn", "gat", "edgeconv")},
    },
}
BESIDE = ("ridge", "GCN", OURS)  # what a variant has to be compared with, below every table


def _cells(methods: Sequence[str], split: str, seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Seed by seed, so that an interrupted run has something of every method."""
    return [
        {"data": data, "split": split, "method": method, "seed": seed}
        for seed in range(seeds)
        for data in (("Cora",) if quick else NAMES)
        for method in methods
        if not (method in WITHOUT_CHANCE and seed)
        and not (method == LONGER and data == "PubMed")
        and not (method in CORA_ALONE and data != "Cora")
    ]


@cache
def _citations(data: str, split: str, data_root: str | None) -> Citations:
    return planetoid(data, data_root, split="public" if split == PUBLIC else "paper")


def population(documents: Citations, *, rows_sum_to_one: bool) -> Population:
    """What a method sees: no class of a test node."""
    x = documents.x / documents.x.sum(1, keepdim=True).clamp_min(1e-12)
    if not rows_sum_to_one:
        x = x * (x > 0).sum(1).float().mean()
    y = torch.where(documents.train | documents.validation, documents.y, -1)
    num_classes = int(documents.y.max()) + 1
    return Population(x.to_sparse_csr(), y, num_classes, documents.validation, documents.edge_index)


@cache
def _seen(data: str, split: str, data_root: str | None, rows_sum_to_one: bool) -> Population:
    return population(_citations(data, split, data_root), rows_sum_to_one=rows_sum_to_one)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    documents = _citations(cell["data"], cell["split"], data_root)
    name = cell["method"]
    seen = _seen(cell["data"], cell["split"], data_root, name not in LARGER_FEATURES)
    steps = QUICK_STEPS if quick else STEPS[cell["data"]] if name in PAPER else MOST_STEPS
    return accuracies(METHODS[name](cell["seed"], steps), seen, documents)


def accuracies(method: Method, seen: Population, documents: Citations) -> dict[str, float]:
    """Fit, predict, and only then look at the classes of the test nodes."""
    right = (method.fit(seen).predict(seen) == documents.y).double()
    history = getattr(method, "history", None)
    return {
        "accuracy": float(right[documents.test].mean()),
        "validation": float(right[documents.validation].mean()),
        "steps": 0 if history is None else len(history.rows),
    }


def _variants(name: str, results: Results) -> list[Table]:
    """A table of the paper: its rows, ours, and below what to compare with."""
    paper = published(name)["rows"]
    rows = [
        [method, *_pairs(results, method, PAPERS, paper[row] if row else {})] for method, row in TABLES[name].items()
    ]
    rows += [[method, *_pairs(results, method, PAPERS, {})] for method in BESIDE]
    return [Table(f"{_unit(PAPERS)}. {_wins(name, results)}", HEADER, rows)]


def _wins(name: str, results: Results) -> str:
    """In how many cells of a table of the paper our mean is not below the printed one."""
    paper = published(name)["rows"]
    found = [
        (np.mean(ours), paper[row][data][0] / 100)
        for method, row in TABLES[name].items()
        for data in NAMES
        if row and (ours := results.column("accuracy", data=data, split=PAPERS, method=method))
    ]
    return f"Ours is at or above the paper in {sum(ours >= printed for ours, printed in found)} of {len(found)} cells"


def _compared(split: str, results: Results) -> list[Table]:
    """All methods on a split, the best on Cora first."""
    dgm, gcn = published("citation-k")["rows"]["5"], published("citation-layers")["rows"]["0"]
    paper = {BASE: dgm, LONGER: dgm, OURS: dgm, NO_DGM: gcn}
    methods = sorted(METHODS_COMPARED[split], key=lambda method: -_mean_on_cora(results, method, split))
    rows = [
        [method, *_pairs(results, method, split, paper.get(method, {}) if split == PAPERS else {})]
        for method in methods
    ]
    return [Table(_unit(split), HEADER, rows)]


def _pairs(results: Results, method: str, split: str, paper: dict[str, Sequence[float]]) -> list[str]:
    """(paper, ours) for each network of documents; ours says how many runs there are if not as many as wanted."""
    cells = []
    for data in NAMES:
        ours = results.column("accuracy", data=data, split=split, method=method)
        cells += [as_printed(paper.get(data)), mean_and_deviation(ours, SEEDS[split])]
    return cells


def _mean_on_cora(results: Results, method: str, split: str) -> float:
    return float(np.mean(results.column("accuracy", data="Cora", split=split, method=method) or 0))


def _unit(split: str) -> str:
    return f"accuracy in %, mean ± standard deviation of {SEEDS[split]} runs; another number of runs in brackets"


HEADER = ["method", *(f"{data}, {whose}" for data in NAMES for whose in ("paper", "ours"))]

EXPERIMENTS = {
    **{
        name: Experiment(
            "citation",
            KEY,
            SEEDS[PAPERS],
            partial(_cells, (*rows, *BESIDE), PAPERS),
            compute,
            partial(_variants, name),
            PROTOCOL,
        )
        for name, rows in TABLES.items()
    },
    **{
        name: Experiment(
            "citation",
            KEY,
            SEEDS[split],
            partial(_cells, METHODS_COMPARED[split], split),
            compute,
            partial(_compared, split),
            PROTOCOL,
        )
        for name, split in (("citation-methods", PAPERS), ("citation-public", PUBLIC))
    },
}
