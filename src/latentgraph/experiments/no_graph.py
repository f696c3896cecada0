"""Few labels and no graph: what a learned graph gains where none is given, beside methods that need none.

The comparison of the graph-structure learners LDS, IDGL, SLAPS and SUBLIME, of whose printed numbers the best stands
below ours.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch

from latentgraph.baselines import simple
from latentgraph.baselines.method import Population
from latentgraph.experiments.citation import accuracies, population
from latentgraph.experiments.citation_methods import BASE, COMPARED, LARGER_FEATURES, PAPER, Make, network
from latentgraph.experiments.dgm_method import AsItComes
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, mean_and_deviation
from latentgraph.experiments.few_labels import Started
from latentgraph.experiments.no_graph_data import DATA, DOCUMENTS, without_graph
from latentgraph.experiments.recipe import RecipeWithoutGraph
from latentgraph.experiments.results import Results, published
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


BEST = "dDGM, best without a graph"
MLP_F = f"{BASE}, f=mlp"
METHODS: dict[str, Make] = {
    "logistic regression": COMPARED["logistic regression"],
    "random forest": lambda seed, steps: simple.random_forest(seed, refit=False),
    "label spreading": lambda seed, steps: simple.label_spreading(),
    "MLP": COMPARED["MLP"],
    "kNN-GCN": COMPARED["kNN-GCN"],
    MLP_F: PAPER[MLP_F],
    "dDGM, recipe of the citation tables, f without a graph": network(RecipeWithoutGraph, 240, 80),
    "DGMClassifier as it comes": lambda seed, steps: FromLearnedRows(seed, steps=steps),
    BEST: network(Started, 200, 60),
}
LARGER = (*LARGER_FEATURES, BEST)  # these learn too slowly from rows of documents that sum to one


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Seed by seed, so that an interrupted run has something of every method."""
    return [
        {"data": data, "method": method, "seed": seed}
        for seed in range(seeds)
        for data in (QUICK_DATA if quick else DATA)
        for method in METHODS
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    name = cell["method"]
    rows = without_graph(cell["data"], cell["seed"], data_root)
    if cell["data"] in DOCUMENTS:
        seen = population(rows, rows_sum_to_one=name not in LARGER)
    else:
        y = torch.where(rows.train | rows.validation, rows.y, -1)
        seen = Population(rows.x, y, int(rows.y.max()) + 1, rows.validation, rows.edge_index)
    return accuracies(METHODS[name](cell["seed"], QUICK_STEPS if quick else STEPS), seen, rows)


def tables(results: Results) -> list[Table]:
    """The best mean first; below, what others printed."""
    found = {method: [results.column("accuracy", data=data, method=method) for data in DATA] for method in METHODS}
    order = sorted(METHODS, key=lambda method: -np.mean([np.mean(values) for values in found[method] if values] or 0))
    rows = [[method, *(mean_and_deviation(values, SEEDS) for values in found[method])] for method in order]
    printed = published("no-graph")["rows"]
    rows += [[name, *(as_printed(row.get(data)) for data in DATA)] for name, row in printed.items()]
    title = f"accuracy in %, mean ± standard deviation of {SEEDS} runs; another number of runs in brackets"
    return [Table(title, ["method", *DATA], rows)]


EXPERIMENTS = {"no-graph": Experiment("no-graph", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
