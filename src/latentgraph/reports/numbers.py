"""Edges and numbers: how different are the ends of an edge?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from latentgraph.errors import InputError
from latentgraph.reports.reading import AnyFrequencies, Array, frequencies


@dataclass(frozen=True)
class Differences:
    """How different the ends of an edge are.

    Attributes
    ----------
    edge : mean absolute difference between the ends of an edge
    chance : what it would be if every row kept its number of edges, and these led anywhere
    edges : expected number of edges between rows of known value, the ones that count
    """

    edge: float
    chance: float
    edges: float


def differences(graph: AnyFrequencies, y: ArrayLike) -> Differences:
    """How alike the numbers at both ends of an edge are; edges count as often as they were sampled.

    Parameters
    ----------
    y : (n,) numbers, NaN for unknown ones

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> differences(csr_array([[0, 1, 0], [1, 0, 0], [0, 1, 0]]), [1.0, 2.0, 5.0])
    Differences(edge=1.6666666666666667, chance=1.4444444444444444, edges=3.0)
    """
    edges = frequencies(graph).tocoo()
    values = np.asarray(y, dtype=np.float64)
    if values.shape != (edges.shape[0],):
        raise InputError(f"y has shape {values.shape}, but the graph has {edges.shape[0]} nodes; each needs a number.")
    both = ~np.isnan(values[edges.row]) & ~np.isnan(values[edges.col])
    row, column, weight = edges.row[both], edges.col[both], edges.data[both]
    total = float(weight.sum())
    if not total:
        return Differences(np.nan, np.nan, 0.0)
    edge = float((weight * np.abs(values[row] - values[column])).sum() / total)
    rows, columns = (np.bincount(ends, weights=weight, minlength=len(values)) for ends in (row, column))
    return Differences(edge, _mean_difference(values, rows / total, columns / total), total)


def _mean_difference(values: Array, p: Array, q: Array) -> float:
    """E |a - b| for a drawn from the values by p and b, independently, by q; where both are zero, values may be NaN."""
    kept = (p > 0) | (q > 0)
    order = np.argsort(values[kept])
    values, p, q = values[kept][order], p[kept][order], q[kept][order]
    # |a - b| is the sum of the gaps between: each counts if one is below it and the other above.
    below_p, below_q = p.cumsum()[:-1], q.cumsum()[:-1]
    return float((np.diff(values) * (below_p * (1 - below_q) + below_q * (1 - below_p))).sum())
