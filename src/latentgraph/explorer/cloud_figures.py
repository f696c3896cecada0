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
    points: Array, nodes: Sequence[int], graphs: Mapping[str, LatentGraph], *, turn: float = -60
) -> Figure:
    """For each chosen node a row of clouds, one for each graph, under its name; the chosen node is red.

    Colours go by rank, from the farthest to the nearest point: the scales of different graphs have nothing in common.

    Parameters
    ----------
    points : (n, 3) where the points are drawn; the second axis points up, as in ShapeNet
    nodes : the chosen points
    turn : degrees around the vertical axis
    """
    if points.ndim != 2 or points.shape[1] != 3 or not len(nodes) or not graphs:
        raise InputError(
            f"points have shape {points.shape} with {len(nodes)} nodes and {len(graphs)} graphs; there must be (n, 3) "
            "points, and at least one node and one graph."
        )
    figure = new_figure(2.6 * len(graphs), 2.7 * len(nodes) + 0.5)
    place = points[:, [0, 2, 1]]  # matplotlib's third axis points up
    shown: Any = None
    panels: list[Any] = []
    for row, node in enumerate(nodes):
        for column, (name, graph) in enumerate(graphs.items()):
            axes: Any = figure.add_subplot(len(nodes), len(graphs), row * len(graphs) + column + 1, projection="3d")
            panels.append(axes)
            axes.set_axis_off()
            axes.set_box_aspect(np.ptp(place, axis=0) + 1e-3, zoom=1.35)
            axes.view_init(elev=18, azim=turn)
            rank = closeness(graph, node).argsort(kind="stable").argsort(kind="stable") / (len(points) - 1)
            order = rank.argsort()[:-1]  # near ones on top; the last is the node itself
            shown = axes.scatter(
                *place[order].T, c=rank[order], cmap=SCALE, vmin=0, vmax=1, s=12, linewidths=0, alpha=1
            )
            axes.scatter(*place[[node]].T, color=CHOSEN, s=55, depthshade=False)
            if row == 0:
                axes.set_title(name, fontsize=10)
    bar = figure.colorbar(shown, ax=panels, shrink=0.6, pad=0.02, ticks=[0, 1])
    bar.ax.set_yticklabels(["farthest", "nearest"])
    return figure
