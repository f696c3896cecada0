"""`latentgraph fit`: train on a table, say how good it is on rows that were kept away, keep the model."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils._param_validation import InvalidParameterError

from latentgraph import store
from latentgraph.errors import InputError
from latentgraph.estimators import DGMClassifier, DGMRegressor
from latentgraph.estimators.keeping import parts_of
from latentgraph.experiments.results import versions
from latentgraph.files import replacing
from latentgraph.runs import scores
from latentgraph.semi_supervised import LabelledKFold, is_labelled
from latentgraph.tables import TablePreprocessor, TableReport, Target, read_table

Array = NDArray[Any]
OURS = "latentgraph"


@dataclass(frozen=True)
class Plan:
    """What to do with a table."""

    table: Path
    target: str
    id: str | None = None
    task: str | None = None
    scale: str = "standard"
    drop: Sequence[str] = ()
    test_fraction: float = 0.2
    folds: int = 0
    seed: int = 0
    verbose: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def preprocessor(self) -> TablePreprocessor:
        return TablePreprocessor(target=self.target, id=self.id, scale=self.scale, drop=list(self.drop))

    def estimator(self, task: str) -> DGMClassifier | DGMRegressor:
        kind = DGMClassifier if task == "classification" else DGMRegressor
        # The preprocessing has scaled the numbers already.
        return kind(**self.options, standardize=False, random_state=self.seed, verbose=self.verbose)


def run(plan: Plan, out: Path) -> dict[str, Any]:
    """Test, then train on all rows, then write the folder `out`; return its summary."""
    _check(plan, out)
    frame = read_table(plan.table)
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    tested = [_tested(plan, frame, target, y, train, test) for train, test in _splits(plan, y)]

    preprocessor = plan.preprocessor().fit(frame)
    prepared = preprocessor.prepare(frame)
    report = TableReport.make(frame, preprocessor, target)
    model = plan.estimator(target.task).fit(prepared.x, y)
    summary = {
        "table": str(plan.table),
        "target": plan.target,
        "task": target.task,
        "classes": target.classes,
        "rows": len(frame),
        "labelled": int(is_labelled(y).sum()),
        "features": prepared.x.shape[1],
        "steps": model.n_iter_,
        "scores": tested,
        "report": report.sentences(),
        "versions": versions(),
    }
    parts = parts_of(model)
    parts |= {
        "preprocessing.json": preprocessor.to_json(),
        "target.json": target.to_json(),
        "rows.json": prepared.ids,
    }
    out.mkdir(parents=True, exist_ok=True)
    store.save(out / "model", parts)
    _write(out, plan, summary, model, target, y, prepared.ids)
    return summary


def _check(plan: Plan, out: Path) -> None:
    if plan.folds == 1 or plan.folds < 0:
        raise InputError(f"folds={plan.folds}; it must be 0 (one test part) or at least 2.")
    if not 0 <= plan.test_fraction < 1:
        raise InputError(f"test_fraction={plan.test_fraction}; it must be at least 0 and below 1.")
    try:
        plan.estimator("classification")._validate_params()
    except InvalidParameterError as error:
        raise InputError(str(error)) from None
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder.")


def _splits(plan: Plan, y: Array) -> list[tuple[Array, Array]]:
    """Rows to learn from and rows to test on; only labelled rows are tested on."""
    if plan.folds:
        return list(LabelledKFold(plan.folds, shuffle=True, random_state=plan.seed).split(y, y))
    rows = np.flatnonzero(is_labelled(y))
    if not plan.test_fraction or len(rows) < 10:
        return []
    classes = y[rows] if y.dtype.kind == "i" and np.bincount(y[rows]).min() > 1 else None
    _, test = train_test_split(rows, test_size=plan.test_fraction, stratify=classes, random_state=plan.seed)
    return [(np.setdiff1d(np.arange(len(y)), test), np.sort(test))]


def _tested(plan: Plan, frame: Any, target: Target, y: Array, train: Array, test: Array) -> dict[str, dict[str, float]]:
    """Scores of every method on the rows `test`, which nothing was fitted on."""
    preprocessor = plan.preprocessor().fit(frame, rows=train.tolist())
    x = preprocessor.transform(frame)
    known = train[is_labelled(y)[train]]
    found = {}
    model = plan.estimator(target.task).fit(x[train], y[train])
    for name, method in {OURS: model, **scores.baselines(target.task, plan.seed)}.items():
        if name != OURS:
            method.fit(x[known], y[known])
        if target.task == "regression":
            found[name] = scores.of_numbers(y[test], method.predict(x[test]))
        else:
            probability = np.zeros((len(test), len(target.classes)))
            probability[:, method.classes_] = method.predict_proba(x[test])
            found[name] = scores.of_classes(y[test], probability)
    return found


def _write(
    out: Path, plan: Plan, summary: dict[str, Any], model: Any, target: Target, y: Array, ids: list[str]
) -> None:
    """What people and other programs read; the model itself is in the folder `model`."""
    with replacing(out / "summary.json") as file:
        json.dump(summary, file, indent=2)
    with replacing(out / "history.csv") as file:
        names = list(dict.fromkeys(name for row in model.history_.rows for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(model.history_.rows)
    with replacing(out / "nodes.csv") as file:
        _write_rows(file, model, target, y, ids)
    with replacing(out / "graph.npz", "wb") as file:
        sp.save_npz(file, model.graph_)
    with replacing(out / "card.md") as file:
        file.write(card(plan, summary))


def _write_rows(file: Any, model: Any, target: Target, y: Array, ids: list[str]) -> None:
    writer = csv.writer(file)
    if target.task == "regression":
        writer.writerow(["row", target.column, "prediction"])
        writer.writerows(
            [name, "" if np.isnan(value) else value, found]
            for name, value, found in zip(ids, y.tolist(), model.transduction_.tolist(), strict=True)
        )
        return
    writer.writerow(["row", target.column, "prediction", *(f"p({name})" for name in target.classes)])
    found = target.decode(model.transduction_)
    for name, code, guess, p in zip(ids, y.tolist(), found, model.label_distributions_, strict=True):
        writer.writerow([name, target.classes[code] if code >= 0 else "", guess, *(f"{value:.6f}" for value in p)])


def mean_scores(tested: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation over the parts, for each method and score."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for method in tested[0] if tested else ():
        for score in tested[0][method]:
            values = [part[method][score] for part in tested if score in part[method]]
            found.setdefault(method, {})[score] = float(np.mean(values)), float(np.std(values))
    return found


def card(plan: Plan, summary: Mapping[str, Any]) -> str:
    """A model card in Markdown."""
    found = mean_scores(summary["scores"])
    lines = [
        f"# {plan.target}, predicted from {plan.table.name}",
        "",
        f"A {summary['task']} model that learns a graph between the rows, made by latentgraph "
        f"{summary['versions']['latentgraph']}.",
        "",
        "## Data",
        "",
        *(f"- {sentence}" for sentence in summary["report"]),
        "",
        "## Scores on rows that were kept away from training",
        "",
    ]
    if found:
        names = list(found[OURS])
        parts = (
            f"mean and standard deviation over {plan.folds} folds" if plan.folds else "one part of the labelled rows"
        )
        lines += [f"({parts})", "", "| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for method, values in found.items():
            cells = (f"{m:.4f} ± {s:.4f}" if plan.folds else f"{m:.4f}" for m, s in values.values())
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    else:
        lines.append("Not measured: there were too few labelled rows, or it was not asked for.")
    lines += [
        "",
        "## Use",
        "",
        "The model was trained on all rows of the table, and keeps their standardised features: do not give the folder "
        "to whom you would not give the table. Predictions for rows with a high outlier score mean little.",
        "",
    ]
    return "\n".join(lines)
