"""`latentgraph predict`: what a kept model says about the rows of another table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from latentgraph import store
from latentgraph.errors import InputError
from latentgraph.estimators import DGMClassifier, DGMRegressor
from latentgraph.estimators.keeping import model_of
from latentgraph.files import replacing
from latentgraph.runs.folder import read_record
from latentgraph.tables import TablePreprocessor, Target, read_table, reading_of

FAR = 5.0  # outlier score above which a row is unlike everything in training


class Kept:
    """A run folder, read: the model, its preprocessing, its target, and the names of its rows."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "model").is_dir():
            record = read_record(folder) if folder.is_dir() else None
            if record is not None and not record["finished"]:
                raise InputError(f"{folder} holds an interrupted run. Continue it with latentgraph fit --resume.")
            raise InputError(f"{folder} holds no run of latentgraph fit: it has no folder 'model'.")
        parts = store.load(folder / "model")
        missing = {"preprocessing.json", "target.json", "rows.json", "reading.json"} - set(parts.names())
        if missing:
            raise InputError(
                f"{folder}/model was not written by latentgraph fit: it has no {', '.join(sorted(missing))}."
            )
        self.target = Target.from_json(parts.json("target.json"))
        self.preprocessor = TablePreprocessor.from_json(parts.json("preprocessing.json"))
        self.ids: list[str] = parts.json("rows.json")
        self.decimal: str | None = parts.json("reading.json")["decimal"]
        kind = DGMClassifier if self.target.task == "classification" else DGMRegressor
        self.model: Any = model_of(kind, parts)


def run(folder: Path, table: Path, out: Path, neighbours: int = 3, **reading: str | None) -> dict[str, Any]:
    """Write one line for each row of the table to `out`; return a summary. `reading` are options of `read_table`."""
    check_file(out)
    if neighbours < 1:
        raise InputError(f"neighbours={neighbours}; it must be at least 1.")
    kept = Kept(folder)
    prepared = kept.preprocessor.prepare(_read(table, kept.decimal, reading))
    neighbours = min(neighbours, len(kept.ids))
    outlier = kept.model.outlier_score(prepared.x)
    index, probability = kept.model.neighbors(prepared.x, k=neighbours)
    header, columns = _predictions(kept, prepared.x)
    header += ["outlier_score", *(f"neighbour {i + 1}{what}" for i in range(neighbours) for what in ("", " p"))]
    with replacing(out) as file:
        writer = csv.writer(file)
        writer.writerow(["row", *header])
        for row, name in enumerate(prepared.ids):
            near = [
                cell for j, p in zip(index[row], probability[row], strict=True) for cell in (kept.ids[j], f"{p:.4f}")
            ]
            writer.writerow([name, *(column[row] for column in columns), f"{outlier[row]:.3f}", *near])
    return {
        "rows": len(prepared.ids),
        "out": str(out),
        "notes": prepared.notes,
        "outliers": int((outlier > FAR).sum()),
        "predictions": _count(kept.target, columns[0]),
    }


def check_file(out: Path) -> None:
    """Say what is wrong with the name of a file to be written, before the work is done."""
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file.")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}. Make it, or name another place.")


def _read(table: Path, decimal: str | None, options: dict[str, str | None]) -> pd.DataFrame:
    """A table, where the decimal mark of the training table decides what a few rows alone do not tell.

    1,234 may be more than a thousand. Columns that are clear go before; a contradiction is an error.
    """
    if decimal is None or options.get("decimal") is not None:
        return read_table(table, **options)
    as_before = {**options, "decimal": decimal}
    try:
        frame = read_table(table, **options)
    except InputError:
        return read_table(table, **as_before)
    found = reading_of(frame)
    if (
        decimal == ","
        and found is not None
        and found.decimal == "."
        and not frame.equals(read_table(table, **as_before))
    ):
        raise InputError(
            f"{table} has numbers such as 1.234, which are read as fractions, but the table of training had decimal "
            "commas. Say which it is: --decimal . or --decimal ,"
        )
    return frame


def _predictions(kept: Kept, x: Any) -> tuple[list[str], list[list[Any]]]:
    if kept.target.task == "regression":
        return ["prediction"], [kept.model.predict(x).tolist()]
    probability = kept.model.predict_proba(x)
    found = kept.target.decode(kept.model.classes_[probability.argmax(1)])
    names = [kept.target.classes[code] for code in kept.model.classes_]
    columns = [[f"{value:.6f}" for value in column] for column in probability.T]
    return ["prediction", *(f"p({name})" for name in names)], [found, *columns]


def _count(target: Target, found: list[Any]) -> dict[str, Any]:
    if target.task == "regression":
        return {"mean": float(np.mean(found)), "smallest": float(np.min(found)), "largest": float(np.max(found))}
    return {name: found.count(name) for name in target.classes}
