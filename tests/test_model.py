"""DGMNet (Algorithm 1) and the consensus of several sampled graphs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import EdgeConv as PyGEdgeConv
from torch_geometric.nn import SAGEConv

from latentgraph.diffusion import GCN
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.loss import graph_loss
from latentgraph.model import DGMNet, Layer, consensus
from latentgraph.presets import dgcnn
from latentgraph.stacks import edge_conv, gcn, mlp

N, D = 24, 5


@pytest.fixture(autouse=True)
def fixed_weights() -> Iterator[None]:
    """New modules start from the same weights in every run, in whatever order tests run."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def features(n: int = N, d: int = D, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ring(n: int = N) -> Tensor:
    source = torch.arange(n)
    return torch.stack([source, (source + 1) % n])


class Call(NamedTuple):
    x: Tensor
    graph: Tensor | LatentGraph | None
    out: Tensor


class Spy(nn.Module):
    """A linear layer that asks for a graph and remembers what it was called with."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.linear = nn.Linear(a, b)
        self.calls: list[Call] = []

    def forward(self, x: Tensor, graph: Tensor | LatentGraph | None = None) -> Tensor:
        self.calls.append(Call(x, graph, self.linear(x)))
        return self.calls[-1].out


class Spies(NamedTuple):
    net: DGMNet
    pre: Spy
    f: list[Spy]
    g: list[Spy]
    head: Spy


def spied_net(*, stack: bool = True, detach: bool = False, jump: bool = False) -> Spies:
    """pre 5 -> 6; three layers with embeddings of width 2, 3, 4 and features of width 7, 8, 9; head to 3."""
    x_hat, x = [2, 3, 4], [6, 7, 8, 9]
    seen = [6, 7 + 2, 8 + 3] if stack else [6, 7, 8]
    f = [Spy(a, b) for a, b in zip(seen, x_hat, strict=True)]
    g = [Spy(a, b) for a, b in pairwise(x)]
    pre, head = Spy(D, 6), Spy(7 + 8 + 9 if jump else 9, 3)
    dgms = [DiscreteDGM(f[0], k=2), ContinuousDGM(f[1]), DiscreteDGM(f[2], k=3)]
    net = DGMNet(list(zip(dgms, g, strict=True)), head, pre=pre, stack=stack, detach=detach, jump=jump)
    return Spies(net, pre, f, g, head)


# Algorithm 1


@pytest.mark.parametrize("edge_index", [None, ring()], ids=["no-graph", "input-graph"])
def test_algorithm_1_step_by_step(edge_index: Tensor | None) -> None:
    """Broken: some f or g sees other features, or another graph, than Algorithm 1 says."""
    net, pre, f, g, head = spied_net()
    x = features()
    out, graphs = net(x, edge_index, generator=seeded())
    assert len(graphs) == 3
    assert [graph.is_continuous for graph in graphs] == [False, True, False]
    assert all(len(s.calls) == 1 for s in (pre, head, *f, *g))
    f_calls, g_calls = [s.calls[0] for s in f], [s.calls[0] for s in g]
    x_hats = [graph.x_hat for graph in graphs]

    assert torch.equal(pre.calls[0].x, x)
    x_0 = pre.calls[0].out
    # X_hat(1) = f(X(0), A(0)), X(1) = g(A(1), X(0))
    assert torch.equal(f_calls[0].x, x_0)
    assert f_calls[0].graph is edge_index
    assert g_calls[0].graph is graphs[0]
    assert torch.equal(g_calls[0].x, x_0)
    # X_hat(2) = f([X(1) | X_hat(1)], A(1)), X(2) = g(A(2), X(1))
    assert torch.equal(f_calls[1].x, torch.cat([g_calls[0].out, x_hats[0]], dim=1))
    assert f_calls[1].graph is graphs[0]
    assert g_calls[1].graph is graphs[1]
    assert torch.equal(g_calls[1].x, g_calls[0].out)
    # X_hat(3) = f([X(2) | X_hat(2)], A(2)), X(3) = g(A(3), X(2))
    assert torch.equal(f_calls[2].x, torch.cat([g_calls[1].out, x_hats[1]], dim=1))
    assert f_calls[2].graph is graphs[1]
    assert g_calls[2].graph is graphs[2]
    assert torch.equal(g_calls[2].x, g_calls[1].out)

    assert [graph.x_hat.shape[1] for graph in graphs] == [2, 3, 4]
    assert torch.equal(head.calls[0].x, g_calls[2].out)
    assert torch.equal(out, head.calls[0].out)


def test_without_stacking_f_sees_the_features_alone() -> None:
    """Broken: stack=False, which DGCNN needs."""
    net, _, f, g, _ = spied_net(stack=False)
    net(features(), generator=seeded())
    for layer in (1, 2):
        assert torch.equal(f[layer].calls[0].x, g[layer - 1].calls[0].out)


def test_jump_shows_the_head_all_layers() -> None:
    """Broken: the head of a jumping network misses a layer."""
    net, _, _, g, head = spied_net(jump=True)
    net(features(), generator=seeded())
    assert torch.equal(head.calls[0].x, torch.cat([s.calls[0].out for s in g], dim=1))


@pytest.mark.parametrize("detach", [False, True])
def test_detach_keeps_the_graph_loss_out_of_the_features(detach: bool) -> None:
    """Broken: with detach the graph loss must train f alone; without, everything before it."""
    net, pre, f, g, head = spied_net(detach=detach)
    _, graphs = net(features(), generator=seeded())
    graph_loss(graphs, torch.ones(N)).backward()
    reached = {name: s.linear.weight.grad is not None for name, s in [("pre", pre), ("g", g[0]), ("f", f[0])]}
    assert reached == {"pre": not detach, "g": not detach, "f": True}
    assert f[2].linear.weight.grad is not None
    assert head.linear.weight.grad is None


def test_detach_keeps_the_task_out_of_a_discrete_f_and_in_the_features() -> None:
    """Broken: detach cuts the task's own gradient. A sampled graph passes none to f."""
    pre, f, g = nn.Linear(D, 6), nn.Linear(6, 2), nn.Linear(6, 4)
    net = DGMNet([(DiscreteDGM(f, k=2), g)], pre=pre, detach=True)
    out, _ = net(features(), generator=seeded())
    out.sum().backward()
    assert pre.weight.grad is not None
    assert g.weight.grad is not None
    assert f.weight.grad is None


def test_a_continuous_graph_passes_the_tasks_gradient_to_f() -> None:
    """Broken: a continuous module is trained by nothing at all."""
    dgm = ContinuousDGM(nn.Linear(D, 2))
    net = DGMNet([(dgm, GCN(D, 3))])
    net(features())[0].square().sum().backward()
    for name, parameter in dgm.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()) or name == "embed.bias", name  # distances do not see a shift


def test_no_graph_module_is_the_plain_network_on_the_input_graph() -> None:
    """Broken: the baseline without graph learning is not a plain graph network."""
    pre, one, two, head = nn.Linear(D, 6), GCN(6, 7), SAGEConv(7, 4), nn.Linear(4, 2)
    net = DGMNet([(None, one), (None, two)], head, pre=pre)
    x, edge_index = features(), ring()
    out, graphs = net(x, edge_index)
    assert graphs == []
    assert not net.is_stochastic
    torch.testing.assert_close(out, head(two(one.conv(pre(x), edge_index), edge_index)))
    with pytest.raises(InputError, match="GCN works on a graph but none was given"):
        net(x)


def test_a_layer_without_module_uses_the_last_learned_graph() -> None:
    """Broken: after a learned graph, dgm=None falls back to the input graph, and the next f with it."""
    f, g = [Spy(D, 2), Spy(D + 2, 2)], [Spy(D, D) for _ in range(4)]
    layers = [(None, g[0]), (DiscreteDGM(f[0], k=2), g[1]), (None, g[2]), (DiscreteDGM(f[1], k=2), g[3])]
    edge_index = ring()
    _, graphs = DGMNet(layers)(features(), edge_index, generator=seeded())
    assert [s.calls[0].graph for s in g] == [edge_index, graphs[0], graphs[0], graphs[1]]
    assert [s.calls[0].graph for s in f] == [edge_index, graphs[0]]
    assert torch.equal(f[1].calls[0].x, torch.cat([g[2].calls[0].out, graphs[0].x_hat], dim=1))


def test_batch_and_generator_reach_every_module() -> None:
    """Broken: graphs of a batch mix in a later layer, or a later layer samples from hidden state."""
    batch = torch.tensor([0] * 10 + [1] * 14)
    net = DGMNet(
        [
            (DiscreteDGM(mlp([D, 3]), k=4), gcn([D, 6])),
            (ContinuousDGM(gcn([9, 2])), gcn([6, 6])),
            (DiscreteDGM(gcn([8, 2]), k=4), edge_conv([6, 2])),
        ]
    )
    before = torch.get_rng_state()
    out, graphs = net(features(), batch=batch, generator=seeded(1))
    again, _ = net(features(), batch=batch, generator=seeded(1))
    other, _ = net(features(), batch=batch, generator=seeded(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(out, again)
    assert not torch.equal(out, other)
    for graph in graphs:
        if graph.neighbors is not None:
            assert torch.equal(batch[graph.neighbors], batch[:, None].expand(N, 4))
        else:
            assert graph.adj is not None
            assert bool((graph.adj[batch[:, None] != batch] == 0).all())


def test_layers_may_be_named() -> None:
    net = DGMNet([Layer(dgm=DiscreteDGM(nn.Identity(), k=2), diffusion=nn.Linear(D, 3))])
    assert net(features(), generator=seeded())[0].shape == (N, 3)


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(InputError, match="no layers"):
        DGMNet([])


def test_the_net_saves_and_loads() -> None:
    """Broken: something that decides the output (calibration, weights) is not in the state."""
    net, loaded = spied_net().net, spied_net().net
    net(features(), generator=seeded())
    loaded.load_state_dict(net.state_dict())
    x = 10 * features(seed=3)
    assert torch.equal(net(x, generator=seeded(4))[0], loaded(x, generator=seeded(4))[0])


# Special cases


def test_dgcnn_is_nearest_neighbours_and_edge_convolutions() -> None:
    """Broken: the special case of the paper: f = id, kNN of the current features, EdgeConv with maximum."""
    net = dgcnn(D, 3, widths=(7, 6), k=4)
    x = features()
    h = x
    for layer in range(2):
        sq_dist = (h[:, None] - h[None]).square().sum(-1)
        sq_dist.fill_diagonal_(torch.inf)
        neighbors = sq_dist.topk(4, largest=False).indices
        edge_index = torch.stack([neighbors.flatten(), torch.arange(N).repeat_interleave(4)])
        message = net.diffusions[layer].message
        h = PyGEdgeConv(message, aggr="max")(h, edge_index).detach()
    out, graphs = net(x)
    torch.testing.assert_close(out.detach(), net.head(h).detach())
    assert len(graphs) == 2
    assert not net.is_stochastic
    assert not any(parameter.requires_grad for dgm in net.dgms for parameter in dgm.parameters())
    out.sum().backward()


def test_is_stochastic() -> None:
    """Broken: a deterministic network is evaluated eight times, or a sampled one once."""
    g = nn.Linear(D, 2)
    assert DGMNet([(DiscreteDGM(nn.Identity(), k=2), g)]).is_stochastic
    assert not DGMNet([(DiscreteDGM(nn.Identity(), k=2, noise=False), g)]).is_stochastic
    assert not DGMNet([(ContinuousDGM(nn.Identity()), g)]).is_stochastic
    assert DGMNet([(ContinuousDGM(nn.Identity()), g), (DiscreteDGM(nn.Identity(), k=2), g)]).is_stochastic


# Consensus


def small_net(*, continuous: bool = False, dropout: float = 0.0) -> DGMNet:
    dgm: nn.Module = (
        ContinuousDGM(nn.Linear(D, 2)) if continuous else DiscreteDGM(nn.Linear(D, 2), k=3, temperature=0.3)
    )
    return DGMNet([(dgm, gcn([D, 6], dropout=dropout))], head=nn.Linear(6, 3))


@pytest.mark.parametrize("samples", [1, 2, 8, 13])
def test_consensus_is_the_mean_of_the_probabilities(samples: int) -> None:
    """Broken: the mean of the scores, or of fewer graphs than asked for, or always of the same graph."""
    net, x = small_net().eval(), features()
    generator, total = seeded(5), torch.zeros(N, 3)
    neighbors = []
    for _ in range(samples):
        out, graphs = net(x, generator=generator)
        total += out.detach().softmax(1)
        assert graphs[0].neighbors is not None
        neighbors.append(graphs[0].neighbors)
    mean, sampled = consensus(net, x, samples=samples, generator=seeded(5))
    torch.testing.assert_close(mean, total / samples)
    torch.testing.assert_close(mean.sum(1), torch.ones(N))
    assert len(sampled) == samples
    for graphs, expected in zip(sampled, neighbors, strict=True):
        assert graphs[0].neighbors is not None
        assert torch.equal(graphs[0].neighbors, expected)
    assert samples == 1 or not torch.equal(neighbors[0], neighbors[1])


def test_consensus_takes_the_papers_eight() -> None:
    assert len(consensus(small_net(), features(), generator=seeded())[1]) == 8


def test_consensus_with_another_link() -> None:
    """Broken: regression averages a softmax."""
    net, x, generator = small_net().eval(), features(), seeded(5)
    expected = torch.stack([net(x, generator=generator)[0].detach() for _ in range(3)]).mean(0)
    mean, _ = consensus(net, x, samples=3, link=nn.Identity(), generator=seeded(5))
    torch.testing.assert_close(mean, expected)


def test_consensus_hands_on_graph_and_batch() -> None:
    """Broken: inference sees another graph than training."""
    net, x = DGMNet([(DiscreteDGM(gcn([D, 2]), k=3, temperature=0.3), gcn([D, 3]))]), features()
    batch = torch.tensor([0] * 10 + [1] * 14)
    mean, graphs = consensus(net, x, ring(), batch, samples=1, generator=seeded(2))
    expected, _ = net.eval()(x, ring(), batch, generator=seeded(2))
    torch.testing.assert_close(mean, expected.detach().softmax(1))
    assert graphs[0][0].batch is batch


def test_consensus_calls_a_deterministic_network_once() -> None:
    """Broken: eight times the work for the same answer."""
    net, x = small_net(continuous=True), features()
    mean, graphs = consensus(net, x, samples=8)
    assert len(graphs) == 1
    torch.testing.assert_close(mean, net(x)[0].detach().softmax(1))


@pytest.mark.parametrize("training", [True, False])
def test_consensus_evaluates_and_restores_every_mode(training: bool) -> None:
    """Broken: dropout is on in the prediction, or a validation pass switches it off, or on in a frozen part."""
    net, x = small_net(dropout=0.5), features()
    net.train(training)
    net.head.eval()  # a part that the user has frozen
    first, _ = consensus(net, x, samples=2, generator=seeded(1))
    second, _ = consensus(net, x, samples=2, generator=seeded(1))
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert net.training is training
    assert not net.head.training
    assert all(m.training is training for m in net.diffusions.modules())


def test_consensus_restores_the_mode_after_an_error() -> None:
    """Broken: after a failed prediction the network trains without dropout."""
    net = small_net().train()
    with pytest.raises(InputError):
        consensus(net, features(n=3))
    assert all(m.training for m in net.modules())


@pytest.mark.parametrize("samples", [0, -1])
def test_consensus_needs_a_sample(samples: int) -> None:
    with pytest.raises(InputError, match=rf"samples={samples} but a consensus needs at least one"):
        consensus(small_net(), features(), samples=samples)


def test_consensus_of_any_module_that_is_called_like_one() -> None:
    """Broken: a user's own network, which does not say whether it is stochastic, is called once only."""

    class Own(nn.Module):
        def forward(
            self, x: Tensor, edge_index: Tensor | None, batch: Tensor | None, *, generator: torch.Generator | None
        ) -> tuple[Tensor, list[LatentGraph]]:
            return x, []

    mean, graphs = consensus(Own(), features(), samples=4)
    assert len(graphs) == 4
    torch.testing.assert_close(mean, features().softmax(1))
