"""What a page shows: nodes, graphs between them, what is known of each node, and its row of the table."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from latentgraph.errors import InputError
from latentgraph.files import replacing

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Graph:
    """One of the graphs of a page.

    Attributes
    ----------
    name : as the page calls it
    edges : sparse (n, n); row i holds what node i chose, with the probability of each edge
    place : (n, 2) where the nodes are drawn; None: as in the first graph of the page
    meaning : what the number of an edge is, in one sentence
    """

    name: str
    edges: sp.csr_array
    place: Array | None = None
    meaning: str = ""


@dataclass(frozen=True, eq=False)
class Answers:
    """What is known and what was predicted for each node. All parts are optional.

    Attributes
    ----------
    target : what is predicted, in words
    classes : names of the classes; empty if numbers are predicted
    label : (n,) class numbers, -1 for unknown; or (n,) numbers, NaN for unknown
    prediction : (n,) of the same kind
    probability : (n, classes)
    """

    target: str = "label"
    classes: Sequence[str] = ()
    label: Array | None = None
    prediction: Array | None = None
    probability: Array | None = None


@dataclass(frozen=True, eq=False)
class Page:
    """A page, ready to be written. In a notebook it shows itself.

    Attributes
    ----------
    graphs : at least one; the first is shown first, and has a `place`
    names : (n,) the ids of the nodes, by which they are found
    title : of the page
    answers : labels and predictions
    split : (n,) which part of the data each node belongs to, or None
    table : n rows; every column can be shown and coloured by
    notes : sentences that the page shows, such as what was left out
    """

    graphs: Sequence[Graph]
    names: Sequence[str]
    title: str = "Learned graph"
    answers: Answers = field(default_factory=Answers)
    split: Sequence[str] | None = None
    table: pd.DataFrame | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        n = len(self.names)
        if not self.graphs or self.graphs[0].place is None:
            raise InputError("a page needs at least one graph, and the first needs places for its nodes.")
        for graph in self.graphs:
            _check_length(graph.edges.shape[0], n, f"graph {graph.name!r}")
            if graph.place is not None and graph.place.shape != (n, 2):
                raise InputError(f"places of graph {graph.name!r} have shape {graph.place.shape}; it must be ({n}, 2).")
        for part in ("label", "prediction", "probability"):
            values = getattr(self.answers, part)
            if values is not None:
                _check_length(len(values), n, part)
        if self.answers.probability is not None and self.answers.probability.shape[1] != len(self.answers.classes):
            raise InputError(
                f"probability has {self.answers.probability.shape[1]} columns for {len(self.answers.classes)} classes."
            )
        if self.split is not None:
            _check_length(len(self.split), n, "split")
        if self.table is not None:
            _check_length(len(self.table), n, "table")

    def __repr__(self) -> str:
        shown = ", ".join(f"{graph.name}: {graph.edges.nnz} edges" for graph in self.graphs)
        return f"Page({self.title!r}, {len(self.names)} nodes, {shown})"

    def html(self) -> str:
        """The whole page as text."""
        from latentgraph.explorer.encoding import pack
        from latentgraph.explorer.template import document

        return document(self.title, pack(self))

    def write(self, path: str | Path) -> Path:
        """Write the page as one HTML file; return its path."""
        path = Path(path)
        if path.is_dir() or not path.parent.is_dir():
            wrong = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise InputError(f"{wrong}; name a file in a folder that exists.")
        with replacing(path) as file:
            file.write(self.html())
        return path

    def png(self, path: str | Path) -> Path:
        """Write a static picture of the first graph (needs matplotlib); return its path."""
        from latentgraph.explorer.picture import picture, saved

        return saved(picture(self), path)

    def _repr_html_(self) -> str:
        # The frame has an origin of its own: the page cannot see the notebook.
        document = html.escape(self.html(), quote=True)
        return (
            f'<iframe srcdoc="{document}" title="{html.escape(self.title, quote=True)}" '
            'sandbox="allow-scripts allow-downloads" style="width:100%;height:640px;border:0;border-radius:8px">'
            "</iframe>"
        )


def _check_length(found: int, n: int, what: str) -> None:
    if found != n:
        raise InputError(f"{what} has {found} rows, but there are {n} nodes; there must be one row for each node.")


def as_labels(values: Any, classes: Sequence[Any] | None) -> tuple[Array, list[str]]:
    """Labels of any usual kind as (class numbers with -1, names of the classes), or (numbers with NaN, []).

    Numbers with a fraction or NaN are numbers, unless `classes` are named. Whole numbers are class numbers, negative
    ones and NaN unknown. Everything else is names of classes; None and NaN are unknown.
    """
    found = np.asarray(values)
    if found.ndim != 1:
        raise InputError(f"labels have shape {found.shape}; one value for each node is needed.")
    if found.dtype.kind == "f":
        if classes is None:
            return found.astype(np.float64), []
        found = np.where(np.isnan(found), -1, found)
        if (found % 1 != 0).any():
            raise InputError("labels have fractions, but classes are named; give class numbers, or no classes.")
        found = found.astype(np.int64)
    if found.dtype.kind in "iu":
        codes = np.where(found < 0, -1, found).astype(np.int64)
        names = [str(name) for name in classes] if classes is not None else [str(c) for c in range(codes.max() + 1)]
        if codes.max(initial=-1) >= len(names):
            raise InputError(f"label {codes.max()} but there are {len(names)} classes, numbered from 0.")
        return codes, names
    words = {at: str(value) for at, value in enumerate(found.tolist()) if not pd.isna(value)}
    names = [str(name) for name in classes] if classes is not None else sorted(set(words.values()), key=_by_number)
    number = {name: code for code, name in enumerate(names)}
    strange = sorted(set(words.values()) - set(names))
    if strange:
        raise InputError(
            f"label {strange[0]!r} is none of the classes {', '.join(names)}; name them all with classes=[...]."
        )
    codes = np.full(len(found), -1)
    codes[list(words)] = [number[word] for word in words.values()]
    return codes, names


def _by_number(name: str) -> list[tuple[int, float, str]]:
    """Sorts 'grade 2' before 'grade 10'."""
    return [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in re.split(r"(\d+)", name) if part]
