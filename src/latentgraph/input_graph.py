"""An input graph in any of the usual forms, as an edge list."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from latentgraph.errors import InputError

InputGraph = Any  # None, (2, e) edges, a scipy sparse matrix, or a networkx graph


def as_edge_index(graph: InputGraph, nodes: int) -> Tensor | None:
    """(2, e) edges, source above target, of a graph between the rows of a table; None stays None.

    Entry (i, j) of a sparse matrix is an edge from j to i, as in `LatentGraph.to_scipy`. The nodes of a networkx graph
    are row numbers; an undirected edge goes both ways.
    """
    if graph is None:
        return None
    if hasattr(graph, "tocoo"):
        if graph.shape != (nodes, nodes):
            raise InputError(f"the input graph is a matrix of shape {graph.shape}; the table has {nodes} rows.")
        coo = graph.tocoo()
        edges = np.stack([coo.col, coo.row])
    elif hasattr(graph, "is_directed"):
        pairs = [*graph.edges(), *((b, a) for a, b in graph.edges() if not graph.is_directed())]
        try:
            edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        except (TypeError, ValueError):
            raise InputError(
                f"the nodes of the input graph must be row numbers 0 to {nodes - 1}; one of them is "
                f"{next(iter(graph.nodes))!r}. Use networkx.convert_node_labels_to_integers."
            ) from None
    else:
        edges = np.asarray(graph)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"edge_index has shape {edges.shape} and type {edges.dtype}; it must be whole numbers of shape (2, edges), "
            "source above target; or pass a scipy matrix or a networkx graph."
        )
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise InputError(f"edge_index has nodes {edges.min()} to {edges.max()}; the table has rows 0 to {nodes - 1}.")
    return torch.as_tensor(edges, dtype=torch.long)
