"""LatentGraph, its exports, edge statistics, and how modules are called on a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv, SimpleConv

from latentgraph.diffusion import GAT, GCN, EdgeConv, RowNormalised
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean
from latentgraph.graph import LatentGraph, edge_frequencies, edge_homophily, neighbors_to_edges, on_graph
from latentgraph.stacks import Stack, gat, gcn, mlp

POINTS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
NEIGHBORS = torch.tensor([[1, 2], [0, 3], [3, 0], [1, 0]])  # not symmetric: 3 chose 0, 0 did not choose 3


@pytest.fixture(autouse=True)
def fixed_weights() -> Iterator[None]:
    """New modules start from the same weights in every run, in whatever order tests run."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def discrete(neighbors: Tensor = NEIGHBORS, t: float = 0.5) -> LatentGraph:
    """A sampled graph on POINTS whose log p is written down pair by pair."""
    log_p = [-t * float((POINTS[i] - POINTS[j]).pow(2).sum()) for i, row in enumerate(neighbors.tolist()) for j in row]
    return LatentGraph(POINTS, torch.tensor(t), Euclidean(), neighbors=neighbors, log_p=torch.tensor(log_p))


def continuous(t: float = 0.7, threshold: float = 4.5) -> LatentGraph:
    return LatentGraph(POINTS, torch.tensor(t), Euclidean(), threshold=torch.tensor(threshold))


def weights_by_hand(graph: LatentGraph, min_weight: float = 0.5) -> dict[tuple[int, int], float]:
    """(target i, source j) -> weight, from the definitions alone."""
    t = float(graph.temperature)
    sq_dist = {(i, j): float((POINTS[i] - POINTS[j]).pow(2).sum()) for i in range(4) for j in range(4)}
    if graph.neighbors is not None:
        return {(i, j): float(np.exp(-t * sq_dist[i, j])) for i in range(4) for j in graph.neighbors[i].tolist()}
    assert graph.threshold is not None
    a = {pair: 1 / (1 + np.exp(-t * (float(graph.threshold) - d))) for pair, d in sq_dist.items()}
    return {pair: weight for pair, weight in a.items() if weight >= min_weight}


def test_edges_are_source_above_target_sorted_by_target() -> None:
    """Broken: messages flow from a node to those it chose, instead of from them to it."""
    edge_index = discrete().edge_index
    assert edge_index is not None
    assert edge_index.tolist() == [[1, 2, 0, 3, 3, 0, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3]]
    assert torch.equal(edge_index, neighbors_to_edges(NEIGHBORS))


def test_a_pyg_convolution_collects_from_the_chosen_neighbours() -> None:
    """Broken: the orientation of the edge list is not PyG's."""
    x = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    out = SimpleConv(aggr="sum")(x, discrete().edge_index)
    assert out[:, 0].tolist() == [110.0, 1001.0, 1001.0, 11.0]


def test_log_p_is_aligned_with_the_edges() -> None:
    """Broken: the k-th log p belongs to another edge than the k-th column of edge_index."""
    graph = discrete()
    assert graph.edge_index is not None
    assert graph.log_p is not None
    source, target = graph.edge_index
    expected = -0.5 * (POINTS[source] - POINTS[target]).pow(2).sum(1)
    torch.testing.assert_close(graph.log_p, expected)


def test_adjacency_of_a_continuous_graph() -> None:
    """Broken: weights that grow with the distance (the paper's printed sign), or lost gradients."""
    t, threshold = torch.tensor(0.7, requires_grad=True), torch.tensor(4.5, requires_grad=True)
    points = POINTS.clone().requires_grad_()
    graph = LatentGraph(points, t, Euclidean(), threshold=threshold)
    assert graph.adj is not None
    for i in range(4):
        for j in range(4):
            d = float((POINTS[i] - POINTS[j]).pow(2).sum())
            assert float(graph.adj[i, j].detach()) == pytest.approx(1 / (1 + np.exp(-0.7 * (4.5 - d))), rel=1e-5)
    assert graph.adj is graph.adj  # formed once
    grads = torch.autograd.grad(graph.adj[0, 3], (points, t, threshold))
    assert all(bool((g != 0).any()) for g in grads)


def test_each_kind_has_only_its_own_fields() -> None:
    """Broken: code that asks `is_continuous` or looks for None takes the wrong branch."""
    assert not discrete().is_continuous
    assert discrete().adj is None
    assert continuous().is_continuous
    assert continuous().edge_index is None
    assert continuous().log_p is None
    assert discrete().num_nodes == continuous().num_nodes == 4
    assert repr(discrete()) == "LatentGraph(k=2, nodes=4, d_hat=2, Euclidean())"
    assert repr(continuous()) == "LatentGraph(continuous, nodes=4, d_hat=2, Euclidean())"
    with pytest.raises(dataclasses.FrozenInstanceError):
        discrete().loop = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("graph", "min_weight"),
    [(discrete(), 0.5), (continuous(), 0.5), (continuous(), 0.01), (continuous(), 0.0), (continuous(), 0.99)],
    ids=["discrete", "continuous", "continuous-faint", "continuous-all", "continuous-none"],
)
def test_exports_agree_with_the_definition_and_with_each_other(graph: LatentGraph, min_weight: float) -> None:
    """Broken: an export transposes, drops or reweighs edges, or ignores min_weight."""
    expected = weights_by_hand(graph, min_weight)

    data = graph.to_pyg(min_weight=min_weight)
    from_pyg = dict(zip(zip(*data.edge_index.flip(0).tolist(), strict=True), data.edge_weight.tolist(), strict=True))
    if not expected:
        from_pyg = {}
    matrix = graph.to_scipy(min_weight=min_weight).tocoo()
    from_scipy = dict(zip(zip(*(c.tolist() for c in matrix.coords), strict=True), matrix.data.tolist(), strict=True))
    digraph = graph.to_networkx(min_weight=min_weight)
    from_networkx = {(target, source): w for source, target, w in digraph.edges(data="weight")}

    for found in (from_pyg, from_scipy, from_networkx):
        assert found.keys() == expected.keys()
        assert all(found[pair] == pytest.approx(weight, rel=1e-5) for pair, weight in expected.items())
    assert data.edge_index.shape == (2, len(expected))
    assert matrix.shape == (4, 4)
    assert list(digraph.nodes) == [0, 1, 2, 3]
    assert digraph.nodes[3]["x_hat"] == [3.0, 3.0]


def test_continuous_cases_really_differ() -> None:
    """The parameters above choose a part, almost all, all and none of the pairs."""
    counts = [len(weights_by_hand(continuous(), w)) for w in (0.99, 0.5, 0.01, 0.0)]
    assert counts[0] == 0
    assert counts[0] < counts[1] < counts[2] < counts[3] == 16


def test_to_pyg_carries_features_and_gradients() -> None:
    """Broken: the exported weights cannot be trained through, or the features are not those given."""
    x_hat = POINTS.clone().requires_grad_()
    graph = LatentGraph(x_hat, torch.tensor(0.7), Euclidean(), threshold=torch.tensor(4.5))
    x = torch.arange(8.0).view(4, 2)
    data = graph.to_pyg(x)
    assert data.x is x
    assert data.x_hat is x_hat
    assert data.num_nodes == 4
    assert graph.to_pyg().x is x_hat
    data.edge_weight.sum().backward()
    assert x_hat.grad is not None
    assert bool((x_hat.grad != 0).any())


def test_underflowing_probabilities_keep_their_edges() -> None:
    """Broken: a sampled edge whose p underflows to zero vanishes from the export."""
    graph = discrete(t=1e4)
    assert graph.to_pyg().edge_weight.sum() == 0
    assert graph.to_scipy().nnz == 8
    assert graph.to_networkx().number_of_edges() == 8


def test_edge_frequencies_by_hand() -> None:
    """Broken: counts are not per ordered pair, or not divided by the number of graphs."""
    first = discrete(torch.tensor([[1], [0], [3], [0]]))
    second = discrete(torch.tensor([[1], [2], [3], [1]]))
    third = discrete(torch.tensor([[2], [0], [3], [0]]))
    expected = np.zeros((4, 4))
    expected[0, 1], expected[0, 2] = 2 / 3, 1 / 3
    expected[1, 0], expected[1, 2] = 2 / 3, 1 / 3
    expected[2, 3] = 1
    expected[3, 0], expected[3, 1] = 2 / 3, 1 / 3
    np.testing.assert_allclose(edge_frequencies([first, second, third]).toarray(), expected)


def test_edge_frequencies_of_continuous_graphs_average_the_weights() -> None:
    """Broken: a continuous graph is counted like a sampled one."""
    a, b = continuous(t=0.7), continuous(t=2.0)
    expected = (a.to_scipy().toarray() + b.to_scipy().toarray()) / 2
    np.testing.assert_allclose(edge_frequencies([a, b]).toarray(), expected)


def test_edge_frequencies_needs_a_graph() -> None:
    with pytest.raises(InputError, match="no graphs"):
        edge_frequencies([])


def test_edge_homophily_by_hand() -> None:
    """Broken: unknown labels count as a class of their own."""
    edge_index = torch.tensor([[1, 2, 0, 3, 3, 0, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3]])
    assert edge_homophily(edge_index, torch.tensor([0, 0, 1, 1])) == pytest.approx(3 / 8)
    # Node 3 unknown: of 1-0, 2-0, 0-1, 0-2 two agree. Two unknown nodes never agree with each other.
    assert edge_homophily(edge_index, torch.tensor([0, 0, 1, -1])) == pytest.approx(2 / 4)
    assert edge_homophily(edge_index, torch.tensor([0, 0, -1, -1])) == pytest.approx(1.0)


# How modules are called


@pytest.mark.parametrize(
    "module",
    [nn.Identity(), nn.Linear(2, 3), nn.Sequential(nn.Linear(2, 3), nn.ReLU()), mlp([2, 4, 3])],
    ids=["identity", "linear", "sequential", "mlp"],
)
def test_node_wise_modules_see_features_only(module: nn.Module) -> None:
    """Broken: an MLP as f or g is handed a graph, or its result depends on one."""
    for graph in (None, discrete(), continuous(), discrete().edge_index):
        torch.testing.assert_close(on_graph(module, POINTS, graph), module(POINTS))


PYG: dict[str, Callable[[], nn.Module]] = {
    "SAGEConv": lambda: SAGEConv(2, 3),
    "GCNConv": lambda: GCNConv(2, 3),
    "GATConv": lambda: GATConv(2, 3, heads=2),
    "GINConv": lambda: GINConv(nn.Linear(2, 3)),
    "GraphConv": lambda: GraphConv(2, 3),
}


@pytest.mark.parametrize("name", PYG)
def test_pyg_convolutions_see_the_edge_list(name: str) -> None:
    """Broken: a PyG convolution cannot be dropped behind a graph module."""
    module = PYG[name]()
    edge_index = discrete().edge_index
    expected = module(POINTS, edge_index)
    torch.testing.assert_close(on_graph(module, POINTS, edge_index), expected)
    torch.testing.assert_close(on_graph(module, POINTS, discrete()), expected)
    assert not torch.allclose(on_graph(module, POINTS, discrete(NEIGHBORS.roll(1, 0))), expected)


@pytest.mark.parametrize("name", PYG)
def test_pyg_convolutions_refuse_a_continuous_graph(name: str) -> None:
    """Broken: a dense graph reaches a convolution as None and fails in its depths."""
    with pytest.raises(InputError, match=r"needs an edge list, but a continuous graph connects all pairs.*GCN, GAT"):
        on_graph(PYG[name](), POINTS, continuous())


@pytest.mark.parametrize("name", PYG)
def test_pyg_convolutions_refuse_a_missing_graph(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} works on a graph but none was given.*node-wise"):
        on_graph(PYG[name](), POINTS, None)


@pytest.mark.parametrize(
    "module", [GCN(2, 3), GAT(2, 3), EdgeConv(2, 3), RowNormalised(2, 3), gcn([2, 3]), gat([2, 3])]
)
def test_our_modules_see_any_graph(module: nn.Module) -> None:
    """Broken: our convolutions treat an edge list and the sampled graph it came from differently."""
    on_edges = on_graph(module, POINTS, discrete().edge_index)
    torch.testing.assert_close(on_graph(module, POINTS, discrete()), on_edges)
    on_weights = on_graph(module, POINTS, continuous())
    assert on_weights.shape == on_edges.shape == (4, 3)
    assert not torch.allclose(on_weights, on_edges)
    with pytest.raises(InputError, match="works on a graph but none was given"):
        on_graph(module, POINTS, None)


def test_a_stack_mixes_all_kinds() -> None:
    """Broken: a stack hands its steps something else than `on_graph` would."""
    steps = [nn.Linear(2, 3), GCN(3, 4), nn.ReLU(), SAGEConv(4, 2)]
    expected = POINTS
    for step in steps:
        expected = on_graph(step, expected, discrete())
    torch.testing.assert_close(on_graph(Stack(*steps), POINTS, discrete()), expected)
    with pytest.raises(InputError, match="SAGEConv needs an edge list"):
        on_graph(Stack(*steps), POINTS, continuous())


def test_a_module_whose_graph_is_optional_may_go_without() -> None:
    """Broken: a module with `edge_index=None` in its signature is refused although it can do without."""

    class Optional(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor | None = None) -> Tensor:
            return x if edge_index is None else x + len(edge_index[0])

    torch.testing.assert_close(on_graph(Optional(), POINTS, None), POINTS)
    torch.testing.assert_close(on_graph(Optional(), POINTS, discrete()), POINTS + 8)
