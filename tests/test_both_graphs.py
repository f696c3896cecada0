"""Convolutions on the learned and the given graph: their union, and a mixture with a learned share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from latentgraph import ContinuousDGM, DGMNet, DiscreteDGM, InputError, MovingAverageBaseline, consensus
from latentgraph.both_graphs import Mixture, Union, union
from latentgraph.diffusion import GAT, GCN, EdgeConv
from latentgraph.gradients import Softmax
from latentgraph.loss import log_probability_reward
from latentgraph.stacks import Builder, Stack, edge_conv, gat, gcn
from latentgraph.training import NodeSet, classification, fit

N = 12
RING = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features() -> Tensor:
    return torch.randn(N, 4, generator=seeded())


def net_with(diffusion: nn.Module, dgm: nn.Module | None = None) -> Any:
    """A network of one layer; Any, for its modules have attributes of their own."""
    return DGMNet([(dgm or DiscreteDGM(nn.Linear(4, 2), k=3), diffusion)])


def test_union_has_each_edge_once() -> None:
    """Broken: an edge of both graphs counts twice, or one is lost."""
    first = torch.randint(N, (2, 40), generator=seeded())
    second = torch.cat([first[:, :10], torch.randint(N, (2, 20), generator=seeded(1))], 1)
    found = list(map(tuple, union(first, second, N).T.tolist()))
    assert len(set(found)) == len(found)
    assert set(found) == {*map(tuple, first.T.tolist()), *map(tuple, second.T.tolist())}


@pytest.mark.parametrize("builder", [gcn, gat, edge_conv])
def test_union_is_the_convolution_on_all_edges(builder: Builder) -> None:
    torch.manual_seed(0)
    net, x = net_with(Union(builder([4, 8, 2]))), features()
    out, (graph,) = net(x, RING, generator=seeded())
    assert graph.edge_index is not None
    convolution = net.diffusions[0].convolution
    torch.testing.assert_close(out, convolution(x, union(graph.edge_index, RING, N)))
    assert not torch.allclose(out, convolution(x, graph.edge_index))


@pytest.mark.parametrize("make", [GCN, GAT, EdgeConv, SAGEConv])
def test_mixture_is_what_it_says(make: Callable[[int, int], nn.Module]) -> None:
    torch.manual_seed(0)
    net, x = net_with(Mixture(make(4, 2), share=0.3)), features()
    out, (graph,) = net(x, RING, generator=seeded())
    assert graph.edge_index is not None
    convolution = net.diffusions[0].learned
    expected = 0.3 * convolution(x, graph.edge_index) + 0.7 * convolution(x, RING)
    torch.testing.assert_close(out, expected)


def test_a_mixture_of_graph_convolutions_is_one_on_the_mixed_adjacency() -> None:
    torch.manual_seed(0)
    net, x = net_with(Mixture(GCN(4, 2), share=0.3)), features()
    out, (graph,) = net(x, RING, generator=seeded())

    def normalised(edges: Tensor) -> Tensor:
        a = torch.zeros(N, N).index_put((edges[1], edges[0]), torch.tensor(1.0)) + torch.eye(N)
        scale = a.sum(1).rsqrt()
        return scale[:, None] * a * scale

    assert graph.edge_index is not None
    conv = net.diffusions[0].learned.conv
    mixed = 0.3 * normalised(graph.edge_index) + 0.7 * normalised(RING)
    torch.testing.assert_close(out, mixed @ conv.lin(x) + conv.bias)


def test_gradient_of_the_share() -> None:
    torch.manual_seed(0)
    net, x = net_with(Mixture(GCN(4, 2))).double(), features().double()
    mixture = net.diffusions[0]
    assert isinstance(mixture, Mixture)

    def out(logit: Tensor) -> Tensor:
        changed = {"diffusions.0.logit": logit}
        found: Tensor = torch.func.functional_call(net, changed, (x, RING), {"generator": seeded()})[0]
        return found

    assert torch.autograd.gradcheck(out, mixture.logit.detach().double().requires_grad_())


def test_the_share_finds_the_graph_that_helps() -> None:
    """The target is a function of the ring's neighbours; the learned graph, by a fixed f, is of no use."""
    torch.manual_seed(0)
    n = 60
    x = torch.randn(n, 4)
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    y = (x.roll(1, 0)[:, 0] > 0).long()
    net = net_with(Stack(Mixture(GCN(4, 8)), nn.ReLU(), nn.Linear(8, 2)))
    nodes = NodeSet(x, y, edge_index=ring)
    fit(net, nodes, gradient=Softmax(), steps=60, lr=0.05)
    share = net.diffusions[0].steps[0].share
    assert share.item() < 0.4
    other = net_with(Stack(Mixture(GCN(4, 8)), nn.ReLU(), nn.Linear(8, 2)))
    other.load_state_dict(net.state_dict())
    other.dgms[0].gradient = net.dgms[0].gradient
    first, second = (consensus(each, x, ring, samples=2, generator=seeded())[0] for each in (net, other))
    assert torch.equal(first, second)


def test_a_union_learns_by_rewards() -> None:
    torch.manual_seed(0)
    net, x = net_with(Union(gcn([4, 8, 2]))), features()
    before = net.dgms[0].embed.weight.clone()
    nodes = NodeSet(x, (x[:, 0] > 0).long(), edge_index=RING)
    fit(net, nodes, task=classification(log_probability_reward), baseline=MovingAverageBaseline(N), steps=5)
    assert not torch.equal(before, net.dgms[0].embed.weight)


def test_guests_without_given_edges_see_the_learned_ones() -> None:
    torch.manual_seed(0)
    net, x = net_with(Mixture(GCN(4, 2))), features()
    out, _ = net(torch.cat([x, x[:2]]), RING, guests=2, generator=seeded())
    residents, _ = net(x, RING, generator=seeded())
    torch.testing.assert_close(out[:N], residents)


def test_both_graphs_in_every_layer_and_of_a_continuous_graph() -> None:
    """The second module gets the learned graph of the first, but the second convolution still sees the input graph."""
    torch.manual_seed(0)
    second = DiscreteDGM(nn.Linear(5 + 2, 2), k=2)
    net = DGMNet([(DiscreteDGM(nn.Linear(4, 2), k=3), Mixture(GCN(4, 5))), (second, Mixture(GCN(5, 2)))])
    out, graphs = net(features(), RING, generator=seeded())
    assert out.shape == (N, 2)
    assert all(graph.given is RING for graph in graphs)
    weighted, _ = net_with(Mixture(GCN(4, 2)), ContinuousDGM(nn.Linear(4, 2)))(features(), RING)
    assert weighted.isfinite().all()


def test_a_given_graph_alone() -> None:
    """Without a graph module, or called with an edge list, both graphs are the given one."""
    conv, x = GCN(4, 2), features()
    for module in (Mixture(conv), Union(conv)):
        torch.testing.assert_close(DGMNet([(None, module)])(x, RING)[0], conv(x, RING))


def test_what_makes_no_sense() -> None:
    x = features()
    with pytest.raises(InputError, match="between 0 and 1"):
        Mixture(GCN(4, 2), share=1.0)
    with pytest.raises(InputError, match="there is no input graph"):
        net_with(Mixture(GCN(4, 2)))(x)
    with pytest.raises(InputError, match="have weights"):
        net_with(Union(GCN(4, 2)), DiscreteDGM(nn.Linear(4, 2), k=3, gradient=Softmax()))(x, RING)
    with pytest.raises(InputError, match="joins all pairs"):
        net_with(Union(GCN(4, 2)), ContinuousDGM(nn.Linear(4, 2)))(x, RING)
