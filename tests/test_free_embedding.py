"""A graph to begin with: how much of it the first sampled graph has, and that it can then be learned."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from latentgraph import DGMNet, DiscreteDGM, InputError, PoincareBall, nearest
from latentgraph.degrees import GivenDegrees
from latentgraph.diffusion import GCN
from latentgraph.free_embedding import FreeEmbedding, spectral_embedding
from latentgraph.gradients import Softmax
from latentgraph.training import NodeSet, fit

GRAPHS: dict[str, tuple[Callable[[], nx.Graph], float]] = {
    "grid": (lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(8, 8)), 0.9),
    "tree": (lambda: nx.balanced_tree(2, 5), 0.65),
    "blocks": (lambda: nx.planted_partition_graph(4, 15, 0.6, 0.02, seed=0), 0.8),
    "two grids": (lambda: nx.disjoint_union(nx.grid_2d_graph(5, 5), nx.grid_2d_graph(5, 5)), 0.9),
}


def share_of_edges(graph: nx.Graph, x_hat: Tensor, k: int | None = None) -> float:
    """How many of the edges are to one of a node's nearest, as many as it has edges, or k."""
    near = nearest(x_hat, max(k or 0, max(d for _, d in graph.degree)))
    found = sum(graph.has_edge(i, int(j)) for i in graph for j in near[i, : k or graph.degree[i]])
    return found / (2 * graph.number_of_edges())


@pytest.mark.parametrize("name", GRAPHS)
def test_the_nearest_nodes_are_the_neighbours(name: str) -> None:
    """As many nearest as a node has edges: by chance it would be one edge in ten or less, of the blocks two."""
    make, least = GRAPHS[name]
    graph = make()
    assert share_of_edges(graph, spectral_embedding(graph, len(graph), 16)) > least


def test_five_nearest_have_all_edges_of_grid_and_tree() -> None:
    for name in ("grid", "tree"):
        graph = GRAPHS[name][0]()
        assert share_of_edges(graph, spectral_embedding(graph, len(graph), 16), k=5) > 0.98


def test_places_by_the_formula() -> None:
    """Squared distances in all dimensions are commute times, up to a factor: of a path, the number of steps."""
    x = spectral_embedding(nx.path_graph(7), 7, 6).double()
    square = (x[:, None] - x[None]).square().sum(-1)
    steps = (torch.arange(7)[:, None] - torch.arange(7)[None]).abs()
    torch.testing.assert_close(square / square[0, 1], steps.double(), rtol=1e-4, atol=1e-4)
    assert float(x.square().sum(1).mean()) == pytest.approx(1.0, abs=1e-5)


def test_searched_eigenvectors_are_the_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their distances: an eigenvector has no sign."""
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 9))  # no two eigenvalues alike
    dense = spectral_embedding(graph, 54, 5)
    monkeypatch.setattr("latentgraph.free_embedding.DENSE", 10)
    found = spectral_embedding(graph, 54, 5)
    torch.testing.assert_close(torch.cdist(found, found), torch.cdist(dense, dense), rtol=1e-3, atol=1e-3)


def test_directions_doubles_loops_and_lonely_nodes_change_nothing() -> None:
    one_way = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    both = torch.cat([one_way, one_way.flip(0), one_way, torch.tensor([[2], [2]])], 1)
    torch.testing.assert_close(spectral_embedding(one_way, 5, 3), spectral_embedding(both, 5, 3))
    lonely = spectral_embedding(one_way, 6, 3)
    assert lonely.isfinite().all()


def test_a_graph_to_begin_with_is_learned() -> None:
    """From a grid on; f, here the places themselves, gets gradients in its own space and by `fit`."""
    torch.manual_seed(0)
    graph = GRAPHS["grid"][0]()
    embed = FreeEmbedding.from_graph(graph, 64, 4)
    before = embed.weight.detach().clone()
    degrees = GivenDegrees([d for _, d in graph.degree])
    net = DGMNet([(DiscreteDGM(embed, 4, gradient=Softmax(), degrees=degrees), GCN(3, 2))])
    fit(net, NodeSet(torch.randn(64, 3), torch.arange(64) % 2), steps=5)
    assert (embed.weight != before).any(1).all()
    assert "dgms.0.embed.weight" in net.state_dict()
    ball = DiscreteDGM(FreeEmbedding(0.5 * before), 4, geometry=PoincareBall())(torch.randn(64, 3))
    assert ball.log_p is not None
    assert ball.log_p.requires_grad


def test_what_makes_no_sense() -> None:
    embed = FreeEmbedding(torch.zeros(5, 2))
    with pytest.raises(InputError, match="5 nodes, but 6 rows"):
        DiscreteDGM(embed, 2)(torch.zeros(6, 3))
    with pytest.raises(InputError, match="must be"):
        FreeEmbedding(torch.zeros(5))
    with pytest.raises(InputError, match="no edges"):
        spectral_embedding(np.zeros((2, 0), dtype=int), 5, 2)
    with pytest.raises(InputError, match="between 1 and 4"):
        spectral_embedding(nx.path_graph(5), 5, 5)
    with pytest.raises(InputError, match="rows 0 to 3"):
        FreeEmbedding.from_graph(nx.path_graph(5), 4, 2)
