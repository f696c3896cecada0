"""Few labels and no graph: what a learned graph gains where none is given, beside methods that need none.

The comparison of the graph-structure learners LDS, IDGL, SLAPS and SUBLIME, of whose printed numbers the best stands
below ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from latentgraph.baselines import simple
from latentgraph.baselines.method import Method, NetworkMethod, Population
from latentgraph.datasets.planetoid import NAMES as DOCUMENTS
from latentgraph.datasets.planetoid import Citations
from latentgraph.experiments.citation import accuracies, population
from latentgraph.experiments.citation_methods import (
    BASE,
    COMPARED,
    LARGER_FEATURES,
    PAPER,
    PLAIN_KNN,
    Make,
    PlainKnnGCN,
    network,
)
from latentgraph.experiments.dgm_method import AsItComes
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, best_first, mean_and_deviation
from latentgraph.experiments.few_labels import Smoothed
from latentgraph.experiments.no_graph_data import DATA, without_graph
from latentgraph.experiments.recipe import RecipeWithoutGraph
from latentgraph.experiments.results import Results, published
from latentgraph.graph import edge_homophily
from latentgraph.text_table import Table

KEY = ("data", "method", "seed")
SEEDS = 5
STEPS, QUICK_STEPS = 200, 20
QUICK_DATA = ("wine", "digits")
PROTOCOL = (
    "labelled rows drawn by the seed, classes in the same proportions: wine and cancer 10 to learn from and 20 to stop "
    "by, digits 50 and 100, 20news (10 groups, 236 words) 100 and 200; documents: public split, links withheld. "
    "Assumed: which rows, and that columns are scaled (wine and cancer, over all rows). The other rows are scored once"
)


class FromLearnedRows(AsItComes):
    """The classifier as it comes, which sees the labels of the rows to learn from alone, and stops by rows of these."""

    def fit(self, population: Population) -> Self:
        self.population = population
        self.model.fit(population.x.to_dense().numpy(), torch.where(population.learn, population.y, -1).numpy())
        return self


def _trial(seed: int, steps: int, **settings: Any) -> Smoothed:
    return Smoothed(seed, steps=min(100, steps), **settings)


BEST = "dDGM, f = principal directions"
MLP_F = f"{BASE}, f=mlp"
METHODS: dict[str, Make] = {
    "logistic regression": COMPARED["logistic regression"],
    "random forest": lambda seed, steps: simple.random_forest(seed, refit=False),
    "label spreading": lambda seed, steps: simple.label_spreading(),
    "MLP": COMPARED["MLP"],
    "kNN-GCN": COMPARED["kNN-GCN"],
    PLAIN_KNN: network(PlainKnnGCN),
    MLP_F: PAPER[MLP_F],
    "dDGM, recipe of the citation tables, f without a graph": network(RecipeWithoutGraph, 240, 80),
    "DGMClassifier as it comes": lambda seed, steps: FromLearnedRows(seed, steps=steps),
    BEST: network(Smoothed, 100, 40),
}
ALIKE = "edges between rows of the same class in %, of the graph that a network works on, nearest or learned"
TRIALS: dict[str, Make] = {
    "dDGM, recipe of the citation tables, f without a graph": network(RecipeWithoutGraph, 240, 80),
    "k=20, 3 hops, t=9, f learned": partial(_trial, k=20, hops=3, temperature=9.0, learned=True),
    "k=40, 3 hops, t=40, f learned": partial(_trial, hops=3, learned=True),
    "k=20, 3 hops, t=40": partial(_trial, k=20, hops=3),
    "k=40, 3 hops, t=40": partial(_trial, hops=3),
    "k=40, 6 hops, t=40 (taken)": _trial,
}
TRIAL_DATA = ("digits", "Cora")
TRIAL_SEEDS = 2


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Seed by seed, so that an interrupted run has something of every method."""
    return [
        {"data": data, "method": method, "seed": seed}
        for seed in range(seeds)
        for data in (QUICK_DATA if quick else DATA)
        for method in METHODS
    ]


def trials(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [
        {"data": data, "method": trial, "seed": seed}
        for seed in range(seeds)
        for data in (TRIAL_DATA[:1] if quick else TRIAL_DATA)
        for trial in TRIALS
    ]


def compute_trial(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    """The accuracy on the rows to choose by; the rows to test on are not looked at."""
    rows, seen = _seen(cell, data_root)
    method = TRIALS[cell["method"]](cell["seed"], QUICK_STEPS if quick else STEPS).fit(seen)
    return {"validation": float((method.predict(seen) == rows.y)[rows.validation].double().mean())}


def trial_table(results: Results) -> list[Table]:
    found = {trial: [results.column("validation", data=data, method=trial) for data in TRIAL_DATA] for trial in TRIALS}
    rows = [[trial, *(mean_and_deviation(values, TRIAL_SEEDS) for values in row)] for trial, row in found.items()]
    return [Table(f"validation accuracy in %, mean ± deviation of {TRIAL_SEEDS} runs", ["trial", *TRIAL_DATA], rows)]


def _seen(cell: Cell, data_root: str | None) -> tuple[Citations, Population]:
    """All rows with their classes, and what a method sees."""
    rows = without_graph(cell["data"], cell["seed"], data_root)
    if cell["data"] in DOCUMENTS:
        return rows, population(rows, rows_sum_to_one=cell["method"] not in LARGER_FEATURES)
    y = torch.where(rows.train | rows.validation, rows.y, -1)
    return rows, Population(rows.x, y, int(rows.y.max()) + 1, rows.validation, rows.edge_index)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    rows, seen = _seen(cell, data_root)
    method = METHODS[cell["method"]](cell["seed"], QUICK_STEPS if quick else STEPS)
    measured = accuracies(method, seen, rows)
    edges = _edges(method, seen)
    return measured if edges is None else {**measured, "homophily": edge_homophily(edges, rows.y)}


@torch.no_grad()
def _edges(method: Method, seen: Population) -> Tensor | None:
    """The graph on which a network works in the end, learned or of nearest rows; None if there is none."""
    if not isinstance(method, NetworkMethod):
        return None
    graph = method.graph(seen)
    _, learned = method.net(method.features(seen), graph, generator=torch.Generator().manual_seed(0))
    edges = learned[-1].edge_index if learned else graph
    return None if edges is None or not edges.numel() else edges


def tables(results: Results) -> list[Table]:
    """The best mean first; below, what others printed."""
    found = {method: [results.column("accuracy", data=data, method=method) for data in DATA] for method in METHODS}
    rows = [[method, *(mean_and_deviation(values, SEEDS) for values in found[method])] for method in best_first(found)]
    printed = published("no-graph")["rows"]
    rows += [[name, *(as_printed(row.get(data)) for data in DATA)] for name, row in printed.items()]
    title = f"accuracy in %, mean ± standard deviation of {SEEDS} runs; another number of runs in brackets"
    return [Table(title, ["method", *DATA], rows), Table(ALIKE, ["method", *DATA], _alike(results))]


def _alike(results: Results) -> list[list[str]]:
    """Of the methods that work on a graph in the end, how often its edges join rows of the same class."""
    shares = {
        method: [
            [
                row["homophily"]
                for row in results.rows
                if (row["data"], row["method"]) == (data, method) and "homophily" in row
            ]
            for data in DATA
        ]
        for method in METHODS
    }
    return [[method, *map(mean_and_deviation, found)] for method, found in shares.items() if any(found)]


EXPERIMENTS = {
    "no-graph": Experiment("no-graph", KEY, SEEDS, cells, compute, tables, PROTOCOL),
    "no-graph-trials": Experiment(
        "no-graph-trials", KEY, TRIAL_SEEDS, trials, compute_trial, trial_table, PROTOCOL + "; here they are not scored"
    ),
}
