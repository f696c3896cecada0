"""The main job on data that comes along: 569 tumours, most of their diagnoses hidden, a graph learned between them.

It is `latentgraph fit` on a table that is written first; what it leaves is a run folder like any other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from latentgraph.errors import InputError
from latentgraph.explorer import Page, from_run
from latentgraph.files import replacing
from latentgraph.runs import fitting
from latentgraph.runs.folder import read_record
from latentgraph.runs.options import DEFAULTS
from latentgraph.runs.plan import Plan

HIDDEN = 0.8  # share of the diagnoses that nobody sees
TABLE, ANSWERS = "tumours.csv", "answers.csv"
TARGET, ID = "diagnosis", "tumour"
OURS = "latentgraph"


def load(seed: int) -> pd.DataFrame:
    """scikit-learn's breast-cancer table, with every diagnosis, and in `hidden` whether it is to be hidden."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    frame = data.data.copy()
    frame.insert(0, ID, [f"T{i:03}" for i in range(len(frame))])
    frame[TARGET] = data.target_names[data.target]
    _, hidden = train_test_split(np.arange(len(frame)), test_size=HIDDEN, stratify=data.target, random_state=seed)
    frame["hidden"] = np.isin(np.arange(len(frame)), hidden)
    return frame


def baselines(frame: pd.DataFrame, seed: int) -> dict[str, float]:
    """Accuracy on the hidden diagnoses of what one would try first, standardised by the labelled rows."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from sklearn.semi_supervised import LabelSpreading

    hidden = frame["hidden"].to_numpy()
    y = (frame[TARGET] == "malignant").to_numpy().astype(int)
    x = frame.drop(columns=[ID, TARGET, "hidden"]).to_numpy()
    x = StandardScaler().fit(x[~hidden]).transform(x)
    scores = {}
    for name, model in {
        "logistic regression": LogisticRegression(max_iter=1000),
        "random forest": RandomForestClassifier(500, random_state=seed),
    }.items():
        model.fit(x[~hidden], y[~hidden])
        scores[name] = float((model.predict(x[hidden]) == y[hidden]).mean())
    spreading = LabelSpreading(kernel="knn", n_neighbors=7).fit(x, np.where(hidden, -1, y))
    scores["kNN label spreading"] = float((spreading.transduction_[hidden] == y[hidden]).mean())
    return scores


def run(out: Path, *, seed: int = 0, steps: int = DEFAULTS["steps"], show: bool = True) -> dict[str, Any]:
    """Train, compare, leave a run folder; return the scores on the hidden diagnoses, which are also in `demo.json`."""
    if read_record(out) is not None and not (out / ANSWERS).exists():
        raise InputError(f"--out {out} holds a run that is not a demo. Name another folder.")
    torch.set_num_threads(1)  # so small a problem gains nothing from more, and loses much on a busy machine
    frame = load(seed)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / ANSWERS, frame)
    _write(out / TABLE, frame.drop(columns="hidden").assign(**{TARGET: frame[TARGET].mask(frame["hidden"])}))
    options = DEFAULTS | {"steps": steps}
    plan = Plan(out / TABLE, TARGET, id=ID, test_fraction=0.0, seed=seed, options=options, verbose=show)
    summary = fitting.run(plan, out, overwrite=True)
    nodes = pd.read_csv(out / "nodes.csv")
    right = (nodes["prediction"] == frame[TARGET])[frame["hidden"]]
    found = {
        "data": "scikit-learn breast cancer",
        "rows": summary["rows"],
        "labelled": summary["labelled"],
        "seed": seed,
        "best_step": summary["best_step"],
        "accuracy_on_hidden_labels": {OURS: float(right.mean()), **baselines(frame, seed)},
        "edge_homophily": _homophily(out, frame[TARGET].to_numpy()),
        "versions": summary["versions"],
    }
    if (out / "explorer.html").exists():  # drawn without the hidden diagnoses
        page(out).write(out / "explorer.html")
    with replacing(out / "demo.json") as file:
        json.dump(found, file, indent=2)
    return found


def page(out: Path) -> Page:
    """The page of a demo, on which the hidden diagnoses are known."""
    frame = pd.read_csv(out / ANSWERS)
    split = frame["hidden"].map({True: "hidden", False: "learned from"})
    return from_run(out, label=frame[TARGET].tolist(), split=split.tolist())


def _homophily(out: Path, kind: np.ndarray) -> float:
    """Share of the sampled edges that join tumours of the same kind."""
    import scipy.sparse as sp

    edges = sp.load_npz(out / "graph.npz").tocoo()
    return float(edges.data[kind[edges.row] == kind[edges.col]].sum() / edges.data.sum())


def _write(path: Path, frame: pd.DataFrame) -> None:
    with replacing(path) as file:
        frame.to_csv(file, index=False)
