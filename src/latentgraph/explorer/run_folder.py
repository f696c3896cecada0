"""Pages from the folders that `latentgraph fit` and `latentgraph demo` write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from latentgraph.errors import InputError
from latentgraph.explorer.layout import place
from latentgraph.explorer.making import FREQUENCY, given
from latentgraph.explorer.page import Answers, Graph, Page
from latentgraph.files import replacing
from latentgraph.runs.predicting import Kept
from latentgraph.tables import Target

TABLE = "table.parquet"
SHOWN = 100_000  # nodes of a page
NEIGHBOURS = 10  # of each node that was picked at random, at most


def from_run(
    folder: str | Path,
    *,
    label: Sequence[str] | None = None,
    split: Sequence[str] | None = None,
    title: str | None = None,
    made: tuple[Any, Target] | None = None,
) -> Page:
    """The page of a run folder: nodes.csv, graph.npz and the model, and the table if it was kept.

    Of a graph with more than `SHOWN` nodes, a part is shown: random nodes with their most probable neighbours.

    The split tells rows that were tested on from the other labelled rows and from unlabelled ones. What is shown for a
    row that was tested on was predicted while it was kept away: an error there is an honest one. All other predictions
    are those of the model that has learned from all labelled rows.

    Parameters
    ----------
    label : (n,) names of the true classes, where more is known now than when the model was trained
    split : (n,) parts of the data, if not as above
    title : of the page, by default the target and the file of the table
    made : the model of the folder and its target, if they are at hand; a large one need not be in memory twice
    """
    folder = Path(folder)
    missing = [name for name in ("nodes.csv", "graph.npz") if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} has no {' and no '.join(missing)}; name a folder that latentgraph fit or demo has written."
        )
    if made is None:
        kept = Kept(folder)
        made = kept.model, kept.target
    model, target = made
    with _reading(folder / "nodes.csv") as path:
        nodes = _named(pd.read_csv(path, dtype=str, keep_default_na=False), target)
    nodes, away = _as_predicted_while_away(folder, nodes, target)
    with _reading(folder / "graph.npz") as path:
        edges = sp.csr_array(sp.load_npz(path))
    with _reading(folder / TABLE) as path:
        table = pd.read_parquet(path) if path.is_file() else pd.DataFrame(index=nodes.index)
    embedding, part = model.embedding_, ""
    if len(nodes) > SHOWN and model.edge_index_ is None:
        rows = shown_rows(edges, SHOWN)
        part = f" · {len(rows):,} of {len(nodes):,} rows"
        edges, embedding = sp.csr_array(edges[rows][:, rows]), embedding[rows]
        nodes, away, table = (rest.iloc[rows].reset_index(drop=True) for rest in (nodes, away, table))
        label, split = (None if given is None else [given[row] for row in rows] for given in (label, split))
    with _reading(folder / "nodes.csv"):
        answers = _answers(nodes, target)
    graphs = [Graph("learned graph", edges, place(edges, embedding), FREQUENCY.format(model.samples))]
    if model.edge_index_ is not None:
        graphs.append(given(model.edge_index_.numpy(), len(nodes)))
    if split is None:
        known = np.where(nodes["target"] == "", "unlabelled", "labelled")
        split = np.where(away, "tested on", known).tolist()
    if label is not None:
        answers = replace(answers, label=pd.Index(answers.classes).get_indexer(list(label)).astype(np.int64))
    return Page(
        graphs=graphs,
        names=nodes["row"].tolist(),
        title=(title or _title(folder, answers.target)) + part,
        answers=answers,
        split=split if len(set(split)) > 1 else None,
        table=table,
    )


def shown_rows(edges: sp.csr_array, most: int) -> NDArray[np.intp]:
    """At most so many nodes, in order: random ones, and the most probable neighbours of each.

    Random nodes alone would hardly know each other: of a million, 100,000 keep one edge in ten.
    """
    n = edges.shape[0]
    order = np.random.default_rng(0).permutation(n)
    taken = np.zeros(n, bool)
    left = most
    for node in order:
        if left <= NEIGHBOURS:
            break
        around = slice(edges.indptr[node], edges.indptr[node + 1])
        near = edges.indices[around][np.argsort(-edges.data[around], kind="stable")[:NEIGHBOURS]]
        for row in (node, *near):
            left -= not taken[row]
            taken[row] = True
    return np.flatnonzero(taken)


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


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """A file of a run that cannot be read is told from one that is not there."""
    try:
        yield path
    except (ValueError, BadZipFile) as error:
        raise InputError(f"{path} is damaged. Run latentgraph fit again.") from error


def _named(found: pd.DataFrame, target: Target) -> pd.DataFrame:
    """The columns by their place, since a target may have any name, also "row" or "prediction"."""
    names = ["row", "target", "prediction", *(f"p({name})" for name in target.classes)]
    if found.shape[1] < len(names):
        raise ValueError(f"it has {found.shape[1]} columns instead of {len(names)}")
    return found.iloc[:, -len(names) :].set_axis(names, axis=1)


def _as_predicted_while_away(folder: Path, nodes: pd.DataFrame, target: Target) -> tuple[pd.DataFrame, pd.Series]:
    """The nodes, those that were tested on with what a model said that had not seen them; and which ones they are."""
    with _reading(folder / "tested.csv") as path:
        if not path.is_file() or nodes["row"].duplicated().any():
            return nodes, pd.Series(False, index=nodes.index)
        tested = _named(pd.read_csv(path, dtype=str, keep_default_na=False), target)
    found = tested.drop_duplicates("row").set_index("row").reindex(nodes["row"]).set_axis(nodes.index)
    away = found["prediction"].notna()
    said = nodes.columns[2:]
    return nodes.assign(**{name: nodes[name].where(~away, found[name]) for name in said}), away


def _answers(nodes: pd.DataFrame, target: Target) -> Answers:
    if not target.classes:
        label, found = (np.array([float(cell or "nan") for cell in nodes[name]]) for name in ("target", "prediction"))
        return Answers(target.column, [], label, found)
    classes = pd.Index(target.classes)
    label, found = (classes.get_indexer(nodes[name]).astype(np.int64) for name in ("target", "prediction"))
    return Answers(target.column, target.classes, label, found, nodes.iloc[:, 3:].to_numpy(float))


def _title(folder: Path, target: str) -> str:
    with _reading(folder / "summary.json") as path:
        summary = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    source = Path(summary["table"]).name if "table" in summary else summary.get("data", folder.name)
    return f"{target} · {source}"
