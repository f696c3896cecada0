"""Whole graphs with one target each, and mini-batches of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.pooling import pool
from latentgraph.training import NodeSet


@dataclass(frozen=True)
class GraphSet(NodeSet):
    r"""Graphs that are seen together, one target for each: a `NodeSet` whose targets belong to graphs, not to nodes.

    `training.fit` takes it wherever it takes a node set, with a network that gives one row for each graph
    (`pooling.PooledNet`). What a graph did better than expected, all its nodes are credited with:

    .. math:: L_{graph} = \frac 1 g \sum_g \delta_g \sum_{i \in g} \sum_{j : (i,j) \in \mathcal E} \log p_{ij}

    Attributes
    ----------
    x : (n, d) features of the nodes of all graphs, graph after graph
    y : (g,) class numbers, or (g,) / (g, c) numbers for regression
    mask : (g,) bool, the graphs whose target counts; default: class number >= 0, or not NaN
    edge_index : (2, e) links inside the graphs, or None
    batch : (n,) the graph of each node: 0, 0, ..., 1, ..., g-1, ascending, each at least once
    node_id : (g,) the numbers under which `MovingAverageBaseline` knows the graphs; default 0 .. g-1. `select` keeps
        them, so the baseline of a set of graphs is `MovingAverageBaseline(len(graphs.y))`, mini-batches or not
    weight : (g,) how much each graph counts in the loss, default the same
    category : (g,) what kind of thing each graph is, for a network that is told, or None

    Examples
    --------
    >>> graphs = GraphSet(torch.randn(5, 3), torch.tensor([0, 1]), batch=torch.tensor([0, 0, 0, 1, 1]))
    >>> len(graphs), graphs.select(torch.tensor([1])).x.shape
    (2, torch.Size([2, 3]))
    """

    edge_index: Tensor | None = None

    shares_rewards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.batch is None:
            raise InputError("a GraphSet needs batch: the number of the graph of each row of x, 0, 0, ..., 1, ...")
        if len(self.batch) != len(self.x):
            raise InputError(f"batch has {len(self.batch)} entries but x has {len(self.x)} rows.")
        ids = torch.unique_consecutive(self.batch)
        if not torch.equal(ids, torch.arange(len(self.y), device=ids.device)):
            raise InputError(
                f"batch has the graph ids {ids.tolist()[:6]} ... for {len(self.y)} targets; it must go from 0 to "
                f"{len(self.y) - 1} in ascending order, with at least one node for each graph."
            )
        for name in ("mask", "node_id", "weight", "category"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.y):
                raise InputError(f"{name} has {len(value)} entries but there are {len(self.y)} graphs.")
        self._check_mask()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def graph_of_node(self) -> Tensor:
        """(n,) the number of each node's graph."""
        assert self.batch is not None
        return self.batch

    def credit(self, delta: Tensor, rows: Tensor) -> Tensor:
        """Deltas (m,) of graphs, their numbers (m,) -> (n,): a node has its graph's, zero where there is no target."""
        return delta.new_zeros(len(self.y)).index_copy(0, rows, delta).index_select(0, self.graph_of_node)

    def per_target(self, h: Tensor) -> Tensor:
        """Rows (n, c) of nodes -> (g, c): the mean over each graph. What an auxiliary head sees."""
        return pool(h, self.batch)

    def select(self, graphs: Tensor) -> GraphSet:
        """The set of these graphs (m,) alone, in the order of their numbers. They keep their `node_id`."""
        chosen = torch.zeros(len(self.y), dtype=torch.bool).index_fill(0, graphs, True)
        graphs = chosen.nonzero()[:, 0]
        nodes = chosen.index_select(0, self.graph_of_node).nonzero()[:, 0]
        new_graph = chosen.cumsum(0) - 1
        return GraphSet(
            self.x.index_select(0, nodes),
            self.y.index_select(0, graphs),
            None if self.mask is None else self.mask.index_select(0, graphs),
            None if self.edge_index is None else self._edges_of(nodes),
            new_graph.index_select(0, self.graph_of_node.index_select(0, nodes)),
            graphs if self.node_id is None else self.node_id.index_select(0, graphs),
            None if self.weight is None else self.weight.index_select(0, graphs),
            None if self.category is None else self.category.index_select(0, graphs),
        )

    def _edges_of(self, nodes: Tensor) -> Tensor:
        """The links between these nodes, in new numbers. A link never leaves its graph, so its source tells."""
        assert self.edge_index is not None
        new_number = torch.full((len(self.x),), -1).index_copy(0, nodes, torch.arange(len(nodes)))
        moved = new_number.index_select(0, self.edge_index.reshape(-1)).view(2, -1)
        return moved[:, moved[0] >= 0]


def join(graphs: Sequence[tuple[Tensor, Tensor | None]], y: Tensor) -> GraphSet:
    """Single graphs (features (n, d), edges (2, e) or None) and their targets (g,) -> a `GraphSet`.

    >>> pair = join([(torch.randn(3, 2), torch.tensor([[0, 1], [1, 0]])), (torch.randn(1, 2), None)], torch.arange(2))
    >>> pair.batch
    tensor([0, 0, 0, 1])
    """
    if len(graphs) != len(y) or not len(graphs):
        raise InputError(f"{len(graphs)} graphs came with {len(y)} targets; there must be one each, and at least one.")
    sizes = torch.tensor([len(x) for x, _ in graphs])
    start = sizes.cumsum(0) - sizes
    edges = [links + first for (_, links), first in zip(graphs, start.tolist(), strict=True) if links is not None]
    return GraphSet(
        torch.cat([x for x, _ in graphs]),
        y,
        edge_index=torch.cat(edges, dim=1) if edges else None,
        batch=torch.arange(len(y)).repeat_interleave(sizes),
    )


def graph_batches(graphs: GraphSet, size: int) -> Callable[[int, torch.Generator], GraphSet]:
    """Mini-batches for `training.fit`: in every step `size` graphs with a target, drawn without replacement."""
    if size < 1:
        raise InputError(f"size={size} but a mini-batch needs at least one graph.")
    rows = graphs.rows
    if not len(rows):
        raise InputError("no graph has a target: every one is -1 or NaN, or the mask is empty.")

    def batch(step: int, generator: torch.Generator) -> GraphSet:
        drawn = torch.randperm(len(rows), generator=generator)[:size]
        return graphs.select(rows.index_select(0, drawn))

    return batch
