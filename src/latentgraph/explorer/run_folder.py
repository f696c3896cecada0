"""Pages from the folders that `latentgraph fit` and `latentgraph demo` write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from latentgraph.errors import InputError
from latentgraph.explorer.layout import place
from latentgraph.explorer.making import FREQUENCY, given
from latentgraph.explorer.page import Answers, Graph, Page
from latentgraph.files import replacing
from latentgraph.runs.predicting import Kept

TABLE = "table.parquet"


def from_run(folder: str | Path, *, label: Sequence[str] | None = None, split: Sequence[str] | None = None) -> Page:
    """The page of a run folder: nodes.csv, graph.npz and the model, and the table if it was kept.

    The split tells rows that were tested on (by a model that had not seen them) from the other labelled rows and from
    unlabelled ones. Predictions are those of the model that has learned from all labelled rows; what was predicted for
    a row while it was kept away is a column of the table.

    Parameters
    ----------
    label : (n,) names of the true classes, where more is known now than when the model was trained
    split : (n,) parts of the data, if not as above
    """
    folder = Path(folder)
    missing = [name for name in ("nodes.csv", "graph.npz") if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} has no {' and no '.join(missing)}; name a folder that latentgraph fit or demo has written."
        )
    nodes = pd.read_csv(folder / "nodes.csv", dtype=str, keep_default_na=False)
    edges = sp.csr_array(sp.load_npz(folder / "graph.npz"))
    model = Kept(folder).model
    graphs = [Graph("learned graph", edges, place(edges, model.embedding_), FREQUENCY.format(model.samples))]
    if model.edge_index_ is not None:
        graphs.append(given(model.edge_index_.numpy(), len(nodes)))
    answers = _answers(nodes)
    away = _predicted_while_away(folder, nodes["row"])
    if split is None:
        known = np.where(nodes[answers.target] == "", "unlabelled", "labelled")
        split = np.where(away.notna(), "tested on", known).tolist()
    if label is not None:
        answers = replace(answers, label=pd.Index(answers.classes).get_indexer(list(label)).astype(np.int64))
    table = pd.read_parquet(folder / TABLE) if (folder / TABLE).is_file() else pd.DataFrame(index=nodes.index)
    if away.notna().any():
        table["prediction while kept away"] = away.to_numpy()
    return Page(
        graphs=graphs,
        names=nodes["row"].tolist(),
        title=_title(folder, answers.target),
        answers=answers,
        split=split if len(set(split)) > 1 else None,
        table=table,
    )


def keep_table(frame: pd.DataFrame, folder: Path) -> None:
    """Keep the table of a run beside its model: the page shows each node with its row."""
    kept = frame.reset_index(drop=True)
    kept.columns = [str(name) for name in kept.columns]
    for position, kind in enumerate(kept.dtypes):
        if kind.kind == "O":  # cells of several types, which parquet does not know
            column = kept.iloc[:, position]
            kept.isetitem(position, column.where(column.isna(), column.map(str)))
    with replacing(folder / TABLE, "wb") as file:
        kept.to_parquet(file)


def _predicted_while_away(folder: Path, ids: pd.Series) -> pd.Series:
    """What was predicted for each row by a model that had not seen it; missing where the row was not tested on."""
    path = folder / "tested.csv"
    tested = pd.read_csv(path, dtype=str, keep_default_na=False) if path.is_file() else pd.DataFrame()
    if tested.empty or ids.duplicated().any():
        return pd.Series(np.nan, index=ids.index, dtype=object)
    found = ids.map(tested.drop_duplicates("row").set_index("row")["prediction"])
    return pd.to_numeric(found) if not any(name.startswith("p(") for name in tested.columns) else found


def _answers(nodes: pd.DataFrame) -> Answers:
    """nodes.csv says it all: the target is the column before `prediction`, classes are in the columns p(...)."""
    if "prediction" not in nodes.columns:
        raise InputError(f"nodes.csv has the columns {', '.join(nodes.columns)}; 'prediction' is missing.")
    position = nodes.columns.get_loc("prediction")
    target = str(nodes.columns[position - 1])
    probable = [name for name in nodes.columns[position + 1 :] if name.startswith("p(") and name.endswith(")")]
    if not probable:
        label, found = (np.array([float(cell or "nan") for cell in nodes[name]]) for name in (target, "prediction"))
        return Answers(target, [], label, found)
    classes = pd.Index([name[2:-1] for name in probable])
    label, found = (classes.get_indexer(nodes[name]).astype(np.int64) for name in (target, "prediction"))
    return Answers(target, list(classes), label, found, nodes[probable].to_numpy(float))


def _title(folder: Path, target: str) -> str:
    path = folder / "summary.json"
    summary = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    source = Path(summary["table"]).name if "table" in summary else summary.get("data", folder.name)
    return f"{target} · {source}"
