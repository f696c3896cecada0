"""What is worth seeing while a graph is learned: do its edges join rows that belong together?"""

from __future__ import annotations

import torch

from latentgraph.training import Callback, NodeSet, TrainState


def watch_edges(nodes: NodeSet) -> Callback:
    """A callback for `fit` that records how alike the ends of the sampled edges are, among the rows learned from.

    Classes: "homophily", the share of edges whose ends have the same class. Numbers: "edge_difference", the mean of
    the absolute difference between the ends. Edges to other rows do not count: their targets stay unseen. `nodes` are
    all nodes, also where several processes share them.

    >>> from latentgraph.layers import DiscreteDGM
    >>> graph = DiscreteDGM(torch.nn.Identity(), k=1, temperature=50.0)(torch.tensor([[0.0], [1.0], [9.0], [10.0]]))
    >>> state = TrainState(torch.nn.Identity(), 1, {}, [graph])
    >>> watch_edges(NodeSet(graph.x_hat, torch.tensor([0, 0, 1, -1])))(state)
    >>> state.values
    {'homophily': 1.0}
    """
    y = nodes.y
    name = "edge_difference" if y.is_floating_point() else "homophily"
    learned = torch.zeros(len(nodes.x), dtype=torch.bool, device=y.device)
    learned[nodes.rows] = True

    def watch(state: TrainState) -> None:
        graph = state.graphs[-1]
        neighbors = graph.neighbors
        if neighbors is None:  # a continuous graph joins all
            return
        rows = slice(graph.first_row, graph.first_row + len(neighbors))
        both = learned[rows, None] & learned[neighbors]
        if graph.kept is not None:
            both &= graph.kept
        own, other = y[rows, None].expand_as(neighbors)[both], y[neighbors][both]
        alike = (own - other).abs() if y.is_floating_point() else (own == other).float()
        if (mean := graph.mean_of_edges(alike)) is not None:
            state.values[name] = mean

    return watch
