"""A page as bytes: a header that says what is where, then arrays, each compressed.

    4 bytes        length of the header, little-endian
    header         JSON, compressed; arrays are named by [offset, length, type]
    arrays         little-endian numbers, or JSON for lists of text, each compressed by itself

The front end (frontend/src/decode.ts) reads the same. Names and cells travel here and never as markup.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from latentgraph.explorer.page import Graph, Page

LARGE = 20_000  # nodes; above, numbers have 7 digits and the page draws the edges of one node at a time
MOST_EDGES = 100_000  # of a graph, or 10 for each node if that is more
MOST_BYTES = 18_000_000  # of the compressed arrays: a page of 25 MB, since base64 makes 4 bytes of 3
MISSING = -(2**31)

Array = NDArray[Any]
Ref = list[Any]


def pack(page: Page) -> bytes:
    """The page as bytes."""
    arrays = _Arrays()
    notes = list(page.notes)
    answers = page.answers
    header: dict[str, Any] = {
        "title": page.title,
        "nodes": len(page.names),
        "names": arrays.text(page.names),
        "target": answers.target,
        "classes": list(answers.classes),
        "label": _answers(arrays, answers.label, answers.classes),
        "prediction": _answers(arrays, answers.prediction, answers.classes),
        "probability": None if answers.probability is None else arrays.numbers(answers.probability, "<f4"),
        "split": None if page.split is None else _levels(arrays, pd.Series(list(page.split), dtype=object)),
        "graphs": [_graph(arrays, graph, notes) for graph in page.graphs],
        "columns": [],
        "notes": notes,
    }
    table = page.table if page.table is not None else pd.DataFrame(index=range(len(page.names)))
    for position, name in enumerate(table.columns):
        column = column_of(arrays, table.iloc[:, position])
        if arrays.size > MOST_BYTES:
            notes.append(f"{len(table.columns) - position} columns were left out, which keeps the page below 25 MB.")
            break
        header["columns"].append({"name": str(name), **column})
    head = zlib.compress(json.dumps(header, allow_nan=False).encode(), 9)
    return struct.pack("<I", len(head)) + head + b"".join(arrays.parts)


class _Arrays:
    """The arrays of a page, compressed one by one."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def numbers(self, values: Any, kind: str) -> Ref:
        return self._add(np.ascontiguousarray(values, dtype=kind).tobytes(), kind[1:])

    def text(self, values: Sequence[str]) -> Ref:
        # A half of a surrogate pair is not text that UTF-8 knows.
        words = [str(value).encode("utf-8", "replace").decode() for value in values]
        return self._add(json.dumps(words, ensure_ascii=False).encode(), "json")

    def _add(self, data: bytes, kind: str) -> Ref:
        part = zlib.compress(data, 6)
        ref = [self.size, len(part), kind]
        self.parts.append(part)
        self.size += len(part)
        return ref


def _answers(arrays: _Arrays, values: Array | None, classes: Sequence[str]) -> Ref | None:
    if values is None:
        return None
    return arrays.numbers(values, "<i4" if len(classes) else "<f8")


def _graph(arrays: _Arrays, graph: Graph, notes: list[str]) -> dict[str, Any]:
    n = graph.edges.shape[0]
    most = max(10, MOST_EDGES // max(n, 1))
    edges = most_probable(graph.edges, most)
    if edges.nnz < graph.edges.nnz:
        notes.append(
            f"{graph.name}: {graph.edges.nnz - edges.nnz:,} less probable edges were left out; "
            f"each node keeps its {most} most probable."
        )
    return {
        "name": graph.name,
        "meaning": graph.meaning,
        "chosen": arrays.numbers(np.diff(edges.indptr), "<u4"),
        "source": arrays.numbers(edges.indices, "<u4"),
        "probability": arrays.numbers(edges.data, "<f4"),
        "place": None if graph.place is None else arrays.numbers(graph.place, "<f4"),
    }


def most_probable(edges: sp.csr_array, most: int) -> sp.csr_array:
    """The `most` largest entries of each row, largest first; equal ones by column."""
    edges = sp.csr_array(edges)
    edges.sort_indices()
    row = np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))
    order = np.lexsort((edges.indices, -edges.data, row))
    rank = np.arange(len(order)) - edges.indptr[:-1].repeat(np.diff(edges.indptr))
    kept = order[rank < most]
    counts = np.minimum(np.diff(edges.indptr), most)
    return sp.csr_array(
        (edges.data[kept], edges.indices[kept], np.concatenate([[0], np.cumsum(counts)])), shape=edges.shape
    )


def column_of(arrays: _Arrays, series: pd.Series) -> dict[str, Any]:
    """A column: numbers, or text as numbers of its levels."""
    kind = series.dtype.kind if isinstance(series.dtype, np.dtype) else "O"
    if kind in "iuf" or (pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)):
        return _numbers(arrays, series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _levels(arrays, series)


def _numbers(arrays: _Arrays, values: Array) -> dict[str, Any]:
    """Numbers with few decimals as whole numbers, which is exact and small; else as floating point."""
    known = values[np.isfinite(values)]
    for decimals in range(7):
        scaled = np.round(known * 10**decimals)
        if np.abs(scaled).max(initial=0) >= -MISSING:
            break
        if np.array_equal(scaled / 10**decimals, known) and len(known) == (~np.isnan(values)).sum():
            whole = np.full(len(values), MISSING, dtype=np.int64)
            whole[np.isfinite(values)] = scaled
            return {"kind": "number", "values": arrays.numbers(whole, "<i4"), "decimals": decimals}
    return {
        "kind": "number",
        "values": arrays.numbers(values, "<f8" if len(values) <= LARGE else "<f4"),
        "decimals": -1,
    }


def _levels(arrays: _Arrays, series: pd.Series) -> dict[str, Any]:
    known = series.notna().to_numpy()
    words = np.array([_cell(value) for value in series[known]], dtype=object)
    codes, levels = pd.factorize(words, sort=False)
    order = np.argsort(np.array([str(level) for level in levels], dtype=object), kind="stable")
    rank = np.empty(len(levels), np.int64)
    rank[order] = np.arange(len(levels))
    found = np.full(len(series), len(levels))  # one more than the last level: missing
    found[known] = rank[codes]
    kind = "<u1" if len(levels) < 2**8 else "<u2" if len(levels) < 2**16 else "<u4"
    return {
        "kind": "text",
        "values": arrays.numbers(found, kind),
        "levels": arrays.text([levels[i] for i in order]),
    }


def _cell(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
