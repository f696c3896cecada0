"""Diagnosis of patients (the paper's section on healthcare): TADPOLE, ten folds, transductive.

There is no validation fold: 15 % of the training rows are held back to stop early and to choose the weights, and a test
fold is looked at once. The features are used as given, scaled to [0, 1]. Simple baselines stand beside, among them a
logistic regression on column 0 alone, for that column nearly is the diagnosis.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from latentgraph.datasets.tadpole import NUM_FOLDS, Fold, tadpole
from latentgraph.experiments.results import Results, published
from latentgraph.graph import neighbors_to_edges
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet, consensus
from latentgraph.presets import medical_net
from latentgraph.progress import progress
from latentgraph.sampling import nearest
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.training import NodeSet, fit

PROTOCOL = "10 given folds; 15 % of the training rows held back for early stopping; test fold scored once"
STEPS, QUICK_STEPS = 400, 40
SEED = 0


def run(out: Path, *, data_root: str | None = None, quick: bool = False, show: bool = True) -> Results:
    """Compute what is missing of the table in the results file `out`, fold by fold."""
    results = Results(out, key=("method", "fold", "steps"))
    steps = QUICK_STEPS if quick else STEPS
    cells = [(fold, name) for fold in range(2 if quick else NUM_FOLDS) for name in METHODS]
    with progress("tadpole", len(cells), show) as report:
        for number, (fold, name) in enumerate(cells, 1):
            if not results.has(method=name, fold=fold, steps=steps):
                start = time.perf_counter()
                accuracy = METHODS[name](tadpole(fold, data_root), steps)
                seconds = round(time.perf_counter() - start, 2)
                results.add(
                    {
                        "table": "tadpole",
                        "method": name,
                        "fold": fold,
                        "accuracy": accuracy,
                        "seed": SEED,
                        "steps": steps,
                        "seconds": seconds,
                        "protocol": PROTOCOL,
                    }
                )
            report(number, {"accuracy": results.column("accuracy", method=name, fold=fold, steps=steps)[0]})
    return results


def table(results: Results, *, quick: bool = False) -> list[tuple[str, str, str]]:
    """Rows (method, paper, ours): mean and standard deviation of the folds in percent, ours in order of the mean."""
    paper = published("tadpole")["rows"]
    ours = {}
    for name in METHODS:
        values = results.column("accuracy", method=name, steps=QUICK_STEPS if quick else STEPS)
        if values:
            ours[name] = (100 * float(np.mean(values)), 100 * float(np.std(values)))
    names = sorted(ours, key=lambda name: ours[name]) + [name for name in paper if name not in ours]
    return [(name, _cell(paper.get(name)), _cell(ours.get(name))) for name in names]


def _cell(value: tuple[float, float] | list[float] | None) -> str:
    return "-" if value is None else f"{value[0]:.1f} +- {value[1]:.1f}"


def _sklearn(make: Callable[[], object], columns: slice = slice(None)) -> Callable[[Fold, int], float]:
    def score(fold: Fold, steps: int) -> float:
        x = fold.x[:, columns]
        model = make()
        model.fit(x[fold.train], fold.y[fold.train])  # type: ignore[attr-defined]
        return float((model.predict(x[fold.test]) == fold.y[fold.test]).mean())  # type: ignore[attr-defined]

    return score


def _logistic_regression() -> object:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=100, max_iter=5000)


def _random_forest() -> object:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(500, random_state=SEED)


def _network(make: Callable[[int, int], nn.Module], *, learns_graph: bool = False) -> Callable[[Fold, int], float]:
    """Train a network on the training rows of a population that contains the test rows without their labels."""

    def score(fold: Fold, steps: int) -> float:
        torch.manual_seed(SEED)
        x = torch.tensor(fold.x, dtype=torch.float32)
        y = torch.tensor(fold.y)
        train, validation = _inner_split(fold)
        edge_index = None if learns_graph else neighbors_to_edges(nearest(x, k=5))
        net = make(x.shape[1], 3)
        fit(
            net,
            NodeSet(x, y, train, edge_index),
            validation=NodeSet(x, y, validation, edge_index),
            baseline=MovingAverageBaseline(len(x)) if learns_graph else None,
            steps=steps,
            lr=1e-2,
            weight_decay=5e-4,
            patience=150,
            seed=SEED,
        )
        generator = torch.Generator().manual_seed(SEED)
        probability, _ = consensus(net, x, edge_index, generator=generator)
        test = torch.tensor(fold.test)
        return float((probability.argmax(1) == y)[test].float().mean())

    return score


def _inner_split(fold: Fold) -> tuple[Tensor, Tensor]:
    """Masks of the rows to learn from and of those to stop by, stratified by class."""
    from sklearn.model_selection import train_test_split

    learn, stop = train_test_split(fold.train, test_size=0.15, stratify=fold.y[fold.train], random_state=SEED)
    masks = torch.zeros(2, len(fold.y), dtype=torch.bool)
    masks[0, learn], masks[1, stop] = True, True
    return masks[0], masks[1]


def _mlp(d: int, c: int) -> DGMNet:
    return DGMNet([(None, mlp([d, 16, 16], activate_last=True))], head=nn.Linear(16, c))


def _knn_gcn(d: int, c: int) -> DGMNet:
    return DGMNet([(None, Stack(gcn([d, 16, 16]), nn.ReLU()))], head=nn.Linear(16, c))


METHODS: dict[str, Callable[[Fold, int], float]] = {
    "logistic regression, column 0 only": _sklearn(_logistic_regression, slice(0, 1)),
    "logistic regression": _sklearn(_logistic_regression),
    "random forest": _sklearn(_random_forest),
    "MLP": _network(_mlp),
    "kNN-GCN": _network(_knn_gcn),
    "dDGM": _network(medical_net, learns_graph=True),
    "cDGM": _network(lambda d, c: medical_net(d, c, continuous=True), learns_graph=True),
}
