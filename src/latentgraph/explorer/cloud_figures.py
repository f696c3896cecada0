"""A point cloud, again and again, coloured by how near each point is to a chosen one for each of several graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from latentgraph.errors import InputError
from latentgraph.explorer.figures import probabilities
from latentgraph.explorer.page import Array
from latentgraph.explorer.picture import CHOSEN, SCALE, new_figure
from latentgraph.graph import LatentGraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@torch.no_grad()
def closeness(graph: LatentGraph, node: int) -> Array:
    """(n,) how near each node is to one of them: the probability of an edge, and exp(-distance) of nearest neighbours.

    A graph of nearest neighbours was not sampled and has no probabilities; the paper's figure shows this in place of
    them.
    """
    p = probabilities(graph, [node])[0]
    if graph.sampled or graph.threshold is not None:
        return p
    square = graph.geometry.sq_dist(graph.x_hat, graph.x_hat[node])
    near: Array = square.sqrt().neg().exp().cpu().double().numpy()
    return near


def cloud_figure(
    points: Array,
    nodes: Sequence[int],
    graphs: Mapping[str, LatentGraph],
    *,
    turn: float = 30.0,
    tilt: float = 25.0,
) -> Figure:
    """For each chosen node a row of clouds, one for each graph, under its name; the chosen node is red.

    Each cloud has its own scale of colours, from the least to the most near of its points: numbers of different graphs
    have nothing in common.

    Parameters
    ----------
    points : (n, 3) where the points are drawn; the second axis points up, as in ShapeNet
    nodes : the chosen points
    turn, tilt : where it is looked at from, in degrees: around the vertical axis, and from above
    """
    if points.ndim != 2 or points.shape[1] != 3 or not len(nodes) or not graphs:
        raise InputError(
            f"points have shape {points.shape} with {len(nodes)} nodes and {len(graphs)} graphs; there must be (n, 3) "
            "points, and at least one node and one graph."
        )
    place = _seen_from(points, turn, tilt)
    size = float(np.clip(4000 / len(points), 2, 16))  # of a dot: many must not hide each other
    figure = new_figure(2.8 * len(graphs), 2.8 * float(np.ptp(place[:, 1]) / np.ptp(place[:, 0])) * len(nodes) + 0.5)
    grid: Any = figure.subplots(len(nodes), len(graphs), squeeze=False)
    for node, row in zip(nodes, grid, strict=True):
        for axes, graph in zip(row, graphs.values(), strict=True):
            axes.set_axis_off()
            axes.set_aspect("equal")
            value = closeness(graph, node)
            order = value.argsort()
            order = order[order != node]  # near ones on top
            shown = axes.scatter(*place[order].T, c=value[order], cmap=SCALE, s=size, linewidths=0)
            axes.scatter(*place[[node]].T, color=CHOSEN, s=60, zorder=3)
    for axes, name in zip(grid[0], graphs, strict=True):
        axes.set_title(name, fontsize=10)
    bar = figure.colorbar(shown, ax=grid, shrink=0.7, pad=0.01, ticks=shown.get_clim())
    bar.ax.set_yticklabels(["least near", "nearest"])
    return figure


def _seen_from(points: Array, turn: float, tilt: float) -> Array:
    """(n, 2) the points as an eye far away sees them."""
    x, up, z = points.T
    a, b = np.radians(turn), np.radians(tilt)
    depth = np.sin(a) * x + np.cos(a) * z
    return np.stack([np.cos(a) * x - np.sin(a) * z, np.cos(b) * up - np.sin(b) * depth], 1)
