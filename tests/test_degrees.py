"""Nodes with different numbers of neighbours: their law, their likelihood, and all who use such a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from chances import p_value
from latentgraph import DGMNet, DiscreteDGM, InputError, LatentGraph, edge_frequencies, graph_loss
from latentgraph.attended import Attended, SkipDiffusion
from latentgraph.degrees import Degrees, GivenDegrees, RandomDegrees
from latentgraph.diffusion import GAT, GCN, EdgeConv, RowNormalised
from latentgraph.geometry import Euclidean
from latentgraph.gradients import Implicit, PlackettLuce, Softmax, StraightThrough, Subsets
from latentgraph.gradients.credit import credit
from latentgraph.graph import on_graph
from latentgraph.minibatch import ClosedBatches
from latentgraph.probability import plackett_luce
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, TrainState, fit
from latentgraph.watching import watch_edges

N, K = 8, 3
DEGREES = [3, 1, 0, 2, 3, 2, 0, 1]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(n: int = N, d: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)


def sampled(degrees: Degrees | None = None, *, loop: bool = False) -> Any:
    """A graph of N nodes whose embedding has gradients. Any, for all that is None in a continuous graph is there."""
    degrees = GivenDegrees(DEGREES) if degrees is None else degrees
    dgm = DiscreteDGM(nn.Identity(), K, temperature=1.0, loop=loop, degrees=degrees)
    return dgm(points().requires_grad_(), generator=seeded(1))


def draws(x: Tensor, k: int, degrees: Degrees, copies: int, *, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Neighbours and who is kept in many graphs of the same points: twice (copies, n, k)."""
    n = len(x)
    dgm = DiscreteDGM(nn.Identity(), k, temperature=temperature, degrees=degrees)
    graph = dgm(x.repeat(copies, 1), batch=torch.arange(copies).repeat_interleave(n), generator=seeded())
    first = n * torch.arange(copies)[:, None, None]
    return graph.neighbors.view(copies, n, k) - first, graph.kept.view(copies, n, k)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """For many copies of a tiny graph: large blocks would hold mostly pairs of different graphs."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", 1 << 12)


# Imposed degrees


def test_law_of_random_degrees(small_blocks: None) -> None:
    """Broken: a number of neighbours has another chance, or the number changes who is first."""
    chances = [0.1, 0.5, 0.0, 0.4]
    x = points(4)
    neighbors, kept = draws(x, 3, RandomDegrees(chances), 4000)
    weight = (-Euclidean().sq_cdist(x, x)).exp().fill_diagonal_(0.0)
    for i in range(4):
        law: dict[tuple[int, ...], float] = {(): chances[0]}
        for d in (1, 3):
            for order in permutations([j for j in range(4) if j != i], d):
                left, chance = weight[i].clone(), chances[d]
                for j in order:
                    chance *= float(left[j] / left.sum())
                    left[j] = 0.0
                law[order] = chance
        rows = zip(neighbors[:, i], kept[:, i], strict=True)
        found = Counter(tuple(row[there].tolist()) for row, there in rows)
        assert p_value(found, law) > 1e-3


def test_a_power_law_has_its_mean_and_its_form() -> None:
    law = RandomDegrees.power_law(mean=3.0, most=20)
    assert law.mean == pytest.approx(3.0)
    chance = law.chances.numpy()
    assert chance[0] == 0
    slopes = np.diff(np.log(chance[1:])) / np.diff(np.log(np.arange(1, 21)))
    assert slopes == pytest.approx(slopes[0])
    dgm = DiscreteDGM(nn.Identity(), 20, degrees=law).float()  # a network may be cast after it was made
    found = dgm(points(2000), generator=seeded()).degrees.double()
    assert float(found.mean()) == pytest.approx(3.0, abs=0.3)  # three standard errors
    assert int(found.max()) > 10


def test_a_given_graph_is_the_first_arrivals() -> None:
    """Broken: edges, their log p or an export has an edge that is not there, or lacks one."""
    graph, whole = sampled(), sampled(GivenDegrees([K] * N))
    assert graph.degrees.tolist() == DEGREES
    expected = [(int(graph.neighbors[i, r]), i) for i in range(N) for r in range(DEGREES[i])]
    assert list(map(tuple, graph.edge_index.T.tolist())) == expected
    x = graph.x_hat
    torch.testing.assert_close(graph.log_p, torch.stack([-(x[i] - x[j]).square().sum() for j, i in expected]))
    assert torch.equal(graph.neighbors, whole.neighbors)  # who arrives does not depend on who is kept
    assert graph.to_scipy().nnz == graph.to_networkx().number_of_edges() == len(expected)
    assert edge_frequencies([graph, whole]).sum() == (len(expected) + K * N) / 2
    assert graph.to_pyg().edge_index.shape[1] == len(expected)
    assert "k<=3" in repr(graph)
    table = graph.per_node(graph.log_p, missing=-9.0)
    assert (table[~graph.kept] == -9.0).all()
    torch.testing.assert_close(table[graph.kept], graph.log_p)


CONVOLUTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "GCN": GCN,
    "RowNormalised": RowNormalised,
    "GAT": partial(GAT, heads=2),
    "EdgeConv sum": partial(EdgeConv, aggr="sum"),
    "EdgeConv mean": partial(EdgeConv, aggr="mean"),
    "EdgeConv max": partial(EdgeConv, aggr="max"),
}


def convolution(name: str) -> nn.Module:
    torch.manual_seed(1)
    module = CONVOLUTIONS[name](4, 3).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_that_on_the_edge_list(name: str, loop: bool) -> None:
    """Broken: a degree counts edges that are not there, or such an edge is heard. With and without weights of 1."""
    module, graph, x = convolution(name), sampled(loop=loop), points(N, 4, seed=2).requires_grad_()
    plain = module(x, graph.edge_index)
    if isinstance(module, GCN):  # PyG's own, which knows nothing of us
        torch.testing.assert_close(plain, module.conv(x, graph.edge_index))
    weighted = StraightThrough().weigh(graph)
    assert weighted.weights is not None
    assert torch.equal(weighted.weights, graph.kept.double())
    wanted = torch.autograd.grad(plain.square().sum(), x)[0]
    for found in (graph, weighted):
        out = module(x, found)
        torch.testing.assert_close(out, plain)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), x)[0], wanted)


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_weights_have_gradients_where_there_are_edges(name: str, loop: bool) -> None:
    module, graph = convolution(name), sampled(loop=loop)
    x = points(N, 4, seed=2)
    weights = (torch.rand(N, K, generator=seeded(3), dtype=torch.float64) + 0.5) * graph.kept

    def out(of_edges: Tensor) -> Tensor:
        return module(x, replace(graph, weights=graph.per_node(of_edges)))

    assert torch.autograd.gradcheck(out, weights[graph.kept].requires_grad_())


def test_gcn_with_weights_by_the_dense_formula() -> None:
    module, graph = convolution("GCN"), sampled()
    assert isinstance(module, GCN)
    weights = torch.rand(N, K, generator=seeded(3), dtype=torch.float64) * graph.kept
    w = torch.zeros(N, N, dtype=torch.float64).scatter_add(1, graph.neighbors, weights)
    scale = (torch.tensor(DEGREES).double() + 1).rsqrt()
    x = points(N, 4, seed=2)
    expected = scale[:, None] * (w + torch.eye(N)) * scale @ module.conv.lin(x) + module.conv.bias
    torch.testing.assert_close(module(x, replace(graph, weights=weights)), expected)


def test_softmax_weights_of_unequal_degrees() -> None:
    """Broken: weights of a node do not sum to its number of neighbours, or a row without any is nan."""
    graph: Any = Softmax().weigh(sampled())
    torch.testing.assert_close(graph.weights.sum(1), torch.tensor(DEGREES).double())
    assert (graph.weights[~graph.kept] == 0).all()
    own = graph.log_p[:3]  # node 0 has three neighbours
    torch.testing.assert_close(graph.weights[0], 3 * own.softmax(0))
    (grad,) = torch.autograd.grad(GCN(2, 2).double()(points(), graph).square().sum(), graph.x_hat)
    assert grad.isfinite().all()
    assert grad.ne(0).any()
    torch.manual_seed(0)
    attended = Attended(2, 3).double()
    plain = SkipDiffusion(2, 3).double()
    plain.load_state_dict(attended.state_dict())
    torch.testing.assert_close(attended(points(), sampled()), plain(points(), graph))


def test_an_edge_list_convolution_gets_the_edges() -> None:
    graph, conv, x = sampled(), SAGEConv(2, 3).double(), points()
    torch.testing.assert_close(on_graph(conv, x, graph), conv(x, graph.edge_index))
    with pytest.raises(InputError, match="takes an edge list"):
        on_graph(conv, x, Softmax().weigh(graph))


# Likelihood, credit, watching


def test_likelihood_of_the_first_arrivals() -> None:
    """Broken: draws that were thrown away count, or are missing from the normaliser."""
    graph = sampled()
    found = plackett_luce(graph.x_hat, graph.neighbors, graph.temperature, Euclidean(), kept=graph.kept)
    for d in set(DEGREES):
        rows = torch.tensor(DEGREES) == d
        whole = plackett_luce(graph.x_hat, graph.neighbors[:, :d], graph.temperature, Euclidean()) if d else 0 * found
        torch.testing.assert_close(found[rows], whole[rows])
    delta = points(N, 1)[:, 0]
    torch.testing.assert_close(graph_loss(graph, delta, likelihood="plackett_luce"), (delta * found).sum())
    of_edges = delta.index_select(0, graph.edge_index[1]) * graph.log_p
    torch.testing.assert_close(graph_loss(graph, delta), of_edges.sum())
    assert PlackettLuce(hops=1).graph_loss([graph], delta).requires_grad


def test_credit_does_not_go_along_edges_that_are_not_there() -> None:
    neighbors = torch.tensor([[1, 2], [2, 0], [0, 1]])
    graph = LatentGraph(torch.zeros(3, 1), torch.tensor(1.0), Euclidean(), neighbors=neighbors, log_p=torch.zeros(6))
    kept = graph.keep(torch.tensor([[True, False], [False, False], [True, True]]))
    delta = torch.tensor([1.0, 10.0, 100.0])
    assert credit(kept, delta, 1).tolist() == [101.0, 111.0, 100.0]  # 0 -> 1; 2 -> 0 and 1


def test_watching_sees_the_edges() -> None:
    x = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    graph = DiscreteDGM(nn.Identity(), 2, temperature=50.0, degrees=GivenDegrees([1, 1, 1, 1]))(x)
    state = TrainState(nn.Identity(), 1, {}, [graph])
    watch_edges(NodeSet(x, torch.tensor([0, 0, 1, 1])))(state)
    assert state.values == {"homophily": 1.0}  # their second neighbours are of the other class


def test_a_network_learns_with_degrees() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    dgm = DiscreteDGM(nn.Linear(4, 2), 6, degrees=RandomDegrees.power_law(2.5, 6))
    net = DGMNet([(dgm, gcn([4, 8, 2]))])
    before = deepcopy(dgm.embed.state_dict())
    history = fit(net, NodeSet(x, (x[:, 0] > 0).long()), gradient=Softmax(), steps=5)
    assert np.isfinite(history.rows[-1]["loss"])
    assert not torch.equal(before["weight"], dgm.embed.state_dict()["weight"])
    assert "dgms.0.degrees.chances" in net.state_dict()


def test_a_guest_draws_the_same_in_any_company() -> None:
    """Broken: a prediction depends on who else is predicted, or guests change the residents."""
    dgm = DiscreteDGM(nn.Identity(), 4, temperature=1.0, degrees=RandomDegrees([1, 1, 1, 1, 1]))
    x = points(14)
    alone = dgm(x[:12], guests=2, keys=torch.tensor([5, 9]), generator=seeded(3))
    other = dgm(torch.cat([x[:10], x[12:], x[11:12]]), guests=3, keys=torch.tensor([1, 2, 9]), generator=seeded(3))
    assert torch.equal(alone.kept[:10], other.kept[:10])
    assert torch.equal(alone.kept[-1], other.kept[-1])
    assert torch.equal(alone.neighbors[-1], other.neighbors[-1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GivenDegrees([1, -1]), "0 or more"),
        (lambda: GivenDegrees(torch.ones(3)), "whole number"),
        (lambda: RandomDegrees([-1.0, 2.0]), "none of them negative"),
        (lambda: RandomDegrees([0.0]), "at least one positive"),
        (lambda: RandomDegrees.power_law(11.0, 20), "at most 10.5"),
        (lambda: sampled(GivenDegrees([1, 2])), "degrees for 2 nodes"),
        (lambda: sampled(RandomDegrees([1, 1, 1, 1, 1])), "Pass k=4"),
        (lambda: Subsets().weigh(sampled()), "different numbers of neighbours"),
        (lambda: Implicit().weigh(sampled()), "different numbers of neighbours"),
        (lambda: DiscreteDGM(nn.Identity(), degrees=RandomDegrees([1, 1]), fill=True), "choose one"),
        (
            lambda: ClosedBatches(
                DGMNet([(DiscreteDGM(nn.Identity(), 2, degrees=RandomDegrees([1, 1])), gcn([2, 2]))]),
                points().float(),
                torch.zeros(N, dtype=torch.long),
                seeds=2,
            ),
            "leave out degrees",
        ),
    ],
)
def test_what_makes_no_sense(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
