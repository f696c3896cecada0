"""Edges and classes: how many edges stay within a class, and whose do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from latentgraph.errors import InputError
from latentgraph.reports.reading import AnyFrequencies, Array, Classes, codes, frequencies


@dataclass(frozen=True)
class Homophily:
    """How far a graph joins rows of the same class.

    Attributes
    ----------
    edge : share of the edges that join rows of the same class
    chance : what it would be if every row kept its number of edges, and these led anywhere
    adjusted : (edge - chance) / (1 - chance): 0 is chance, 1 is all, whatever the classes' sizes
    edges : expected number of edges between rows of known class, the ones that count
    """

    edge: float
    chance: float
    adjusted: float
    edges: float


def homophily(graph: AnyFrequencies, y: Classes) -> Homophily:
    r"""How far a graph joins rows of the same class.

    With :math:`e_{cd}` the share of edges by which a row of class c has chosen one of class d,

    .. math:: h = \sum_c e_{cc}, \qquad h_0 = \sum_c \Big( \sum_d e_{cd} \Big) \Big( \sum_d e_{dc} \Big), \qquad
              h_{adj} = \frac{h - h_0}{1 - h_0}

    The last is also known as assortativity. Edges count as often as they were sampled; those that touch a row of
    unknown class do not. NaN where nothing is left to count, or only one class.

    Parameters
    ----------
    y : (n,) classes: whole numbers with -1 for unknown, or names with None

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> homophily(csr_array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]), ["a", "a", "b", "b"])
    Homophily(edge=0.75, chance=0.5, adjusted=0.5, edges=4.0)
    """
    edges = frequencies(graph).tocoo()
    code, classes = codes(y, edges.shape[0])
    own, other = code[edges.row], code[edges.col]
    both = (own >= 0) & (other >= 0)
    c = len(classes)
    counts = np.bincount(own[both] * c + other[both], weights=edges.data[both], minlength=c * c).reshape(c, c)
    total = float(counts.sum())
    if not total:
        return Homophily(np.nan, np.nan, np.nan, 0.0)
    share = counts / total
    edge, chance = float(np.trace(share)), float(share.sum(1) @ share.sum(0))
    return Homophily(edge, chance, (edge - chance) / (1 - chance) if chance < 1 else np.nan, total)


@dataclass(frozen=True)
class Bridge:
    """A node between classes.

    Attributes
    ----------
    node, own : its row number, its class
    other : the class that most of its edges to other classes lead to
    crossing : expected number of edges between it and rows of other classes, whoever chose whom
    share : of its edges to rows of known class, the part that crosses
    """

    node: int
    own: Any
    other: Any
    crossing: float
    share: float


def bridges(graph: AnyFrequencies, y: Classes, k: int = 10) -> list[Bridge]:
    """The nodes with the most expected edges to rows of other classes, at most k, the first one has most.

    An edge counts for both of its ends, as often as it was sampled. Rows of unknown class are left out.

    Parameters
    ----------
    y : (n,) classes: whole numbers with -1 for unknown, or names with None

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> bridges(csr_array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0.5, 0.5, 0]]), ["a", "a", "b", "b"], k=1)
    [Bridge(node=3, own='b', other='a', crossing=0.5, share=0.25)]
    """
    if k < 1:
        raise InputError(f"k={k}; ask for at least one node.")
    chosen = frequencies(graph)
    n = chosen.shape[0]
    code, classes = codes(y, n)
    known = (code >= 0).nonzero()[0]
    if not len(known):
        return []
    member = sp.csr_array((np.ones(len(known)), (known, code[known])), shape=(n, len(classes)))
    led: Array = (chosen @ member + chosen.T @ member).toarray()[known]  # (known, classes): edges of each to each class
    total = led.sum(1)
    led[np.arange(len(known)), code[known]] = 0
    crossing = led.sum(1)
    share = np.divide(crossing, total, out=np.zeros_like(total), where=total > 0)
    order = np.lexsort((known, -share, -crossing))[:k]
    return [
        Bridge(
            int(known[i]),
            classes[code[known[i]]],
            classes[int(led[i].argmax())],
            float(crossing[i]),
            float(share[i]),
        )
        for i in order
        if crossing[i] > 0
    ]
