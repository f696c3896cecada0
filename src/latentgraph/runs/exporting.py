"""`latentgraph export`: the learned graph for other programs."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
import scipy.sparse as sp

from latentgraph.errors import InputError
from latentgraph.files import replacing
from latentgraph.runs.predicting import Kept, check_file

FORMATS = ("graphml", "gexf", "npz", "csv")


def run(folder: Path, kind: str, out: Path) -> dict[str, int | str]:
    """Write the edges, with how often each was sampled, to `out`; row i chose column j: an edge from j to i."""
    if kind not in FORMATS:
        raise InputError(f"--format {kind} is not known; choose one of {', '.join(FORMATS)}.")
    check_file(out)
    kept = Kept(folder)
    graph = kept.model.graph_.tocoo()
    if kind == "npz":
        with replacing(out, "wb") as file:
            sp.save_npz(file, graph.tocsr())
    elif kind == "csv":
        with replacing(out) as file:
            writer = csv.writer(file)
            writer.writerow(["source", "target", "frequency"])
            for i, j, weight in zip(graph.row.tolist(), graph.col.tolist(), graph.data.tolist(), strict=True):
                writer.writerow([kept.ids[j], kept.ids[i], weight])
    else:
        write = nx.write_graphml if kind == "graphml" else nx.write_gexf
        with replacing(out, "wb") as file:
            write(_networkx(kept), file)
    return {"nodes": len(kept.ids), "edges": int(graph.nnz), "out": str(out)}


def _networkx(kept: Kept) -> nx.DiGraph:
    found = kept.model.transduction_
    names = kept.target.decode(found) if kept.target.task == "classification" else found.tolist()
    graph = nx.DiGraph()
    for i, (name, prediction) in enumerate(zip(kept.ids, names, strict=True)):
        place = {f"x_hat_{c}": float(value) for c, value in enumerate(kept.model.embedding_[i])}
        graph.add_node(i, label=name, prediction=prediction, **place)
    edges = kept.model.graph_.tocoo()
    graph.add_weighted_edges_from(zip(edges.col.tolist(), edges.row.tolist(), edges.data.tolist(), strict=True))
    return graph
