"""LatentGraph: what a differentiable graph module returns, and how modules are called with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.gather import Backwards, backwards
from latentgraph.geometry import Geometry
from latentgraph.probability import logistic_adjacency

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse as sp
    from torch_geometric.data import Data

    from latentgraph.explorer import Page
    from latentgraph.sparse import Structure


@dataclass(frozen=True, eq=False)
class LatentGraph:
    """A graph between the rows of a table, with the embedding it came from.

    Discrete (sampled): `neighbors`, `edge_index` and `log_p` are set. Continuous (weighted, all pairs): `adj` and
    `threshold` are set, and `adj` is computed when it is first asked for.

    Attributes
    ----------
    x_hat : (n, d_hat) graph embedding, on its geometry
    temperature : 0-d, the t of log p = -t dist^2
    geometry : where `x_hat` lives
    neighbors : (n, k) the neighbours of each node in order of arrival [discrete]
    log_p : (e,) unnormalised log-probability of each edge, differentiable [discrete]
    threshold : 0-d, the T of a = sigmoid(t (T - dist^2)) [continuous]
    batch : (n,) graph id of each node, or None for one graph
    loop : whether a node was a candidate for itself [discrete]
    sampled : False for nearest neighbours, which have no likelihood to learn by [discrete]
    weights : (n, m) how much each edge counts in a convolution, differentiable; None: all the same. They belong to
        `candidates`, or to `neighbors` if there are none (m = k), and come from a `latentgraph.gradients` [discrete]
    candidates : (n, m) who could have been sampled: first the k neighbours, then others, of weight zero but with a
        gradient [discrete]
    kept : (n, k) which of the `neighbors` there are edges to, where nodes have different numbers of them
        (`latentgraph.degrees`); None: all. `edge_index` and `log_p` have these edges only [discrete]
    cutoff : 0-d, the T below which log p plus noise was not kept, differentiable; None: there was none [discrete]
    given : the input graph of the network that has learned this one, for `latentgraph.both_graphs`; None: none
    """

    x_hat: Tensor
    temperature: Tensor
    geometry: Geometry
    neighbors: Tensor | None = None
    log_p: Tensor | None = None
    threshold: Tensor | None = None
    batch: Tensor | None = None
    loop: bool = False
    sampled: bool = True
    weights: Tensor | None = None
    candidates: Tensor | None = None
    kept: Tensor | None = None
    cutoff: Tensor | None = None
    given: AnyGraph | None = None

    def __repr__(self) -> str:
        at_most = "=" if self.kept is None else "<="
        kind = "continuous" if self.neighbors is None else f"k{at_most}{self.neighbors.shape[1]}"
        return f"LatentGraph({kind}, nodes={self.num_nodes}, d_hat={self.x_hat.shape[1]}, {self.geometry!r})"

    @property
    def num_nodes(self) -> int:
        return len(self.x_hat)

    @property
    def is_continuous(self) -> bool:
        return self.neighbors is None

    @cached_property
    def edge_index(self) -> Tensor | None:
        """(2, e): source j above target i, sorted by target; e = n k, or less. None for a continuous graph."""
        if self.neighbors is None:
            return None
        edges = neighbors_to_edges(self.neighbors)
        return edges if self.kept is None else edges[:, self.kept.flatten()]

    def keep(self, kept: Tensor) -> LatentGraph:
        """The graph with fewer edges: `kept` (n, k) says which of the `neighbors` stay [discrete, all k there]."""
        assert self.log_p is not None
        assert self.kept is None
        return replace(self, kept=kept, log_p=self.log_p.masked_select(kept.flatten()))

    @property
    def degrees(self) -> Tensor:
        """(n,) how many neighbours each node has [discrete]."""
        assert self.neighbors is not None
        if self.kept is None:
            return self.neighbors.new_full((len(self.neighbors),), self.neighbors.shape[1])
        return self.kept.sum(1)

    def per_node(self, values: Tensor, missing: float = 0.0) -> Tensor:
        """Numbers of the edges (e,) -> (n, k) beside the `neighbors`, with `missing` where there is no edge."""
        assert self.neighbors is not None
        if self.kept is None:
            return values.view(self.neighbors.shape)
        return values.new_full(self.kept.shape, missing).masked_scatter(self.kept, values)

    @property
    def not_filled(self) -> Tensor:
        """(e,) bool: which edges of a discrete graph are real. Self-edges that fill up small graphs are not."""
        assert self.edge_index is not None
        source, target = self.edge_index
        return torch.ones_like(source, dtype=torch.bool) if self.loop else source != target

    @cached_property
    def backwards(self) -> Backwards:
        """The edges of a discrete graph read backwards; several convolutions share it."""
        return backwards(self.places, self.num_sources)

    # What differs where several processes share the nodes: there, nodes and rows are not the same (`PartOfGraph`).

    @property
    def all_x_hat(self) -> Tensor:
        """(m, d_hat) embedding of all who could be chosen."""
        return self.x_hat

    @property
    def first_row(self) -> int:
        """The number of the first node of `x_hat` in `all_x_hat`."""
        return 0

    @property
    def places(self) -> Tensor:
        """(n, k) the rows of `sources(h)` where the neighbours are [discrete]."""
        assert self.neighbors is not None
        return self.neighbors

    @property
    def num_sources(self) -> int:
        """Rows of `sources(h)`."""
        return self.num_nodes

    def sources(self, h: Tensor) -> Tensor:
        """Features (n, c) of the nodes -> the rows that their edges start at."""
        return h

    def mean_of_edges(self, values: Tensor) -> float | None:
        """The mean of numbers that belong to some of the edges; None if there are none."""
        return float(values.mean()) if len(values) else None

    @property
    def local_edges(self) -> Tensor | None:
        """(2, e) edges from rows of `sources(h)` to rows of `x_hat`. None for a continuous graph."""
        return self.edge_index

    @property
    def weighed(self) -> Tensor:
        """(n, m) the rows of `sources(h)` that `weights` belong to."""
        return self.places if self.candidates is None else self.candidates

    @cached_property
    def weighed_backwards(self) -> Backwards:
        """The same, read backwards."""
        return self.backwards if self.candidates is None else backwards(self.candidates)

    @property
    def adj(self) -> Tensor | None:
        """(n, n) weights a_ij of a continuous graph, differentiable. None for a discrete graph."""
        if self.threshold is None:
            return None
        if torch.is_grad_enabled():
            return self._differentiable_adj
        return logistic_adjacency(self.x_hat, self.temperature, self.threshold, self.geometry, self.batch)

    @cached_property
    def _differentiable_adj(self) -> Tensor:
        """Kept, for several convolutions share it. What is computed without gradients is not: it would lose them."""
        assert self.threshold is not None
        return logistic_adjacency(self.x_hat, self.temperature, self.threshold, self.geometry, self.batch)

    def to_pyg(self, x: Tensor | None = None, *, min_weight: float = 0.5) -> Data:
        """PyG `Data` with `edge_index`, `edge_weight` (p or a), node features `x` (default: the embedding).

        Of a continuous graph, edges with a_ij >= `min_weight` are kept: with 0.5, pairs closer than the threshold.
        """
        from torch_geometric.data import Data

        edge_index, weight = self._weighted_edges(min_weight)
        features = self.x_hat if x is None else x
        data = Data(x=features, edge_index=edge_index, edge_weight=weight, x_hat=self.x_hat, num_nodes=self.num_nodes)
        if self.batch is not None:
            data.batch = self.batch
        return data

    def to_scipy(self, *, min_weight: float = 0.5) -> sp.csr_array:
        """Sparse (n, n) matrix, row i holding the neighbours of i, with p_ij (discrete) or a_ij (continuous)."""
        import scipy.sparse as sp

        edge_index, weight = self._weighted_edges(min_weight)
        source, target = edge_index.cpu().numpy()
        n = self.num_nodes
        return sp.csr_array((weight.detach().cpu().double().numpy(), (target, source)), shape=(n, n))

    def to_networkx(self, *, min_weight: float = 0.5) -> nx.DiGraph:
        """Directed networkx graph, edges j -> i with attribute `weight`, nodes with attribute `x_hat`."""
        import networkx as nx

        edge_index, weight = self._weighted_edges(min_weight)
        graph = nx.DiGraph()
        graph.add_nodes_from((i, {"x_hat": row}) for i, row in enumerate(self.x_hat.detach().tolist()))
        edges = zip(*edge_index.tolist(), weight.detach().tolist(), strict=True)
        graph.add_weighted_edges_from(edges)
        return graph

    def explore(
        self,
        path: str | Path | None = None,
        *,
        y: Any = None,
        classes: Sequence[Any] | None = None,
        probability: Any = None,
        names: Sequence[Any] | None = None,
        table: Any = None,
        title: str = "Learned graph",
    ) -> Page:
        """A page to look at the graph: one HTML file that opens offline; in a notebook it shows itself.

        Parameters
        ----------
        path : where to write it; None: nowhere, the page is returned only
        y : (n,) labels: class numbers with -1 for unknown, names with None, or numbers with NaN
        classes : names of the classes
        probability : (n, classes) predicted
        names : (n,) ids of the nodes
        table : n rows to show with the nodes
        title : of the page

        `latentgraph.explorer.page` takes more: several layers, an input graph, splits.
        """
        from latentgraph.explorer import page

        found = page(self, y=y, classes=classes, probability=probability, names=names, table=table, title=title)
        if path is not None:
            found.write(path)
        return found

    def _weighted_edges(self, min_weight: float) -> tuple[Tensor, Tensor]:
        if self.edge_index is not None and self.log_p is not None:
            real = self.not_filled.nonzero()[:, 0]
            return self.edge_index.index_select(1, real), self.log_p.exp().index_select(0, real)
        assert self.adj is not None
        target, source = (self.adj.detach() >= min_weight).nonzero().T
        return torch.stack([source, target]), self.adj[target, source]


def neighbors_to_edges(neighbors: Tensor) -> Tensor:
    """(n, k) neighbours of each node -> (2, n k) edges, source above target."""
    n, k = neighbors.shape
    target = torch.arange(n, device=neighbors.device).repeat_interleave(k)
    return torch.stack([neighbors.reshape(-1), target])


def edge_frequencies(graphs: Sequence[LatentGraph]) -> sp.csr_array:
    """How often each edge occurs in several sampled graphs of the same nodes: sparse (n, n), values in (0, 1]."""
    import numpy as np
    import scipy.sparse as sp

    if not graphs:
        raise InputError("edge_frequencies got no graphs; it needs at least one. Sample some first.")
    shape = (graphs[0].num_nodes, graphs[0].num_nodes)
    total = sp.csr_array(shape, dtype=np.float64)
    for graph in graphs:
        if graph.edge_index is None:
            total = total + graph.to_scipy()
        else:
            source, target = graph.edge_index[:, graph.not_filled].cpu().numpy()
            total = total + sp.csr_array((np.ones(len(source)), (target, source)), shape=shape)
    return sp.csr_array(total / len(graphs))


def edge_homophily(edge_index: Tensor, y: Tensor) -> float:
    """Share of edges whose two ends have the same label; edges that touch a label below zero do not count."""
    a, b = y.index_select(0, edge_index[0]), y.index_select(0, edge_index[1])
    known = (a >= 0) & (b >= 0)
    return float((a == b)[known].float().mean())


class Part(Protocol):
    """One process's part of a graph whose nodes several processes share: see `latentgraph.distributed`."""

    @property
    def local_edges(self) -> Tensor: ...

    def sources(self, h: Tensor) -> Tensor: ...

    def on_all(self, module: nn.Module, x: Tensor) -> Tensor: ...

    def own_first(self, x: Tensor) -> tuple[Tensor, Tensor]: ...

    def normalised(self, dtype: torch.dtype) -> tuple[Tensor, Structure]: ...


AnyGraph = Tensor | LatentGraph | Part


def is_part(graph: AnyGraph) -> TypeGuard[Part]:
    return not isinstance(graph, Tensor) and hasattr(graph, "on_all")


@lru_cache(maxsize=256)  # reading a signature takes as long as a small layer
def _graph_asked_for(forward: Callable[..., Any]) -> inspect.Parameter | None:
    wanted = inspect.signature(forward).parameters
    return wanted.get("graph") or wanted.get("edge_index")


def on_graph(module: nn.Module, x: Tensor, graph: AnyGraph | None) -> Tensor:
    """Call a module with what its `forward` asks for: `(x)`, `(x, edge_index)` or `(x, graph)`.

    Node-wise modules (an MLP, the identity) see the features only, PyG convolutions the edge list, and the modules of
    `latentgraph.diffusion` the graph itself, be it an edge list or either kind of `LatentGraph`.
    """
    asked = _graph_asked_for(getattr(module.forward, "__func__", module.forward))
    if asked is None:
        return module(x)
    if graph is None and asked.default is inspect.Parameter.empty:
        raise InputError(
            f"{type(module).__name__} works on a graph but none was given. "
            "Pass edge_index=..., or use a node-wise module such as an MLP in its place."
        )
    if graph is None or asked.name == "graph":
        return module(x, graph)
    if isinstance(graph, LatentGraph) and graph.weights is not None:
        raise InputError(
            f"{type(module).__name__} takes an edge list, but the edges of this graph have weights, through which its "
            "gradient goes. Use GCN, GAT, EdgeConv or RowNormalised of latentgraph.diffusion, or a gradient without "
            "weights: Reinforce or PlackettLuce of latentgraph.gradients."
        )
    if is_part(graph):
        return graph.on_all(module, x)
    edge_index = graph.edge_index if isinstance(graph, LatentGraph) else graph
    if edge_index is None:
        raise InputError(
            f"{type(module).__name__} needs an edge list, but a continuous graph connects all pairs. "
            "Use GCN, GAT, EdgeConv or RowNormalised of latentgraph.diffusion, or a DiscreteDGM."
        )
    return module(x, edge_index)
