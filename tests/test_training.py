"""The training loop: what one step computes, node sets, early stopping, repeatability, progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from latentgraph import blocks, progress
from latentgraph.diffusion import RowNormalised
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph, edge_homophily
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.loss import (
    Likelihood,
    MovingAverageBaseline,
    SampleMeanBaseline,
    accuracy_reward,
    graph_loss,
    probability_reward,
)
from latentgraph.model import DGMNet
from latentgraph.presets import citation_net, medical_net
from latentgraph.stacks import edge_conv, gat, gcn, mlp
from latentgraph.training import (
    Batches,
    NodeSet,
    Task,
    TrainState,
    classification,
    evaluate,
    fit,
    mean_probability_nll,
    regression,
)
from latentgraph.watching import watch_edges

N, D = 60, 6


@pytest.fixture(autouse=True)
def fixed_weights() -> Iterator[None]:
    """New modules start from the same weights in every run, in whatever order tests run."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def easy(n: int = N, d: int = D, seed: int = 0) -> NodeSet:
    """Two classes one can tell apart: a shift of all coordinates beside noise of size one."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = torch.randn(n, d, generator=generator) + 1.5 * (2 * y[:, None] - 1)
    return NodeSet(x, y)


def masked(nodes: NodeSet, *, first: int, last: int | None = None) -> NodeSet:
    """The same nodes, of which only rows [first, last) count."""
    mask = torch.zeros(len(nodes.x), dtype=torch.bool)
    mask[first:last] = True
    return NodeSet(nodes.x, nodes.y, mask, nodes.edge_index)


def discrete_net(*, detach: bool = False, dropout: float = 0.0, out: int = 2) -> DGMNet:
    dgm = DiscreteDGM(mlp([D, 8, 3]), k=3)
    return DGMNet([(dgm, gcn([D, 8], activate_last=True, dropout=dropout))], nn.Linear(8, out), detach=detach)


def continuous_net(*, out: int = 2) -> DGMNet:
    return DGMNet([(ContinuousDGM(mlp([D, 8, 3])), gcn([D, 8], activate_last=True))], nn.Linear(8, out))


def copied(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in values.items()}


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    other = b.state_dict()
    return all(torch.equal(value, other[name]) for name, value in a.state_dict().items())


def embed_weights(net: DGMNet) -> list[Tensor]:
    return [p for name, p in net.named_parameters() if ".embed." in name]


# One step


def primed(num_nodes: int = N, average: float = 0.6) -> MovingAverageBaseline:
    """A baseline that already expects something, so that the first delta is not zero."""
    baseline = MovingAverageBaseline(num_nodes)
    baseline.average.fill_(average)
    baseline.seen.fill_(True)
    return baseline


@pytest.mark.parametrize("likelihood", ["paper", "probability", "plackett_luce"])
@pytest.mark.parametrize("graph_weight", [1.0, 0.3])
def test_one_step_by_hand(likelihood: Likelihood, graph_weight: float) -> None:
    """Broken: the step is not on cross-entropy + weight * graph loss / labelled nodes, deltas at their nodes."""
    nodes, net, baseline = masked(easy(), first=10, last=40), discrete_net(), primed()
    by_hand = deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    history = fit(
        net,
        nodes,
        baseline=baseline,
        optimizer=optimizer,
        likelihood=likelihood,
        graph_weight=graph_weight,
        steps=1,
        seed=4,
    )

    out, graphs = by_hand(nodes.x, generator=torch.Generator().manual_seed(4))
    reward = (out.argmax(1) == nodes.y).float()
    delta = torch.zeros(N)
    delta[10:40] = 0.6 - reward[10:40]
    task = functional.cross_entropy(out[10:40], nodes.y[10:40])
    graph = graph_loss(graphs, delta, likelihood=likelihood) / 30
    (task + graph_weight * graph).backward()
    parameters = dict(by_hand.named_parameters())
    for name, parameter in net.named_parameters():
        gradient = parameters[name].grad
        assert gradient is not None, name
        torch.testing.assert_close(parameter, parameters[name] - 0.1 * gradient, msg=name)
    assert history.rows[0]["loss"] == pytest.approx(float(task.detach()))
    assert history.rows[0]["graph_loss"] == pytest.approx(float(graph.detach()))
    assert history.rows[0]["reward"] == pytest.approx(float(reward[10:40].mean()))
    # and only the labelled nodes were taught to the baseline
    expected = torch.full((N,), 0.6)
    expected[10:40] = 0.9 * 0.6 + 0.1 * reward[10:40]
    torch.testing.assert_close(baseline.average, expected)


def test_one_step_of_several_samples_by_hand() -> None:
    """Broken: with four sampled graphs in a step, losses are not averaged or deltas given to another sample."""
    nodes, net = easy(), discrete_net()
    by_hand = deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    task = classification(probability_reward)
    fit(net, nodes, task=task, baseline=SampleMeanBaseline(), samples=4, optimizer=optimizer, steps=1, seed=4)

    generator = torch.Generator().manual_seed(4)
    results = [by_hand(nodes.x, generator=generator) for _ in range(4)]
    rewards = torch.stack([out.detach().softmax(1)[torch.arange(N), nodes.y] for out, _ in results])
    total = torch.zeros(())
    for s, (out, graphs) in enumerate(results):
        others = rewards[[r for r in range(4) if r != s]].mean(0)
        total = total + functional.cross_entropy(out, nodes.y) / 4
        total = total + graph_loss(graphs, others - rewards[s]) / N / 4
    total.backward()
    parameters = dict(by_hand.named_parameters())
    for name, parameter in net.named_parameters():
        gradient = parameters[name].grad
        assert gradient is not None, name
        torch.testing.assert_close(parameter, parameters[name] - 0.1 * gradient, rtol=1e-5, atol=1e-6, msg=name)


def test_one_backward_pass_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: task and graph loss walk through the network twice."""
    calls = []
    backward = Tensor.backward

    def counted(self: Tensor, *args: Any, **kwargs: Any) -> None:
        calls.append(self.shape)
        backward(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Tensor, "backward", counted)
    fit(discrete_net(), easy(), baseline=SampleMeanBaseline(), samples=3, steps=5)
    assert calls == [torch.Size([])] * 5


def test_only_the_graph_loss_reaches_f() -> None:
    """Broken: f of a discrete network learns from the task by a back door, or not at all from the graph loss."""

    def no_gradient(state: TrainState) -> None:
        assert isinstance(state.net, DGMNet)
        assert all(p.grad is None for p in embed_weights(state.net))

    net = discrete_net(detach=True)
    before = copied(net.state_dict())
    fit(net, easy(), baseline=None, steps=5, callbacks=[no_gradient])
    moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(".embed." in name for name in moved)
    assert "head.weight" in moved

    before = copied(net.state_dict())
    fit(net, easy(), baseline=MovingAverageBaseline(N), steps=15, task=classification(probability_reward))
    moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert {name for name in before if ".embed." in name} <= moved
    assert "dgms.0.log_temperature" in moved


def test_weight_zero_is_no_graph_loss() -> None:
    """Broken: graph_weight does not weigh the graph loss."""
    with_weight, without = discrete_net(), discrete_net()
    without.load_state_dict(with_weight.state_dict())
    fit(with_weight, easy(), baseline=primed(), graph_weight=0.0, steps=5)
    fit(without, easy(), baseline=None, steps=5)
    for (name, a), b in zip(with_weight.named_parameters(), without.parameters(), strict=True):
        if ".embed." not in name and "log_temperature" not in name:
            assert torch.equal(a, b), name


def test_the_graph_loss_finds_neighbours_of_the_same_class() -> None:
    """Broken: the whole point. Half of the features say the class, the louder half says nothing.

    The label of a node is hidden from its own features by a diffusion on its neighbours alone; only a graph between
    nodes of the same class predicts it. Learning must raise the share of such edges well above its start.
    """
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(100) % 2
    x = torch.cat([2.0 * y[:, None] - 1, 1.5 * torch.randn(100, 3, generator=generator)], dim=1)
    net = DGMNet([(DiscreteDGM(nn.Linear(4, 2), k=3), RowNormalised(4, 8))], nn.Linear(8, 2))

    def homophily() -> float:
        with torch.no_grad():
            _, graphs = net(x, generator=torch.Generator().manual_seed(5))
        return edge_homophily(graphs[0].edge_index, y)

    start = homophily()
    task = classification(probability_reward)
    history = fit(net, NodeSet(x, y), task=task, baseline=MovingAverageBaseline(100), steps=150, lr=0.03)
    assert start < 0.75
    assert homophily() > 0.9
    assert history.column("reward")[-1] > history.column("reward")[0]


# Kinds of node sets


def minibatches(nodes: NodeSet, size: int = 20) -> list[NodeSet]:
    ids = torch.arange(len(nodes.x)).split(size)
    return [NodeSet(nodes.x[i], nodes.y[i], node_id=i) for i in ids]


def drawn(nodes: NodeSet, size: int = 25) -> Callable[[int, torch.Generator], NodeSet]:
    def draw(step: int, generator: torch.Generator) -> NodeSet:
        ids = torch.randperm(len(nodes.x), generator=generator)[:size]
        return NodeSet(nodes.x[ids], nodes.y[ids], node_id=ids)

    return draw


def settings() -> dict[str, tuple[Batches, NodeSet]]:
    """Training nodes, and all nodes with those to be tested."""
    nodes = easy()
    test = masked(nodes, first=40)
    some = NodeSet(nodes.x[:40], nodes.y[:40])
    return {
        "transductive": (masked(nodes, first=0, last=40), test),
        "inductive": (some, test),
        "sequence": (minibatches(some), test),
        "function": (drawn(some), test),
    }


@pytest.mark.parametrize("setting", ["transductive", "inductive", "sequence", "function"])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_every_setting_learns_an_easy_problem(setting: str, kind: str) -> None:
    """Broken: a kind of node set does not run, or does not learn."""
    train, test = settings()[setting]
    net = discrete_net() if kind == "discrete" else continuous_net()
    untrained = evaluate(net, test)
    history = fit(net, train, baseline=MovingAverageBaseline(40 if setting != "transductive" else N), steps=60, lr=0.02)
    trained = evaluate(net, test)
    losses = history.column("loss")
    assert len(losses) == 60
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert trained["accuracy"] >= 0.95
    assert trained["validation"] < untrained["validation"]


def test_a_sequence_is_gone_through_in_order() -> None:
    """Broken: a mini-batch is left out or taken twice in a row."""
    seen: list[list[float]] = []

    class Recorder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(D, 2)

        def forward(
            self, x: Tensor, edge_index: Tensor | None, batch: Tensor | None, *, generator: torch.Generator
        ) -> tuple[Tensor, list[LatentGraph]]:
            seen.append(x[0].tolist())
            return self.linear(x), []

    sets = minibatches(easy())
    fit(Recorder(), sets, steps=7)
    assert seen == [sets[i % 3].x[0].tolist() for i in range(7)]


def test_a_function_gets_step_and_generator() -> None:
    """Broken: batches drawn by a function are not repeatable by the seed."""
    nodes = easy()

    def run(seed: int) -> list[tuple[int, int]]:
        calls: list[tuple[int, int]] = []

        def draw(step: int, generator: torch.Generator) -> NodeSet:
            calls.append((step, int(torch.randint(1 << 40, (), generator=generator))))
            return nodes

        fit(discrete_net(), draw, steps=4, seed=seed)
        return calls

    first = run(1)
    assert [step for step, _ in first] == [1, 2, 3, 4]
    assert run(1) == first
    assert run(2) != first


def test_node_ids_address_the_baseline() -> None:
    """Broken: the averages of one mini-batch overwrite those of another."""
    nodes = easy()
    sets = [NodeSet(nodes.x[i], nodes.y[i], node_id=i) for i in (torch.arange(5, 25), torch.arange(30, 50))]
    baseline = MovingAverageBaseline(N)
    fit(discrete_net(), sets, baseline=baseline, steps=1)
    assert baseline.seen.nonzero()[:, 0].tolist() == list(range(5, 25))
    fit(discrete_net(), sets, baseline=baseline, steps=2)
    assert baseline.seen.nonzero()[:, 0].tolist() == [*range(5, 25), *range(30, 50)]


def test_the_input_graph_and_the_batch_are_handed_on() -> None:
    """Broken: training or validation forgets the input graph, or mixes graphs."""
    base = easy()
    source = torch.arange(N)
    edge_index = torch.stack([source, (source + 2) % N])
    batch = torch.tensor([0] * 30 + [1] * 30)
    nodes = NodeSet(base.x, base.y, edge_index=edge_index, batch=batch)
    seen: list[bool] = []

    def check(state: TrainState) -> None:
        for graph in state.graphs:
            assert graph.neighbors is not None
            seen.append(torch.equal(batch[graph.neighbors], batch[:, None].expand_as(graph.neighbors)))

    fit(citation_net(D, 2), nodes, validation=nodes, steps=2, callbacks=[check])
    assert seen == [True, True]


def test_a_mini_batch_without_labels_does_no_harm() -> None:
    """Broken: one mini-batch of unlabelled nodes makes all weights NaN."""
    nodes = easy()
    unlabelled = NodeSet(nodes.x[:20], torch.full((20,), -1), node_id=torch.arange(20))
    net = discrete_net()
    fit(net, [*minibatches(nodes), unlabelled], baseline=MovingAverageBaseline(N), steps=8)
    assert all(bool(p.isfinite().all()) for p in net.parameters())


# Which nodes count


def test_rows_that_count() -> None:
    """Broken: unlabelled nodes count, or labelled ones do not."""
    x = torch.zeros(4, 1)
    mask = torch.tensor([True, True, False, True])
    classes = torch.tensor([0, -1, 1, 2])
    assert NodeSet(x, classes).rows.tolist() == [0, 2, 3]
    assert NodeSet(x, classes, mask).rows.tolist() == [0, 3]
    numbers = torch.tensor([-1.0, math.nan, 0.0, 2.0])
    assert NodeSet(x, numbers).rows.tolist() == [0, 2, 3]
    assert NodeSet(x, numbers, mask).rows.tolist() == [0, 3]
    pairs = torch.tensor([[1.0, 2.0], [math.nan, 1.0], [math.nan, math.nan], [0.0, 0.0]])
    assert NodeSet(x, pairs).rows.tolist() == [0, 3]


def test_a_node_set_moves_as_a_whole() -> None:
    nodes = NodeSet(*(torch.zeros(3, dtype=torch.bool) for _ in range(8))).to("meta")
    assert all(value.device.type == "meta" for value in vars(nodes).values())
    assert easy().to("cpu").mask is None


def test_a_node_set_refuses_what_does_not_fit() -> None:
    """Broken: a label vector of another table goes unnoticed."""
    x, y = torch.zeros(3, 2), torch.zeros(3, dtype=torch.long)
    with pytest.raises(InputError, match="y has 2 entries but x has 3 rows"):
        NodeSet(x, y[:2])
    with pytest.raises(InputError, match="mask has 4 entries"):
        NodeSet(x, y, torch.ones(4, dtype=torch.bool))
    with pytest.raises(InputError, match="must be bool"):
        NodeSet(x, y, torch.ones(3))


def test_weights_decay_but_a_temperature_does_not() -> None:
    """Broken: weight decay pulls the temperature to one and the threshold to zero, whatever the data say."""
    nodes = easy()
    net = DGMNet([(DiscreteDGM(nn.Linear(nodes.x.shape[1], 2), k=3, temperature=50.0), nn.Linear(nodes.x.shape[1], 2))])
    dgm = net.dgms[0]
    assert isinstance(dgm, DiscreteDGM)
    before = dgm.log_temperature.item()
    fit(
        net,
        nodes,
        task=classification(lambda out, y: torch.zeros(len(y))),
        baseline=MovingAverageBaseline(len(nodes.x)),
        steps=5,
        weight_decay=1.0,
    )
    assert dgm.log_temperature.item() == before


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_labels_outside_the_mask_never_matter(kind: str) -> None:
    """Broken: test labels leak into training. Changing them must leave every bit of the result as it was."""
    nodes = easy()
    train, validation = masked(nodes, first=0, last=30), masked(nodes, first=30, last=45)
    other_y = nodes.y.clone()
    other_y[45:] = 1 - other_y[45:]
    nets = []
    for y in (nodes.y, other_y):
        torch.manual_seed(3)
        net = discrete_net(dropout=0.3) if kind == "discrete" else continuous_net()
        fit(
            net,
            NodeSet(nodes.x, y, train.mask),
            validation=NodeSet(nodes.x, y, validation.mask),
            baseline=MovingAverageBaseline(N),
            steps=12,
            eval_every=3,
        )
        nets.append(net)
    assert same_weights(*nets)


def test_validation_labels_do_not_train() -> None:
    """Broken: the optimiser sees validation labels. They may choose the step, not the weights of a step."""
    nodes = easy()
    train = masked(nodes, first=0, last=30)
    weights = []
    for y in (nodes.y, 1 - nodes.y):
        torch.manual_seed(3)
        net = discrete_net()
        trace: list[Tensor] = []

        def record(state: TrainState, trace: list[Tensor] = trace) -> None:
            trace.append(torch.cat([p.detach().flatten() for p in state.net.parameters()]))

        mask = masked(nodes, first=30).mask
        fit(net, train, validation=NodeSet(nodes.x, y, mask), steps=6, eval_every=2, callbacks=[record])
        weights.append(torch.stack(trace))
    assert torch.equal(*weights)


# Regression


def test_regression_with_missing_targets() -> None:
    """Broken: NaN targets poison the loss, or a smooth function cannot be learned."""
    nodes = easy(n=80)
    target = 0.3 * nodes.x.sum(1) - 1
    y = target.clone()
    y[50:] = math.nan
    net = discrete_net(out=1)
    start = float(((net(nodes.x)[0][:, 0] - target) ** 2).mean().detach())
    history = fit(net, NodeSet(nodes.x, y), task=regression(), baseline=MovingAverageBaseline(80), steps=150, lr=0.02)
    assert all(math.isfinite(value) for value in history.column("loss"))
    hidden = evaluate(net, NodeSet(nodes.x, target, torch.arange(80) >= 50), regression())
    assert set(hidden) == {"validation"}  # no accuracy of numbers
    assert hidden["validation"] < 0.2 * start


def test_regression_of_two_targets() -> None:
    """Broken: targets (n, c) are taken for classes, or flattened."""
    nodes = easy()
    y = torch.stack([nodes.x.mean(1), -2 * nodes.x.mean(1)], dim=1)
    net = continuous_net(out=2)
    history = fit(net, NodeSet(nodes.x, y), task=regression(), steps=80, lr=0.03)
    assert history.column("loss")[-1] < 0.1 * history.column("loss")[0]


# Early stopping


def scripted(scores: list[float]) -> Task:
    """A task whose validation scores are known beforehand."""
    task, left = classification(), iter(scores)
    return Task(task.loss, task.reward, task.link, lambda mean, y: torch.tensor(next(left)))


def test_patience_and_the_best_weights() -> None:
    """Broken: training stops too early or too late, or returns other weights than those that scored best."""
    trace: list[dict[str, Tensor]] = []

    def record(state: TrainState) -> None:
        trace.append(copied(state.net.state_dict()))

    net, nodes = discrete_net(), easy()
    scores = [5.0, 3.0, 4.0, 2.0, 2.0, 2.5, 7.0]  # at steps 2, 4, ...; an equal score is not better
    history = fit(
        net,
        nodes,
        validation=nodes,
        task=scripted(scores),
        steps=100,
        eval_every=2,
        patience=6,
        callbacks=[record],
    )
    assert history.best_step == 8
    assert history.best_score == 2.0
    assert history.column("step") == list(range(1, 15))  # 8 + 6
    assert history.column("validation") == scores
    for name, value in net.state_dict().items():
        assert torch.equal(value, trace[7][name]), name
    assert not torch.equal(trace[7]["head.weight"], trace[13]["head.weight"])
    assert not net.training


def test_without_patience_it_runs_to_the_end() -> None:
    net, nodes = discrete_net(), easy()
    history = fit(net, nodes, validation=nodes, task=scripted([1.0, 2.0, 3.0, 4.0]), steps=10, eval_every=3)
    assert [row["step"] for row in history.rows if "validation" in row] == [3, 6, 9, 10]  # and the last step
    assert len(history.rows) == 10
    assert history.best_step == 3


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_returned_net_scores_what_the_history_says(kind: str) -> None:
    """Broken: the kept weights, or the graphs of the validation, are not those that were scored."""
    nodes = easy()
    noisy = nodes.y.clone()
    noisy[:10] = 1 - noisy[:10]  # something to overfit
    net = discrete_net(dropout=0.2) if kind == "discrete" else continuous_net()
    train, validation = NodeSet(nodes.x[:30], noisy[:30]), masked(nodes, first=30)
    history = fit(
        net,
        train,
        validation=validation,
        baseline=MovingAverageBaseline(30),
        steps=100,
        lr=0.05,
        eval_every=5,
        eval_samples=3,
        patience=30,
        seed=7,
    )
    assert history.best_score == min(history.column("validation"))
    assert history.rows[history.best_step - 1]["validation"] == history.best_score
    assert evaluate(net, validation, samples=3, seed=7)["validation"] == history.best_score
    assert len(history.rows) < 100  # it did overfit, and was stopped
    assert history.best_step < len(history.rows)


def test_without_validation_the_last_weights_are_kept() -> None:
    history = fit(discrete_net(), easy(), steps=4)
    assert history.best_step == 4
    assert math.isinf(history.best_score)
    assert history.column("validation") == []


def test_evaluate_by_hand() -> None:
    """Broken: the score is not the likelihood of the mean probability of the rows that count."""
    net, nodes = discrete_net().eval(), masked(easy(), first=20)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        p = torch.stack([net(nodes.x, generator=generator)[0].softmax(1) for _ in range(4)]).mean(0)[20:]
    values = evaluate(net, nodes, samples=4, seed=3)
    assert values["validation"] == pytest.approx(float(-p[torch.arange(40), nodes.y[20:]].log().mean()))
    assert values["accuracy"] == pytest.approx(float((p.argmax(1) == nodes.y[20:]).float().mean()))
    assert evaluate(net, nodes, samples=4, seed=3) == values


def test_mean_probability_nll() -> None:
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    assert float(mean_probability_nll(p, torch.tensor([0, 0]))) == pytest.approx(math.log(2) / 2)
    assert math.isfinite(float(mean_probability_nll(p, torch.tensor([0, 1]))))  # certain and wrong


def test_class_weights_weigh_the_loss() -> None:
    out, y = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 0])
    weight = torch.tensor([2.0, 1.0])
    assert classification(class_weight=weight).loss(out, torch.tensor([0, 1])) == functional.cross_entropy(
        out, torch.tensor([0, 1]), weight=weight
    )
    assert classification().loss(out, y) == functional.cross_entropy(out, y)
    assert classification().reward is accuracy_reward


# Callbacks, optimiser, schedule


def test_callbacks_see_every_step_and_can_stop() -> None:
    """Broken: a callback misses a step, sees stale values, or cannot end the training."""
    steps: list[int] = []

    def watch(state: TrainState) -> None:
        steps.append(state.step)
        assert math.isfinite(state.values["loss"])
        assert len(state.graphs) == 1
        assert state.net is net
        assert ("validation" in state.values) == (state.step % 2 == 0)
        state.stop = state.step == 5

    net = discrete_net()
    history = fit(net, easy(), validation=easy(), eval_every=2, steps=50, callbacks=[watch])
    assert steps == [1, 2, 3, 4, 5]
    assert len(history.rows) == 5


def test_a_callback_can_add_to_the_history() -> None:
    def note(state: TrainState) -> None:
        state.values["temperature"] = float(state.graphs[0].temperature.detach())

    history = fit(discrete_net(), easy(), steps=3, callbacks=[note])
    assert len(history.column("temperature")) == 3


def test_watched_edges_are_those_between_rows_learned_from() -> None:
    """Broken: the homophily of the history looks at targets that are hidden, or counts other edges."""
    nodes = masked(easy(), first=0, last=20)
    by_hand: list[float] = []

    def count(state: TrainState) -> None:
        neighbors = state.graphs[-1].neighbors
        assert neighbors is not None
        pairs = [(i, j) for i in range(20) for j in neighbors[i].tolist() if j < 20]
        by_hand.append(sum(int(nodes.y[i] == nodes.y[j]) for i, j in pairs) / len(pairs))

    history = fit(discrete_net(), nodes, steps=3, callbacks=[watch_edges(nodes), count])
    assert history.column("homophily") == pytest.approx(by_hand)


def test_watched_edges_of_numbers_and_of_all_pairs() -> None:
    nodes = easy()
    y = nodes.x.mean(1)
    y[::2] = math.nan
    numbers = NodeSet(nodes.x, y)
    history = fit(discrete_net(out=1), numbers, task=regression(), steps=2, callbacks=[watch_edges(numbers)])
    assert all(0 < value < 3 for value in history.column("edge_difference"))
    assert len(history.column("edge_difference")) == 2
    assert set(fit(continuous_net(), nodes, steps=1, callbacks=[watch_edges(nodes)]).rows[0]) == {"step", "loss"}
    # One labelled row has no edge to another: there is nothing to say, and no NaN to keep.
    alone = masked(nodes, first=0, last=1)
    assert set(fit(discrete_net(), alone, steps=1, callbacks=[watch_edges(alone)]).rows[0]) == {"step", "loss"}


def test_optimizer_and_scheduler_are_used() -> None:
    """Broken: the optimiser or the schedule that was passed is ignored."""
    net = discrete_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    fit(net, easy(), optimizer=optimizer, scheduler=scheduler, steps=3)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.125)

    frozen = discrete_net()
    before = copied(frozen.state_dict())
    fit(frozen, easy(), optimizer=torch.optim.SGD(frozen.head.parameters(), lr=0.1), steps=3)
    moved = {name for name, value in frozen.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"head.weight", "head.bias", "dgms.0.log_temperature", "dgms.0.calibrated"}  # the latter calibrated


def test_what_needs_no_gradient_is_left_alone() -> None:
    """Broken: the default optimiser moves frozen parameters by weight decay."""
    net = discrete_net()
    net.head.requires_grad_(False)
    before = copied(net.head.state_dict())
    fit(net, easy(), steps=3, weight_decay=0.1)
    assert all(torch.equal(value, before[name]) for name, value in net.head.state_dict().items())


# Repeatability


def test_the_global_random_state_is_left_alone() -> None:
    """Broken: training changes what the user's next random number is; dropout draws from the global state."""
    before = torch.get_rng_state()
    net = discrete_net(dropout=0.5)
    after_making = torch.get_rng_state()
    assert not torch.equal(before, after_making)
    fit(net, easy(), validation=easy(), baseline=MovingAverageBaseline(N), steps=3)
    assert torch.equal(torch.get_rng_state(), after_making)

    def fail(state: TrainState) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fit(net, easy(), steps=3, callbacks=[fail])
    assert torch.equal(torch.get_rng_state(), after_making)


def test_the_global_random_state_does_not_matter() -> None:
    """Broken: what was drawn before training decides its dropout or its graphs."""
    nets = [discrete_net(dropout=0.5), discrete_net(dropout=0.5)]
    nets[1].load_state_dict(nets[0].state_dict())
    for number, net in enumerate(nets):
        torch.manual_seed(100 + number)
        fit(net, easy(), baseline=MovingAverageBaseline(N), steps=4, seed=1)
    assert same_weights(*nets)


BIG: dict[str, tuple[Callable[[], DGMNet], int, Likelihood]] = {
    "discrete-gcn-edge": (lambda: medical_net(40, 2), 1000, "paper"),
    "discrete-gat": (lambda: medical_net(40, 2, f=gat, g=gat), 1000, "plackett_luce"),
    "continuous-dense": (lambda: medical_net(40, 2, continuous=True, f=gcn, g=gcn), 300, "paper"),
    "continuous-blocks": (lambda: medical_net(40, 2, continuous=True, f=gcn, g=edge_conv), 600, "paper"),
}


@pytest.mark.parametrize("name", BIG)
@pytest.mark.usefixtures("two_threads")
def test_two_runs_are_bit_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: with two threads a sum is taken in another order in every run (nodes enough that threads share work)."""
    monkeypatch.setattr(blocks, "BLOCK", 1 << 17)  # between 300^2 and 600^2
    make, n, likelihood = BIG[name]
    nodes = easy(n=n, d=40)
    net = make()
    again = deepcopy(net)
    for run in (net, again):
        fit(run, nodes, baseline=primed(n), likelihood=likelihood, steps=2, seed=1)
    assert same_weights(net, again)


def test_another_seed_is_another_run() -> None:
    """Broken: the seed decides nothing: neither graphs nor dropout. In a continuous network nothing is random."""
    pair = [continuous_net(), continuous_net()]
    pair[1].load_state_dict(pair[0].state_dict())
    for seed, net in enumerate(pair):
        fit(net, easy(), steps=3, seed=seed)
    assert same_weights(*pair)
    for dropout in (0.0, 0.5):
        nets = [discrete_net(dropout=dropout), discrete_net(dropout=dropout)]
        nets[1].load_state_dict(nets[0].state_dict())
        for seed, net in enumerate(nets):
            fit(net, easy(), baseline=primed(), steps=3, seed=seed)
        assert not same_weights(*nets)


# Progress


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a log file gets no lines, or control characters, or lines on standard output."""
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    fit(discrete_net(), easy(), validation=easy(), steps=4, eval_every=2, show=True, title="patients")
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.split(" ")[:2] for line in lines] == [["patients:", f"{step}/4"] for step in (1, 2, 3, 4)]
    assert all("loss " in line for line in lines)
    assert ["validation" in line for line in lines] == [False, True, False, True]
    assert "\x1b" not in captured.err


def test_a_log_is_not_flooded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a line for every step. The last step always has its line."""
    monkeypatch.setattr(progress, "LOG_SECONDS", math.inf)
    fit(discrete_net(), easy(), steps=20, show=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("training: 20/20 loss ")


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a library that talks."""
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    fit(discrete_net(), easy(), steps=3, show=False)
    fit(discrete_net(), easy(), steps=3)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the bar fails, or is written to standard output."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    fit(discrete_net(), easy(), steps=3, show=True, title="patients")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "patients" in captured.err
    assert "3/3" in captured.err


# Errors


def test_clear_errors() -> None:
    """Broken: a run that cannot work begins, and fails in its depths or not at all."""
    nodes = easy()
    unlabelled = NodeSet(nodes.x, torch.full((N,), -1))
    with pytest.raises(InputError, match=r"samples=1 but SampleMeanBaseline compares several sampled graphs"):
        fit(discrete_net(), nodes, baseline=SampleMeanBaseline())
    with pytest.raises(InputError, match=r"steps=0, .*each must be at least 1"):
        fit(discrete_net(), nodes, steps=0)
    with pytest.raises(InputError, match=r"samples=0.*each must be at least 1"):
        fit(discrete_net(), nodes, samples=0)
    with pytest.raises(InputError, match="the training set has no labelled node"):
        fit(discrete_net(), unlabelled)
    with pytest.raises(InputError, match="the training set has no labelled node"):
        fit(discrete_net(), masked(nodes, first=N))
    with pytest.raises(InputError, match="the training set is an empty sequence"):
        fit(discrete_net(), [])
    with pytest.raises(InputError, match="the validation set has no labelled node"):
        fit(discrete_net(), nodes, validation=unlabelled)
