"""Whole graphs: pooling, sets of graphs, graphs too small for k neighbours, and training with one target each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import latentgraph as lg
from latentgraph.errors import InputError
from latentgraph.gradients import Both, Gradient, PlackettLuce, Reinforce, Softmax
from latentgraph.graph_sets import GraphSet, graph_batches, join
from latentgraph.loss import graph_loss
from latentgraph.pooling import PooledNet, pool
from latentgraph.probability import plackett_luce
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.training import Batches, evaluate, fit

SIZES = [3, 1, 9, 2, 6]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch_of(sizes: list[int]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def graphs_of(sizes: list[int] = SIZES, *, seed: int = 0) -> GraphSet:
    """Graphs that are rings (both directions), random features, classes 0, 1, 0, 1, ..."""
    parts = []
    for number, size in enumerate(sizes):
        ring = torch.arange(size)
        links = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
        parts.append((torch.randn(size, 4, generator=seeded(100 * seed + number)), links))
    return join(parts, torch.arange(len(sizes)) % 2)


def make_net(*, k: int = 3, noise: bool = True, how: str = "mean", f: nn.Module | None = None) -> PooledNet:
    torch.manual_seed(0)
    dgm = lg.DiscreteDGM(f or gcn([4, 2]), k, temperature=1.0, noise=noise, fill=True)
    return PooledNet(lg.DGMNet([(dgm, gcn([4, 5]))]), nn.Linear(5, 2), how=how)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["mean", "sum", "max"])
def test_pooling_by_hand(how: str) -> None:
    """Graph ids need not be 0, 1, ...; negative values have a maximum, too."""
    x = torch.tensor([[1.0, -2.0], [3.0, -4.0], [7.0, -8.0]], dtype=torch.float64, requires_grad=True)
    first = {"mean": [2.0, -3.0], "sum": [4.0, -6.0], "max": [3.0, -2.0]}
    batch = torch.tensor([2, 2, 5])
    assert pool(x, batch, how).tolist() == [first[how], [7.0, -8.0]]  # type: ignore[arg-type]
    assert torch.equal(pool(x, None, how), pool(x, torch.zeros(3, dtype=torch.long), how))  # type: ignore[arg-type]
    assert torch.autograd.gradcheck(lambda x: pool(x, batch, how), x)  # type: ignore[arg-type]


def test_pooling_of_unknown_kind() -> None:
    with pytest.raises(InputError, match="'mean', 'sum' or 'max'"):
        pool(torch.zeros(2, 1), None, "median")  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_small_graphs_take_everybody_and_themselves(k: int, noise: bool) -> None:
    """Each node has k places: different others of its own graph first, and itself only where there are no more."""
    batch = batch_of(SIZES)
    x = torch.randn(len(batch), 3, generator=seeded())
    graph = lg.DiscreteDGM(nn.Identity(), k, noise=noise, fill=True)(x, batch=batch, generator=seeded(1))
    assert graph.neighbors is not None
    for node, places in enumerate(graph.neighbors.tolist()):
        size = SIZES[int(batch[node])]
        others = [other for other in places if other != node]
        assert len(others) == len(set(others)) == min(k, size - 1)
        assert all(batch[other] == batch[node] for other in others)
    assert graph.log_p is not None
    assert (graph.log_p[~graph.not_filled] == 0).all()
    assert graph.to_scipy().diagonal().sum() == 0  # exports have the real edges only
    assert lg.edge_frequencies([graph]).max() <= 1


def test_large_graphs_of_a_mixed_batch_are_sampled_by_the_law() -> None:
    """The first of two neighbours has the enumerated law, whatever small graphs stand before and behind."""
    points = torch.randn(4, 2, generator=seeded(3))
    batch = batch_of([2, 4, 1])
    x = torch.cat([torch.zeros(2, 2), points, torch.zeros(1, 2)])
    dgm = lg.DiscreteDGM(nn.Identity(), 2, temperature=0.7, fill=True)
    p = (-0.7 * torch.cdist(points[:1], points[1:])[0].square()).exp()
    first = p / p.sum()
    count = torch.zeros(3)
    generator = seeded(4)
    runs = 600
    for _ in range(runs):
        neighbors = dgm(x, batch=batch, generator=generator).neighbors
        count[neighbors[2, 0] - 3] += 1
    expected = first * runs
    chi_square = float(((count - expected).square() / expected).sum())
    assert chi_square < 13.8  # 99.9 % of the law with two degrees of freedom


def test_without_fill_small_graphs_are_an_error() -> None:
    batch = batch_of(SIZES)
    with pytest.raises(InputError, match="fill=True"):
        lg.DiscreteDGM(nn.Identity(), 3)(torch.randn(len(batch), 2), batch=batch)
    with pytest.raises(InputError, match="choose one"):
        lg.DiscreteDGM(nn.Identity(), 3, fill=True, loop=True)


def test_likelihood_of_what_was_not_drawn_is_zero() -> None:
    """Nodes of small graphs had no choice; those of large graphs have the likelihood that they have alone."""
    batch = batch_of([2, 7])
    x = torch.randn(9, 2, generator=seeded(), dtype=torch.float64, requires_grad=True)
    graph = lg.DiscreteDGM(nn.Identity(), 3, fill=True)(x, batch=batch, generator=seeded())
    assert graph.neighbors is not None
    found = plackett_luce(x, graph.neighbors, graph.temperature, graph.geometry, batch=batch)
    alone = plackett_luce(x[2:], graph.neighbors[2:] - 2, graph.temperature, graph.geometry)
    torch.testing.assert_close(found[2:], alone)
    assert found[:2].tolist() == [0.0, 0.0]
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert slope.isfinite().all()
    assert (slope[:2] == 0).all()


def test_calibration_looks_at_the_largest_graph() -> None:
    """A first graph of two nodes tells nothing about how far apart nodes are."""
    cloud = torch.randn(60, 3, generator=seeded())
    alone, behind = (lg.DiscreteDGM(nn.Identity(), 3, fill=True) for _ in range(2))
    alone(cloud, generator=seeded())
    behind(torch.cat([torch.zeros(2, 3), cloud]), batch=batch_of([2, 60]), generator=seeded())
    assert float(alone.temperature.detach()) == pytest.approx(float(behind.temperature.detach()))


@pytest.mark.parametrize("how", ["mean", "sum", "max"])
def test_a_batch_is_as_one_graph_at_a_time(how: str) -> None:
    """Without noise; f sees the given graph, and BatchNorm its running statistics."""
    net = make_net(noise=False, how=how, f=Stack(gcn([4, 2]), nn.BatchNorm1d(2))).eval()
    graphs = graphs_of()
    together, _ = net(graphs.x, graphs.edge_index, graphs.batch)
    assert together.shape == (len(SIZES), 2)
    for number in range(len(SIZES)):
        one = graphs.select(torch.tensor([number]))
        alone, _ = net(one.x, one.edge_index, one.batch)
        torch.testing.assert_close(alone[0], together[number])


def test_sampled_graphs_stay_inside_graphs() -> None:
    graphs = graphs_of()
    _, (graph,) = make_net()(graphs.x, graphs.edge_index, graphs.batch, generator=seeded())
    source, target = graph.edge_index
    assert torch.equal(graphs.graph_of_node[source], graphs.graph_of_node[target])


def test_every_node_is_credited_with_its_graph() -> None:
    """Two of three graphs have a target; the nodes of the third get nothing."""
    graphs = GraphSet(torch.zeros(6, 1), torch.tensor([1, -1, 0]), batch=batch_of([1, 2, 3]))
    assert graphs.rows.tolist() == [0, 2]
    assert graphs.credit(torch.tensor([0.5, -2.0]), graphs.rows).tolist() == [0.5, 0.0, 0.0, -2.0, -2.0, -2.0]


class Fixed(nn.Module):
    """Answers that do not depend on the graphs, and two given graphs: for a step that can be computed by hand."""

    def __init__(self, x_hat: Tensor, batch: Tensor, answers: list[list[list[float]]]) -> None:
        super().__init__()
        self.x_hat = nn.Parameter(x_hat)
        self.batch, self.answers, self.calls = batch, answers, 0

    def forward(
        self, x: Tensor, edge_index: None, batch: Tensor, *, generator: torch.Generator
    ) -> tuple[Tensor, list[lg.LatentGraph]]:
        dgm = lg.DiscreteDGM(nn.Identity(), 1, temperature=1.0, noise=True, fill=True)
        dgm.log_temperature.requires_grad_(False)
        graph = dgm(self.x_hat, batch=batch, generator=generator)
        out = torch.tensor(self.answers[self.calls % len(self.answers)])
        self.calls += 1
        return out, [graph]


def test_a_step_by_hand() -> None:
    """Two samples, two graphs of two nodes: the first graph is right in one sample only, the second always.

    Rewards (1, 1) and (0, 1): deltas (-1, 0) and (1, 0). Nodes of a pair have one candidate, so both samples have the
    same edges and log p = -dist^2: the graph loss is (-1 + 1) / 2 = 0 with slope 0. With the moving average, which
    expects 1 of the first graph from the first sample on, delta is 0 and then 1: the graph loss is the mean of
    0 and 1 * (log p_01 + log p_10) / 2 graphs.
    """
    x_hat = torch.tensor([[0.0], [0.5], [0.0], [3.0]])
    batch = batch_of([2, 2])
    answers = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]
    nodes = GraphSet(torch.zeros(4, 1), torch.tensor([1, 0]), batch=batch)
    net = Fixed(x_hat, batch, answers)
    by_samples = fit(net, nodes, baseline=lg.SampleMeanBaseline(), steps=1, samples=2, lr=0.0)
    assert by_samples.rows[0]["graph_loss"] == pytest.approx(0.0, abs=1e-6)
    assert by_samples.rows[0]["reward"] == pytest.approx(0.75)
    baseline = lg.MovingAverageBaseline(2)
    by_average = fit(Fixed(x_hat, batch, answers), nodes, baseline=baseline, steps=1, samples=2, lr=0.0)
    assert by_average.rows[0]["graph_loss"] == pytest.approx(0.5 * (1.0 * (-0.25 - 0.25) / 2))
    assert baseline.average.tolist() == pytest.approx([0.9, 1.0])
    cross_entropy = math.log(1 + math.exp(-1))
    assert by_average.rows[0]["loss"] == pytest.approx((3 * cross_entropy + (1 + cross_entropy)) / 4)


def test_graph_loss_sums_over_the_nodes_of_a_graph() -> None:
    graphs = graphs_of([5, 8])
    _, (graph,) = make_net()(graphs.x, graphs.edge_index, graphs.batch, generator=seeded())
    delta = torch.tensor([2.0, -1.0])
    log_p = graph.log_p.view(13, 3).sum(1)
    expected = 2 * log_p[:5].sum() - log_p[5:].sum()
    torch.testing.assert_close(graph_loss(graph, graphs.credit(delta, torch.tensor([0, 1]))), expected)


@pytest.mark.parametrize("hops", [None, 2])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(
    "given", [lambda graphs: graphs, lambda graphs: [graphs], lambda graphs: graph_batches(graphs, 2)]
)
def test_a_reward_of_a_graph_is_not_handed_on(
    given: Callable[[GraphSet], Batches], both: bool, hops: int | None
) -> None:
    """Broken: the reward of a graph counts once for each of its nodes, however the graphs come."""
    rewards = PlackettLuce(samples=2, hops=hops)
    gradient = Both(Softmax(), rewards) if both else rewards
    with pytest.raises(InputError, match=r"GraphSet.*hops=0"):
        fit(make_net(), given(graphs_of()), gradient=gradient, steps=1)


@pytest.mark.parametrize(
    "gradient",
    [
        PlackettLuce(samples=2, hops=0),
        Both(Softmax(), PlackettLuce(samples=2, hops=0)),
        Reinforce(lg.SampleMeanBaseline(), samples=2),
        Softmax(),
    ],
)
def test_gradients_for_whole_graphs(gradient: Gradient) -> None:
    history = fit(make_net(), graphs_of(), gradient=gradient, steps=1)
    assert ("graph_loss" in history.rows[0]) == (gradient.baseline is not None)


def test_baseline_knows_graphs_by_their_number_in_mini_batches() -> None:
    """Whatever mini-batch a graph comes in, its average is its own."""
    graphs = graphs_of([4] * 10)
    part = graphs.select(torch.tensor([7, 2]))
    assert part.node_id is not None
    assert part.node_id.tolist() == [2, 7]
    assert part.select(torch.tensor([1])).node_id.tolist() == [7]  # type: ignore[union-attr]
    baseline = lg.MovingAverageBaseline(10)
    fit(make_net(), [part], baseline=baseline, steps=2)
    assert baseline.seen.nonzero()[:, 0].tolist() == [2, 7]


def test_select_keeps_what_belongs_to_a_graph() -> None:
    graphs = graphs_of()
    part = graphs.select(torch.tensor([4, 2]))
    assert part.x.shape == (15, 4)
    assert part.y.tolist() == [0, 0]
    assert torch.equal(part.x[9:], graphs.x[graphs.graph_of_node == 4])
    assert part.edge_index is not None
    assert part.edge_index.shape[1] == 2 * 15
    assert torch.equal(part.graph_of_node[part.edge_index[0]], part.graph_of_node[part.edge_index[1]])


def test_select_keeps_the_category_of_a_graph() -> None:
    graphs = replace(graphs_of([3] * 4), category=torch.tensor([5, 6, 7, 8]))
    part = graphs.select(torch.tensor([3, 1]))
    assert part.category is not None
    assert part.category.tolist() == [6, 8]
    assert graphs_of().select(torch.tensor([0])).category is None


def test_mini_batches_have_graphs_with_targets_only() -> None:
    graphs = graphs_of([3] * 6)
    half = GraphSet(graphs.x, torch.tensor([0, -1, 1, -1, 0, 1]), batch=graphs.batch)
    drawn = [graph_batches(half, 2)(step, seeded(step)) for step in range(20)]
    assert {int(number) for batch in drawn for number in batch.node_id} == {0, 2, 4, 5}  # type: ignore[union-attr]
    assert {len(batch) for batch in drawn} == {2}
    assert len(graph_batches(half, 50)(0, seeded())) == 4


def test_a_graph_is_learned_from_one_target_each() -> None:
    """Class 1 has two clusters of nodes, class 0 one: all features have mean zero over a graph, distances tell."""
    generator = seeded(5)
    parts, y = [], []
    for number in range(60):
        size = 6 + number % 5
        side = torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0) * (number % 2)
        x = torch.randn(size, 3, generator=generator) * 0.3
        x[:, 0] += side
        parts.append((x, None))
        y.append(number % 2)
    graphs = join(parts, torch.tensor(y))
    train, test = graphs.select(torch.arange(40)), graphs.select(torch.arange(40, 60))
    torch.manual_seed(0)
    dgm = lg.DiscreteDGM(mlp([3, 8, 2]), 3, fill=True)
    net = PooledNet(lg.DGMNet([(dgm, gcn([3, 16], activate_last=True))]), nn.Linear(16, 2))
    fit(net, graph_batches(train, 20), baseline=lg.SampleMeanBaseline(), samples=2, steps=60, lr=0.02)
    assert evaluate(net, test)["accuracy"] > 0.9


def test_an_auxiliary_head_sees_the_mean_embedding() -> None:
    graphs = graphs_of()
    x_hat = torch.arange(21.0)[:, None]
    assert graphs.per_target(x_hat)[:, 0].tolist() == [1.0, 3.0, 8.0, 13.5, 17.5]
    history = fit(make_net(), graphs, auxiliary=nn.Linear(2, 2), steps=2)
    assert history.rows[0]["auxiliary_loss"] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": None}, "needs batch"),
        ({"batch": torch.tensor([0, 0, 1])}, "batch has 3 entries"),
        ({"batch": torch.tensor([0, 0, 2, 2])}, "from 0 to 1"),
        ({"batch": torch.tensor([1, 1, 0, 0])}, "from 0 to 1"),
        ({"mask": torch.tensor([True])}, "there are 2 graphs"),
        ({"mask": torch.tensor([1, 0])}, "must be bool"),
        ({"weight": torch.ones(4)}, "weight has 4 entries"),
        ({"category": torch.zeros(4, dtype=torch.long)}, "category has 4 entries"),
    ],
)
def test_sets_that_do_not_fit_together(change: dict[str, Tensor | None], message: str) -> None:
    options = {"batch": torch.tensor([0, 0, 1, 1]), **change}
    with pytest.raises(InputError, match=message):
        GraphSet(torch.zeros(4, 1), torch.tensor([0, 1]), **options)


def test_empty_requests() -> None:
    with pytest.raises(InputError, match="at least one graph"):
        graph_batches(graphs_of(), 0)
    with pytest.raises(InputError, match="one each"):
        join([], torch.tensor([]))
    unknown = GraphSet(torch.zeros(2, 1), torch.tensor([-1, -1]), batch=torch.tensor([0, 1]))
    with pytest.raises(InputError, match="no graph has a target"):
        graph_batches(unknown, 2)
