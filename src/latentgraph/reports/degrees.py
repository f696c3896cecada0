"""Who is chosen how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentgraph.reports.reading import AnyFrequencies, frequencies


@dataclass(frozen=True)
class Degrees:
    """How the edges are shared out.

    Attributes
    ----------
    nodes, edges : how many there are; an edge that was sampled at least once counts as one
    neighbours : that a row has, the mean
    median, most : how many rows choose a row: half of them are chosen by at most the median, one by the most
    hub : the row that is chosen most often
    never : rows that nobody ever chose
    """

    nodes: int
    edges: int
    neighbours: float
    median: float
    most: float
    hub: int
    never: int


def degrees(graph: AnyFrequencies) -> Degrees:
    """How the edges are shared out. With k neighbours each, rows differ by how often they are chosen.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> degrees(csr_array([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]]))
    Degrees(nodes=3, edges=4, neighbours=1.0, median=1.5, most=1.5, hub=0, never=1)
    """
    edges = frequencies(graph)
    chosen = np.asarray(edges.sum(0)).reshape(-1)
    return Degrees(
        nodes=len(chosen),
        edges=int(edges.nnz),
        neighbours=float(edges.sum() / max(len(chosen), 1)),
        median=float(np.median(chosen)) if len(chosen) else 0.0,
        most=float(chosen.max(initial=0.0)),
        hub=int(chosen.argmax()) if len(chosen) else -1,
        never=int((chosen == 0).sum()),
    )
