"""Figures in the spirit of the paper's: whom a point would connect to, who is around a node, and how far edges reach.

Each function returns a matplotlib figure; `figure.savefig("name.pdf")` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra

from latentgraph.errors import InputError
from latentgraph.explorer.encoding import most_probable
from latentgraph.explorer.layout import place
from latentgraph.explorer.page import Array
from latentgraph.explorer.picture import CHOSEN, CLASSES, EDGE, SCALE, draw_classes, new_figure
from latentgraph.graph import LatentGraph
from latentgraph.input_graph import InputGraph, as_edge_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@torch.no_grad()
def probabilities(graph: LatentGraph, nodes: Sequence[int] | Array) -> Array:
    """(len(nodes), n) unnormalised probability of each edge, p = exp(-t d^2) or the weight a of a continuous graph."""
    index = torch.as_tensor(np.asarray(nodes), device=graph.x_hat.device)
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= graph.num_nodes):
        raise InputError(f"node {index.tolist()} but the graph has nodes 0 to {graph.num_nodes - 1}.")
    square = graph.geometry.sq_cdist(graph.x_hat.index_select(0, index), graph.x_hat)
    if graph.threshold is not None:
        return torch.sigmoid(graph.temperature * (graph.threshold - square)).cpu().double().numpy()
    return torch.exp(-graph.temperature * square).cpu().double().numpy()


def connection_probability(graph: LatentGraph, node: int, positions: Array | None = None) -> Figure:
    """Every point coloured by its probability to be connected to one of them, which is red.

    `positions` (n, 2) or (n, 3) are where the points are drawn, such as the points of a cloud; default: as the explorer
    places them.
    """
    p = probabilities(graph, [node])[0]
    if positions is None:
        positions = place(graph.to_scipy(), graph.x_hat.detach().cpu().double().numpy())
    if len(positions) != graph.num_nodes or positions.ndim != 2 or positions.shape[1] not in (2, 3):
        raise InputError(f"positions have shape {positions.shape}; it must be ({graph.num_nodes}, 2) or (..., 3).")
    figure = new_figure()
    axes: Any = figure.add_subplot(projection="3d" if positions.shape[1] == 3 else None)
    axes.set_axis_off()
    axes.set_aspect("equal")
    order = p.argsort()
    order = order[order != node]  # the probable ones on top
    points = axes.scatter(*positions[order].T, c=p[order], cmap=SCALE, s=14, linewidths=0)
    axes.scatter(*positions[[node]].T, color=CHOSEN, s=60, zorder=3)
    figure.colorbar(points, ax=axes, shrink=0.6, label="probability to connect to the red point")
    return figure


def rings(edges: Any, node: int, hops: int = 2, most: int = 5) -> list[list[tuple[int, int]]]:
    """Nodes around a node: for each hop, pairs (node, the one it was reached from), by the most probable edges."""
    chosen = most_probable(sp.csr_array(edges), most)
    if not 0 <= node < chosen.shape[0]:
        raise InputError(f"node {node} but the graph has nodes 0 to {chosen.shape[0] - 1}.")
    seen, ring, found = {node}, [node], []
    for _ in range(hops):
        reached: list[tuple[int, int]] = []
        for source in ring:
            for other in chosen.indices[chosen.indptr[source] : chosen.indptr[source + 1]].tolist():
                if other not in seen:
                    seen.add(other)
                    reached.append((other, source))
        found.append(reached)
        ring = [other for other, _ in reached]
    return found


def ring_figure(
    graph: LatentGraph | Any,
    node: int,
    hops: int = 2,
    most: int = 5,
    *,
    names: Sequence[str] | None = None,
    y: Array | None = None,
    classes: Sequence[str] = (),
) -> Figure:
    """The neighbourhood of a node on circles: those it chose, those they chose, by the `most` most probable edges."""
    edges = graph.to_scipy() if isinstance(graph, LatentGraph) else graph
    found = rings(edges, node, hops, most)
    where = _on_circles(node, found)
    shown = list(where)
    xy = np.array([where[i] for i in shown])
    figure = new_figure(7, 7)
    axes: Any = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    for other, source in (pair for ring in found for pair in ring):
        axes.plot(*np.array([where[source], where[other]]).T, color=EDGE, linewidth=1, zorder=0)
    if y is not None and len(classes):
        draw_classes(axes, xy, np.asarray(y)[shown], list(classes), 70)
    else:
        axes.scatter(*xy.T, s=70, color=CLASSES[0], linewidths=0)
    axes.scatter([0], [0], s=160, color=CHOSEN, zorder=3)
    for i, (x, height) in zip(shown, xy, strict=True):
        name = str(i) if names is None else str(names[i])
        axes.annotate(
            name, (x, height), (4, 5), textcoords="offset points", fontsize=8, parse_math=False, annotation_clip=False
        )
    axes.margins(0.12)
    return figure


def _on_circles(node: int, found: list[list[tuple[int, int]]]) -> dict[int, tuple[float, float]]:
    """Ring h on the circle of radius h. A node's sector is as wide as what was reached from it: no lines cross."""
    reached: dict[int, list[int]] = {}
    for other, source in (pair for ring in found for pair in ring):
        reached.setdefault(source, []).append(other)
    where: dict[int, tuple[float, float]] = {}

    def width(at: int) -> int:
        return max(1, sum(map(width, reached.get(at, []))))

    def put(at: int, radius: int, start: float, end: float) -> None:
        angle = (start + end) / 2
        where[at] = radius * float(np.cos(angle)), radius * float(np.sin(angle))
        step = (end - start) / width(at)
        for other in reached.get(at, []):
            put(other, radius + 1, start, start + step * width(other))
            start += step * width(other)

    put(node, 0, 0.0, 2 * np.pi)
    return where


def hop_profile(
    graph: LatentGraph,
    given: InputGraph,
    hops: int = 6,
    *,
    nodes: Sequence[int] | Array | None = None,
    among: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Mean and standard deviation of the edge probability of pairs that are 1, 2, ... hops apart in a given graph.

    Pairs begin at `nodes`, default all, and end at a node for which `among` (n,) is true, default all. The ways between
    them may lead over any node.

    Returns
    -------
    (hops,) mean, (hops,) standard deviation, (hops,) number of ordered pairs; NaN where there is no pair
    """
    n = graph.num_nodes
    edge_index = as_edge_index(given, n)
    if edge_index is None:
        raise InputError("there is no given graph to measure hops in; pass (2, e) edges, a matrix or a networkx graph.")
    source, target = edge_index.numpy()
    links = sp.csr_array((np.ones(len(source)), (target, source)), shape=(n, n))
    total, square, pairs = np.zeros(hops), np.zeros(hops), np.zeros(hops)
    starts = np.arange(n) if nodes is None else np.asarray(nodes)
    step = max(1, (1 << 22) // n)  # rows at a time: all pairs of a large graph do not fit into memory
    for start in range(0, len(starts), step):
        rows = starts[start : start + step]
        far = dijkstra(links, directed=False, indices=rows, unweighted=True, limit=hops)
        if among is not None:
            far[:, ~among] = np.inf
        p = probabilities(graph, rows)
        for hop in range(hops):
            at = p[far == hop + 1]
            total[hop] += at.sum()
            square[hop] += (at**2).sum()
            pairs[hop] += at.size
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / pairs
        spread = np.sqrt(np.maximum(square / pairs - mean**2, 0))
    return mean, spread, pairs.astype(np.int64)


def probability_by_hops(
    graph: LatentGraph,
    given: InputGraph,
    hops: int = 6,
    *,
    nodes: Sequence[int] | Array | None = None,
    among: Array | None = None,
) -> Figure:
    """Edge probability of the learned graph against hop distance in a given one: mean and standard deviation.

    `nodes` and `among` choose the pairs, see `hop_profile`.
    """
    mean, spread, pairs = hop_profile(graph, given, hops, nodes=nodes, among=among)
    figure = new_figure(6, 4)
    axes: Any = figure.add_subplot()
    axes.bar(np.arange(1, hops + 1), mean, yerr=spread, color=CLASSES[0], ecolor="#8a94a3", capsize=3)
    axes.set_xticks(np.arange(1, hops + 1), [f"{hop}\n({count:,})" for hop, count in enumerate(pairs, 1)], fontsize=8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("hops in the given graph (number of pairs)")
    axes.set_ylabel("edge probability in the learned graph")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
