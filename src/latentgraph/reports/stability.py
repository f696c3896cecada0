"""Is it the same graph again? The overlap of graphs that were learned or sampled several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from latentgraph.errors import InputError
from latentgraph.reports.reading import AnyFrequencies, Array, frequencies


@dataclass(frozen=True, eq=False)
class Stability:
    """How far graphs overlap.

    Attributes
    ----------
    overlap : mean over all pairs of graphs: 1 for the same edges as often, 0 for no edge in common
    chance : the same, if each row chose as often, but anyone
    between : (m, m) overlap of each pair of graphs
    """

    overlap: float
    chance: float
    between: Array


def stability(graphs: Sequence[AnyFrequencies]) -> Stability:
    r"""Weighted Jaccard overlap of graphs between the same rows: of different seeds, or of different samples.

    For two graphs with edge frequencies a and b,

    .. math:: J = \frac{\sum_{ij} \min(a_{ij}, b_{ij})}{\sum_{ij} \max(a_{ij}, b_{ij})} = \frac{M}{S - M},
              \qquad M = \sum_{ij} \min(a_{ij}, b_{ij}), \quad S = \sum_{ij} (a_{ij} + b_{ij})

    By chance, the frequencies of each row are at other rows, all orders alike: then
    :math:`E[M] = \sum_i \sum_{j,l} \min(a_{ij}, b_{il}) / (n - 1)`, which takes the place of M.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> a = csr_array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> b = csr_array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    >>> found = stability([a, b])
    >>> found.overlap, round(found.chance, 3)  # two of four edges; one of two candidates each
    (0.5, 0.333)
    """
    found = [frequencies(graph) for graph in graphs]
    if len(found) < 2:
        raise InputError(f"{len(found)} graphs; their overlap needs at least two, such as those of two seeds.")
    if len({graph.shape for graph in found}) > 1:
        sizes = ", ".join(str(graph.shape[0]) for graph in found)
        raise InputError(f"graphs of {sizes} nodes; only graphs between the same rows can be compared.")
    if not all(graph.nnz for graph in found):
        raise InputError("a graph has no edges, so nothing can overlap.")
    between = np.eye(len(found))
    by_chance = []
    for i, j in combinations(range(len(found)), 2):
        a, b = found[i], found[j]
        both = float(a.sum() + b.sum())
        between[i, j] = between[j, i] = _jaccard(float(a.minimum(b).sum()), both)
        by_chance.append(_jaccard(_smaller_of_all(a, b) / (a.shape[0] - 1), both))
    pairs = between[np.triu_indices(len(found), 1)]
    return Stability(float(pairs.mean()), float(np.mean(by_chance)), between)


def _jaccard(smaller: float, both: float) -> float:
    return smaller / (both - smaller)


def _smaller_of_all(a: sp.csr_array, b: sp.csr_array) -> float:
    r""":math:`\sum_i \sum_{j,l} \min(a_{ij}, b_{il})`.

    In each row the entries of both are put in order. An entry of a meets those of b before it, which are smaller; of it
    and those behind it, it is the smaller one.
    """
    n, a, b = a.shape[0], a.tocoo(), b.tocoo()
    row, value = np.concatenate([a.row, b.row]), np.concatenate([a.data, b.data])
    of_b = np.repeat([0.0, 1.0], [a.nnz, b.nnz])
    order = np.lexsort((value, row))
    row, value, of_b = row[order], value[order], of_b[order]
    count, mass = (np.bincount(b.row, weights=weights, minlength=n) for weights in (None, b.data))
    earlier_count, earlier_mass = count.cumsum() - count, mass.cumsum() - mass  # in the rows before
    before = of_b.cumsum() - earlier_count[row]
    mass_before = (of_b * value).cumsum() - earlier_mass[row]
    return float(((1 - of_b) * (mass_before + value * (count[row] - before))).sum())
