"""Ways to train a sampled graph, in one network: the recipe for documents, on Cora, the paper's split.

With and without the auxiliary classifier on the embedding, which teaches f past the graph. `none` is the control: f
learns nothing from the graph, and without the auxiliary loss it stays as it was drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from latentgraph.attended import SkipDiffusion
from latentgraph.baselines.gcn import GCN
from latentgraph.baselines.method import Method, Population
from latentgraph.datasets.planetoid import planetoid
from latentgraph.experiments.citation import accuracies, population
from latentgraph.experiments.experiment import Cell, Experiment, mean_and_deviation
from latentgraph.experiments.recipe import Recipe
from latentgraph.experiments.results import Results
from latentgraph.gradients import NAMES, Gradient, by_name
from latentgraph.loss import accuracy_reward, log_probability_reward
from latentgraph.text_table import Table
from latentgraph.training import classification

KEY = ("gradient", "auxiliary", "seed")
SEEDS = 5
STEPS, PATIENCE, QUICK_STEPS = 240, 80, 20
CONVOLUTIONS = 2
NONE, BESIDE = "none", "GCN on the given graph"
WITH, WITHOUT = "auxiliary", "no auxiliary"
PROTOCOL = (
    "Cora, the paper's split: 500 validation nodes to stop by and to choose weights; the recipe's network (k = 20), at "
    "most 240 steps; consensus of 8 sampled graphs; rewards are minus the cross-entropy, for reinforce right or wrong; "
    "4 graphs a step for plackett_luce, 1 for the others; the 500 test nodes are scored once"
)


class Trained(Recipe):
    """The recipe's network with a gradient by name."""

    def __init__(self, name: str, auxiliary: bool, seed: int, *, steps: int) -> None:
        super().__init__(seed, steps=steps, patience=PATIENCE)
        self.name, self.auxiliary = name, auxiliary

    def gradient(self, population: Population) -> Gradient:
        if self.name == NONE:
            return Gradient()
        return by_name(self.name, num_nodes=len(population.x), convolutions=CONVOLUTIONS)

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        """Edges count as the gradient says: with `Attended` a graph without weights of its own would get some."""
        return SkipDiffusion(in_features, out_features, dropout=self.dropout)

    def training(self, population: Population) -> dict[str, Any]:
        reward = accuracy_reward if "reinforce" in self.name else log_probability_reward
        found = super().training(population) | {"task": classification(reward)}
        return found if self.auxiliary else found | {"auxiliary": None}


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Seed by seed; the quick ones first."""
    rewarded = [name for name in NAMES if "plackett" in name or name == "subsets"]
    order = [NONE, *(name for name in NAMES if name not in rewarded), *rewarded]
    found: list[Cell] = []
    for seed in range(seeds):
        found.append({"gradient": BESIDE, "auxiliary": WITHOUT, "seed": seed})
        found += [{"gradient": name, "auxiliary": aux, "seed": seed} for name in order for aux in (WITH, WITHOUT)]
    return found


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    documents = planetoid("Cora", data_root, split="paper")
    steps = QUICK_STEPS if quick else STEPS
    method: Method
    if cell["gradient"] == BESIDE:
        method = GCN(cell["seed"], steps=steps if quick else 1000)
    else:
        method = Trained(cell["gradient"], cell["auxiliary"] == WITH, cell["seed"], steps=steps)
    return accuracies(method, population(documents, rows_sum_to_one=True), documents)


def tables(results: Results) -> list[Table]:
    """The best validation accuracy without the auxiliary loss first."""
    names = sorted((BESIDE, NONE, *NAMES), key=lambda name: -_mean(results, "validation", name))
    rows = []
    for name in names:
        line = [name]
        for auxiliary in (WITHOUT, WITH):
            runs = {"gradient": name, "auxiliary": auxiliary}
            line += [_shown(results.column(column, **runs)) for column in ("validation", "accuracy")]
        line.append(str(len(results.column("accuracy", gradient=name, auxiliary=WITHOUT))))
        rows.append(line)
    header = ["gradient", *(f"{aux}: {what}" for aux in (WITHOUT, WITH) for what in ("validation", "test")), "runs"]
    return [Table("accuracy in %, mean ± standard deviation", header, rows)]


def _shown(found: list[float]) -> str:
    """One run has no deviation."""
    return f"{100 * found[0]:.1f}" if len(found) == 1 else mean_and_deviation(found)


def _mean(results: Results, column: str, name: str) -> float:
    return float(np.mean(results.column(column, gradient=name, auxiliary=WITHOUT) or 0))


EXPERIMENTS = {"gradients": Experiment("gradients", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
