"""What a training step of the estimators sees: all rows, or random parts of a table that is too large for that."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from latentgraph.minibatch import RandomRows
from latentgraph.training import Batches, Callback, NodeSet, TrainState
from latentgraph.watching import watch_edges


def node_sets(
    nodes: NodeSet, stop: Tensor | None, batch_size: int, seed: int, device: torch.device
) -> tuple[Batches, NodeSet | None, Callback]:
    """What to learn from, what to stop by, and a callback that watches the edges.

    Parameters
    ----------
    nodes : all rows; its mask says which to learn from
    stop : (n,) the labelled rows that decide when to stop, or None
    batch_size : tables with more rows, and without an input graph, are learned from in random parts of this size
    """
    validation = None if stop is None else replace(nodes, mask=stop, weight=None)
    if len(nodes.x) <= batch_size or nodes.edge_index is not None:
        nodes = nodes.to(device)
        return nodes, None if validation is None else validation.to(device), watch_edges(nodes)
    batches = RandomRows(nodes.x, nodes.y, batch_size, mask=nodes.mask, weight=nodes.weight)
    drawn: list[NodeSet] = []

    def draw(step: int, generator: torch.Generator) -> NodeSet:
        drawn[:] = [batches(step, generator).to(device)]
        return drawn[0]

    def watch(state: TrainState) -> None:
        watch_edges(drawn[0])(state)

    if validation is not None:
        # One part, always the same, and as large as a batch: its rows see neighbours as those of a step do.
        validation = RandomRows(nodes.x, nodes.y, batch_size, mask=stop)(0, torch.Generator().manual_seed(seed))
        validation = validation.to(device)
    return draw, validation, watch
