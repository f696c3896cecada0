"""The main job on data that comes along: 569 tumours, most of their diagnoses hidden, a graph learned between them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from latentgraph.experiments.results import versions
from latentgraph.files import replacing
from latentgraph.graph import edge_frequencies, edge_homophily
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import consensus
from latentgraph.presets import medical_net
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, fit

HIDDEN = 0.8  # share of the diagnoses that nobody sees
STEPS = 400
GRAPHS = 32  # sampled after training for the edge frequencies


@dataclass(frozen=True)
class Table:
    """Standardised measurements (n, d), diagnoses (n,), and which rows are learned from, stopped by, tested on."""

    x: np.ndarray
    y: np.ndarray
    classes: list[str]
    learn: np.ndarray
    stop: np.ndarray
    test: np.ndarray

    @property
    def labelled(self) -> np.ndarray:
        return np.concatenate([self.learn, self.stop])


def load(seed: int) -> Table:
    """scikit-learn's breast-cancer table, split so that each part has the same share of malignant tumours."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    y = data.target
    labelled, test = train_test_split(np.arange(len(y)), test_size=HIDDEN, stratify=y, random_state=seed)
    learn, stop = train_test_split(labelled, test_size=0.25, stratify=y[labelled], random_state=seed)
    x = StandardScaler().fit(data.data[labelled]).transform(data.data)
    return Table(x, y, [str(name) for name in data.target_names], learn, stop, test)


def baselines(table: Table, seed: int) -> dict[str, float]:
    """Accuracy on the hidden diagnoses of what one would try first. They see all labelled rows."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import LabelSpreading

    x, y, test = table.x, table.y, table.test
    supervised = {
        "logistic regression": LogisticRegression(max_iter=1000),
        "random forest": RandomForestClassifier(500, random_state=seed),
    }
    scores = {}
    for name, model in supervised.items():
        model.fit(x[table.labelled], y[table.labelled])
        scores[name] = float((model.predict(x[test]) == y[test]).mean())
    partial = np.full_like(y, -1)
    partial[table.labelled] = y[table.labelled]
    spreading = LabelSpreading(kernel="knn", n_neighbors=7).fit(x, partial)
    scores["kNN label spreading"] = float((spreading.transduction_[test] == y[test]).mean())
    return scores


def run(out: Path, *, seed: int = 0, steps: int = STEPS, show: bool = True) -> dict[str, Any]:
    """Train, compare, write the learned graph into the folder `out`; return the summary that is written there."""
    torch.set_num_threads(1)  # so small a problem gains nothing from more, and loses much on a busy machine
    table = load(seed)
    scores = baselines(table, seed)

    torch.manual_seed(seed)
    x = torch.tensor(table.x, dtype=torch.float32)
    y = torch.tensor(table.y)
    masks = torch.zeros(2, len(y), dtype=torch.bool)
    masks[0, table.learn], masks[1, table.stop] = True, True
    net = medical_net(x.shape[1], len(table.classes), f=gcn, g=gcn)
    history = fit(
        net,
        NodeSet(x, y, masks[0]),
        validation=NodeSet(x, y, masks[1]),
        baseline=MovingAverageBaseline(len(y)),
        steps=steps,
        weight_decay=5e-4,
        patience=150,
        seed=seed,
        show=show,
        title="learning the graph",
    )
    probability, graphs = consensus(net, x, samples=GRAPHS, generator=torch.Generator().manual_seed(seed))
    prediction = probability.argmax(1)
    scores["latentgraph (dDGM)"] = float((prediction == y)[torch.tensor(table.test)].float().mean())
    last = [sample[-1] for sample in graphs]
    summary = {
        "data": "scikit-learn breast cancer",
        "rows": len(y),
        "labelled": len(table.labelled),
        "seed": seed,
        "best_step": history.best_step,
        "accuracy_on_hidden_labels": scores,
        "edge_homophily": float(np.mean([edge_homophily(g.edge_index, y) for g in last if g.edge_index is not None])),
        "versions": versions(),
    }
    _write(out, table, prediction.numpy(), probability.numpy(), edge_frequencies(last), summary)
    return summary


def _write(
    out: Path, table: Table, prediction: np.ndarray, probability: np.ndarray, frequency: Any, summary: dict[str, Any]
) -> None:
    import scipy.sparse as sp

    out.mkdir(parents=True, exist_ok=True)
    part = np.full(len(table.y), "hidden", dtype=object)
    part[table.learn], part[table.stop] = "learned from", "stopped by"
    with replacing(out / "nodes.csv") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "part", "diagnosis", "prediction", *(f"p({name})" for name in table.classes)])
        for row, p in enumerate(probability):
            diagnosis, predicted = table.classes[table.y[row]], table.classes[prediction[row]]
            writer.writerow([row, part[row], diagnosis, predicted, *(f"{value:.4f}" for value in p)])
    with replacing(out / "edges.csv") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "neighbour", "frequency"])
        edges = frequency.tocoo()
        writer.writerows(zip(edges.row.tolist(), edges.col.tolist(), edges.data.tolist(), strict=True))
    with replacing(out / "summary.json") as file:
        json.dump(summary, file, indent=2)
    with replacing(out / "graph.npz", "wb") as file:
        sp.save_npz(file, frequency)
