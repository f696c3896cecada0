"""What a run leaves for people and for other programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from latentgraph import store
from latentgraph.errors import InputError
from latentgraph.estimators.keeping import parts_of
from latentgraph.experiments.results import versions
from latentgraph.explorer import from_run, keep_table
from latentgraph.files import replacing
from latentgraph.runs import plots
from latentgraph.runs.card import card
from latentgraph.runs.plan import Plan
from latentgraph.runs.scores import calibration, confusion, known
from latentgraph.runs.testing import Tested, mean_scores
from latentgraph.tables import TablePreprocessor, TableReport, Target, reading_of
from latentgraph.tables.preprocessor import Prepared

Array = NDArray[Any]


@dataclass(frozen=True)
class Trained:
    """A table, the model that was trained on all of its rows, and the tests on parts of them."""

    frame: pd.DataFrame
    target: Target
    y: Array
    preprocessor: TablePreprocessor
    prepared: Prepared
    model: Any
    parts: Sequence[Tested]

    def out_of_sample(self) -> tuple[Array, Array]:
        """Targets and predictions of all rows that were tested on."""
        if not self.parts:
            return self.y[:0], np.zeros((0, len(self.target.classes)))
        return self.y[np.concatenate([p.rows for p in self.parts])], np.concatenate([p.found for p in self.parts])


def write(out: Path, plan: Plan, trained: Trained) -> dict[str, Any]:
    """Write everything into the folder `out`; return the summary, which is written last."""
    target, model, y = trained.target, trained.model, trained.y
    scores = [part.scores for part in trained.parts]
    summary = {
        "table": str(plan.table),
        "target": plan.target,
        "task": target.task,
        "classes": target.classes,
        "rows": len(y),
        "labelled": int(known(y).sum()),
        "features": trained.prepared.x.shape[1],
        "steps": model.n_iter_,
        "best_step": model.history_.best_step,
        "scores": scores,
        "report": TableReport.make(trained.frame, trained.preprocessor, target).sentences(),
        "versions": versions(),
    }
    store.save(out / "model", _parts(trained))
    history = model.history_.rows
    names = list(dict.fromkeys(name for row in history for name in row))
    _write_table(out / "history.csv", names, ([row.get(name) for name in names] for row in history))
    _write_table(out / "nodes.csv", *_nodes(trained))
    _write_table(out / "tested.csv", *_tested(trained))
    with replacing(out / "graph.npz", "wb") as file:
        sp.save_npz(file, model.graph_)
    _draw(out, trained, f"{plan.target} · {plan.table.name}")
    metrics = {"best_step": model.history_.best_step, "steps": history, **_measured(trained)}
    drawn = plots.write(out / "plots", target, y, history, model.history_.best_step, *trained.out_of_sample())
    with replacing(out / "card.md") as file:
        file.write(card(plan, summary, drawn))
    for name, content in {"metrics.json": metrics, "summary.json": summary}.items():
        with replacing(out / name) as file:
            json.dump(content, file, indent=2)
    return summary


def _draw(out: Path, trained: Trained, title: str) -> None:
    """The page to look at the graph, with the rows of the table. A run is complete without it."""
    keep_table(trained.frame, out)
    try:
        page = from_run(out, title=title, made=(trained.model, trained.target))
        page.write(out / "explorer.html")  # the summary, which has it, is written last
    except InputError as error:
        print(f"latentgraph: no explorer.html: {error}", file=sys.stderr)


def _parts(trained: Trained) -> dict[str, Any]:
    """The model and what `predict` needs beside it."""
    reading = reading_of(trained.frame)
    return parts_of(trained.model) | {
        "preprocessing.json": trained.preprocessor.to_json(),
        "target.json": trained.target.to_json(),
        "rows.json": trained.prepared.ids,
        "reading.json": {"decimal": None if reading is None else reading.decimal},
    }


def _measured(trained: Trained) -> dict[str, Any]:
    scores = [part.scores for part in trained.parts]
    found: dict[str, Any] = {"scores": scores, "mean": {}, "std": {}}
    for method, values in mean_scores(scores).items():
        found["mean"][method] = {name: mean for name, (mean, _) in values.items()}
        found["std"][method] = {name: std for name, (_, std) in values.items()}
    if scores and trained.target.classes:
        y, probability = trained.out_of_sample()
        found["confusion"] = confusion(y, probability).tolist()
        found["calibration"] = calibration(y, probability)._asdict()
    return found


def _nodes(trained: Trained) -> tuple[list[str], Iterator[list[Any]]]:
    """Every row of the table, as the model sees it that has learned from all of them."""
    model, target = trained.model, trained.target
    found = model.transduction_
    if target.task == "classification":
        found = np.zeros((len(trained.y), len(target.classes)))
        found[:, model.classes_] = model.label_distributions_
    return _header(target), _lines(trained, np.arange(len(trained.y)), found)


def _tested(trained: Trained) -> tuple[list[str], Iterator[list[Any]]]:
    """Every row that was tested on, as the model sees it that had not seen it."""
    lines = (
        [number, *line]
        for number, part in enumerate(trained.parts, 1)
        for line in _lines(trained, part.rows, part.found)
    )
    return ["part", *_header(trained.target)], lines


def _header(target: Target) -> list[str]:
    return ["row", target.column, "prediction", *(f"p({name})" for name in target.classes)]


def _lines(trained: Trained, rows: Array, found: Array) -> Iterator[list[Any]]:
    """Name, target, prediction and class probabilities of some rows, one by one: there may be a million."""
    target, names, labelled = trained.target, trained.prepared.ids, known(trained.y)
    for row, said in zip(rows, found, strict=True):
        if target.task == "regression":
            yield [names[row], float(trained.y[row]) if labelled[row] else "", float(said)]
        else:
            known_class = target.classes[trained.y[row]] if labelled[row] else ""
            yield [names[row], known_class, target.classes[said.argmax()], *(f"{value:.6f}" for value in said)]


def _write_table(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    with replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)
