"""Graphs and classes in any of the usual forms, as matrices and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph, edge_frequencies

AnyFrequencies = LatentGraph | Any  # or a scipy sparse matrix
Classes = ArrayLike | Sequence[Any]  # names, None among them, or whole numbers
Array = NDArray[Any]


def frequencies(graph: AnyFrequencies) -> sp.csr_array:
    """Sparse (n, n): how often row i chose column j. Rows that chose themselves are left out: that says nothing.

    Of a sampled `LatentGraph` every edge occurs once; of a continuous one the weights a_ij >= 1/2 are taken.
    """
    if isinstance(graph, LatentGraph):
        graph = edge_frequencies([graph])
    if not sp.issparse(graph):
        raise InputError(
            f"a {type(graph).__name__} is no graph; pass a LatentGraph, or a sparse matrix such as graph_ of a model."
        )
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(
            f"a graph of shape {graph.shape}; it must be a square matrix, row i holding the neighbours of i."
        )
    edges = sp.coo_array(graph)
    edges.sum_duplicates()
    if not (np.isfinite(edges.data) & (edges.data >= 0)).all():
        raise InputError("the graph has negative or infinite entries, or NaN; they must say how often an edge occurs.")
    kept = (edges.row != edges.col) & (edges.data > 0)
    entries = edges.data[kept].astype(np.float64), (edges.row[kept], edges.col[kept])
    return sp.csr_array(entries, shape=graph.shape)


def codes(y: Classes, n: int) -> tuple[Array, list[Any]]:
    """(n,) numbers of classes, -1 for unknown ones, and the classes.

    Classes are whole numbers, of which those below zero mean unknown, or names, where None or "" do.
    """
    values = np.asarray(y)
    if values.shape != (n,):
        raise InputError(f"y has shape {values.shape}, but the graph has {n} nodes: there must be one class for each.")
    if values.dtype.kind in "iu":
        known = values >= 0
    elif values.dtype.kind in "bU":
        known = values != ""
    elif values.dtype.kind == "O":
        known = np.array([value is not None and value == value and value != "" for value in values], dtype=bool)
        values = np.where(known, values, "").astype(str)
    else:
        raise InputError(f"y holds {values.dtype} values; classes are names, or whole numbers with -1 for unknown.")
    classes, code = np.unique(values[known], return_inverse=True)
    found = np.full(n, -1)
    found[known] = code
    return found, classes.tolist()
