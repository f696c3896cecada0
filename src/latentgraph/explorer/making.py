"""Pages from graphs and from fitted estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch

from latentgraph.explorer.layout import place
from latentgraph.explorer.page import Answers, Array, Graph, Page, as_labels
from latentgraph.graph import LatentGraph
from latentgraph.input_graph import InputGraph, as_edge_index
from latentgraph.tables.frames import as_frame

DISCRETE = "p = exp(-t d²) of the distance d in the embedding: the larger, the sooner the edge is sampled."
CONTINUOUS = "weight of the pair in the continuous graph; pairs of weight 0.5 and more are here."
FREQUENCY = "share of {} sampled graphs that have this edge."
GIVEN = "weight of the edge in the graph that was given."

Drawable = Any  # a LatentGraph or a sparse matrix of scipy


def page(
    graphs: Drawable | Sequence[Drawable] | Mapping[str, Drawable],
    *,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    probability: Any = None,
    prediction: Any = None,
    split: Sequence[str] | None = None,
    names: Sequence[Any] | None = None,
    table: Any = None,
    input_graph: InputGraph = None,
    target: str = "label",
    title: str = "Learned graph",
) -> Page:
    """A page of one graph, or of the graphs of several layers between which it switches.

    Parameters
    ----------
    graphs : a `LatentGraph`, or a scipy matrix whose row i holds what node i chose; several in order of the layers; or
        a mapping from names to graphs
    y : (n,) labels: class numbers with -1 for unknown, names with None, or numbers with NaN
    classes : names of the classes, in the order of their numbers
    probability : (n, classes) predicted
    prediction : (n,) predicted, of the kind of `y`; default: the most probable class
    split : (n,) which part of the data each node belongs to, such as "train" and "test"
    names : (n,) ids of the nodes; default: 0, 1, ...
    table : n rows, a data frame or what `latentgraph.tables` takes for one
    input_graph : a graph to compare with: (2, e) edges, a scipy matrix or a networkx graph
    target : what is predicted, in words
    title : of the page
    """
    if isinstance(graphs, LatentGraph) or sp.issparse(graphs):
        named: Mapping[str, Drawable] = {"learned graph": graphs}
    elif isinstance(graphs, Mapping):
        named = graphs
    else:
        named = {f"layer {i + 1}": graph for i, graph in enumerate(graphs)}
    shown = [_learned(name, graph) for name, graph in named.items()]
    n = shown[0].edges.shape[0]
    if input_graph is not None:
        shown.append(given(input_graph, n))
    return Page(
        graphs=shown,
        names=[str(name) for name in (range(n) if names is None else names)],
        title=title,
        answers=_answers(target, y, classes, probability, prediction),
        split=split,
        table=None if table is None else as_frame(table),
    )


def _learned(name: str, graph: Drawable) -> Graph:
    if not isinstance(graph, LatentGraph):
        edges = sp.csr_array(graph)
        return Graph(name, edges, place(edges), GIVEN)
    edges = graph.to_scipy()
    meaning = CONTINUOUS if graph.is_continuous else DISCRETE
    return Graph(name, edges, place(edges, graph.x_hat.detach().cpu().double().numpy()), meaning)


def given(graph: InputGraph, n: int) -> Graph:
    """The input graph, drawn where the first learned one is, so that the two can be compared."""
    if hasattr(graph, "tocoo"):
        return Graph("input graph", sp.csr_array(graph), meaning=GIVEN)
    edge_index = as_edge_index(graph, n)
    assert edge_index is not None
    source, target = edge_index.numpy()
    edges = sp.csr_array((np.ones(len(source)), (target, source)), shape=(n, n))
    edges.data[:] = 1.0  # an edge that was given twice is one edge
    return Graph("input graph", edges, meaning=GIVEN)


def _answers(target: str, y: Any, classes: Sequence[Any] | None, probability: Any, prediction: Any) -> Answers:
    y = None if y is None else _array(y)
    p = None if probability is None else _array(probability).astype(np.float64)
    if p is not None and classes is None and (y is None or y.dtype.kind in "iu"):
        classes = [str(c) for c in range(p.shape[1])]
    label, names = (None, []) if y is None else as_labels(y, classes)
    if y is None and classes is not None:
        names = [str(name) for name in classes]
    found: Array | None = None
    if prediction is not None:
        found, kind = as_labels(prediction, names or None)
        names = names or kind
    elif p is not None:
        found = p.argmax(1)
    return Answers(target, names, label, found, p)


def _array(values: Any) -> Array:
    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)


def from_estimator(
    model: Any,
    *,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    split: Sequence[str] | None = None,
    names: Sequence[Any] | None = None,
    table: Any = None,
    target: str = "label",
    title: str = "Learned graph",
) -> Page:
    """A page of what a fitted `DGMClassifier` or `DGMRegressor` has learned of the rows of `fit`.

    The probability of an edge is its entry in `graph_`. `y` are the labels, also those that `fit` did not see;
    `classes` are names for the model's classes. The other parameters are those of `page`.
    """
    n = len(model.embedding_)
    edges = sp.csr_array(model.graph_)
    shown = [Graph("learned graph", edges, place(edges, model.embedding_), FREQUENCY.format(model.samples))]
    if model.edge_index_ is not None:
        shown.append(given(model.edge_index_.numpy(), n))
    if hasattr(model, "classes_"):
        known = [str(name) for name in model.classes_]
        label = None if y is None else _codes(y, model.classes_)
        found = _codes(model.transduction_, model.classes_)
        p = model.label_distributions_
        answers = Answers(target, known if classes is None else [str(name) for name in classes], label, found, p)
    else:
        label = None if y is None else np.asarray(y, dtype=np.float64)
        answers = Answers(target, [], label, np.asarray(model.transduction_, dtype=np.float64))
    return Page(
        graphs=shown,
        names=[str(name) for name in (range(n) if names is None else names)],
        title=title,
        answers=answers,
        split=split,
        table=None if table is None else as_frame(table),
    )


def _codes(values: Any, classes: Array) -> Array:
    """Class numbers of labels; -1 for what is no class of the model."""
    return pd.Index(classes).get_indexer(np.asarray(values)).astype(np.int64)
