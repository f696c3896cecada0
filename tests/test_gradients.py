"""Estimators of the graph's gradient: each by its formula, who gets credit, how they are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_wine
from torch import Tensor, nn

from latentgraph import DGMClassifier, DGMNet, DGMRegressor, DiscreteDGM, InputError, LatentGraph, MovingAverageBaseline
from latentgraph.cli import main
from latentgraph.geometry import Euclidean
from latentgraph.gradients import (
    NAMES,
    Both,
    Gradient,
    Implicit,
    PlackettLuce,
    Reinforce,
    Softmax,
    StraightThrough,
    Subsets,
    by_name,
)
from latentgraph.gradients.candidates import candidates
from latentgraph.gradients.credit import credit
from latentgraph.gradients.implicit import _TopK, perturbed
from latentgraph.layers import ContinuousDGM
from latentgraph.loss import SampleMeanBaseline, log_probability_reward
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, classification, fit


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph_of(neighbors: Sequence[Sequence[int]], batch: Tensor | None = None) -> LatentGraph:
    x_hat = torch.zeros(len(neighbors), 1)
    return LatentGraph(x_hat, torch.tensor(1.0), Euclidean(), neighbors=torch.tensor(neighbors), batch=batch)


# Implicit maximum likelihood


def test_noise_given_the_sample_has_the_law_of_noise() -> None:
    """Sample by noise, forget the noise, draw it again given the sample: theta + noise is Gumbel(theta) again."""
    draws, k = 20_000, 2
    theta = torch.tensor([0.3, -1.0, 0.0, -2.5], dtype=torch.float64)
    first = theta - torch.empty(draws, 4, dtype=torch.float64).exponential_(generator=seeded()).log()
    order = first.argsort(dim=1, descending=True)
    order[:, k:] = order[:, k:].sort(dim=1).values  # the others come in no order
    unit = torch.empty(draws, 4, dtype=torch.float64).exponential_(generator=seeded(1))
    noisy = perturbed(theta[order], k, unit)
    assert (noisy[:, :1] >= noisy[:, 1:2]).all()
    assert (noisy[:, 1:2] >= noisy[:, 2:]).all()
    again = torch.empty_like(noisy).scatter_(1, order, noisy)
    for j in range(4):
        assert stats.kstest((again[:, j] - theta[j]).numpy(), stats.gumbel_r.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(again.numpy().T) - np.eye(4)).max() < 0.03  # and independent


def test_noise_of_extreme_probabilities() -> None:
    theta = torch.tensor([[0.0, -1e4, -1e4, -5e3], [-1e4, 0.0, -1e4, -1e4]], dtype=torch.float64)
    noisy = perturbed(theta, 2, torch.full((2, 4), 0.7, dtype=torch.float64))
    assert noisy.isfinite().all()
    assert (noisy[:, 1:2] >= noisy[:, 2:]).all()


def top(values: Tensor, k: int) -> Tensor:
    return torch.zeros_like(values).scatter(1, values.topk(k, 1).indices, 1.0)


@pytest.mark.parametrize("strength", [0.5, 3.0, None])
def test_implicit_backward_by_its_formula(strength: float | None) -> None:
    theta = torch.randn(6, 5, generator=seeded(), dtype=torch.float64).requires_grad_()
    noisy = torch.randn(6, 5, generator=seeded(1), dtype=torch.float64).sort(1, descending=True).values
    g = torch.randn(6, 5, generator=seeded(2), dtype=torch.float64)
    g[5] = 0
    z = _TopK.apply(theta, noisy, 2, strength, 1.5)  # type: ignore[no-untyped-call]
    assert torch.equal(z, top(noisy, 2))
    (found,) = torch.autograd.grad((z * g).sum(), theta)
    ranges = (g.amax(1) - g.amin(1))[:5]
    used = strength or 1.5 / float(ranges.mean())
    torch.testing.assert_close(found, (top(noisy, 2) - top(noisy - used * g, 2)) / used)
    assert found[:5].abs().sum() > 0
    assert not found[5].any()


def test_implicit_without_any_gradient() -> None:
    theta = torch.randn(3, 4, requires_grad=True)
    noisy = torch.randn(3, 4).sort(1, descending=True).values
    z = _TopK.apply(theta, noisy, 2, None, 1.0)  # type: ignore[no-untyped-call]
    (found,) = torch.autograd.grad((z * 0).sum(), theta)
    assert not found.any()


# Candidates


def test_candidates_of_small_and_large_graphs() -> None:
    x = torch.randn(90, 3, generator=seeded())
    for n, count, expected in ((10, None, 9), (90, None, 64), (90, 12, 12), (90, 2, 4)):
        graph = DiscreteDGM(nn.Identity(), 4)(x[:n], generator=seeded())
        found = candidates(graph, count)
        assert found.shape == (n, expected)
        assert graph.neighbors is not None
        assert torch.equal(found[:, :4], graph.neighbors)
        for i, row in enumerate(found.tolist()):
            assert len({*row, i}) == expected + 1  # all different, and never itself


def test_candidates_of_a_batch_and_of_guests() -> None:
    x = torch.randn(20, 3, generator=seeded())
    batch = torch.tensor([0] * 12 + [1] * 8)
    found = candidates(DiscreteDGM(nn.Identity(), 2)(x, batch=batch, generator=seeded()))
    assert found.shape == (20, 7)
    assert (batch[found] == batch[:, None]).all()
    found = candidates(DiscreteDGM(nn.Identity(), 2)(x, generator=seeded(), guests=5), guests=5)
    assert found.shape == (20, 14)
    assert found.max() < 15


def test_candidates_of_graphs_smaller_than_k() -> None:
    x, batch = torch.randn(9, 2), torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1])
    with pytest.raises(InputError, match="a graph has 2 candidates for k=3 neighbours"):
        DiscreteDGM(nn.Linear(2, 2), 3, fill=True, gradient=Subsets())(x, batch=batch)
    graph = DiscreteDGM(nn.Linear(2, 2), 3, fill=True, gradient=StraightThrough())(x, batch=batch)
    assert graph.weights is not None


def test_a_sampled_subset_is_the_graph() -> None:
    """Neighbours, their log p and their weights belong together, with gradients and without."""
    x = torch.randn(80, 3, generator=seeded())
    dgm = DiscreteDGM(nn.Linear(3, 2), 4, temperature=0.5, gradient=Subsets(count=20))
    graph = dgm(x, generator=seeded())
    with torch.no_grad():
        again = dgm(x, generator=seeded())
    assert graph.candidates is not None
    assert graph.log_p is not None
    assert graph.neighbors is not None
    assert torch.equal(graph.candidates[:, :4], graph.neighbors)
    assert graph.weights is not None
    assert torch.equal(graph.weights.detach(), (torch.arange(20) < 4).float().expand(80, 20))
    x_hat = graph.x_hat.detach()
    expected = -0.5 * (x_hat[:, None] - x_hat[graph.neighbors]).square().sum(-1)
    torch.testing.assert_close(graph.log_p.view(80, 4), expected)
    assert again.weights is None
    assert torch.equal(again.neighbors, graph.neighbors)
    plain = DiscreteDGM(dgm.embed, 4, temperature=0.5)(x, generator=seeded())
    assert plain.neighbors is not None
    assert not torch.equal(plain.neighbors.sort(1).values, graph.neighbors.sort(1).values)  # another law


# Credit


def test_credit_goes_to_whom_a_node_reaches() -> None:
    """Against powers of the adjacency matrix, counted once however many paths there are."""
    graph = DiscreteDGM(nn.Identity(), 2, temperature=0.1)(torch.randn(12, 2, generator=seeded()), generator=seeded())
    delta = torch.randn(12, generator=seeded(1), dtype=torch.float64)
    delta[3] = 0  # without a label
    assert graph.neighbors is not None
    step = torch.eye(12, dtype=torch.float64).scatter(1, graph.neighbors, 1.0)  # i -> j, or stay
    for hops in range(4):
        reached = (torch.linalg.matrix_power(step, hops) > 0).double()
        torch.testing.assert_close(credit(graph, delta, hops), reached.T @ delta)
    torch.testing.assert_close(credit(graph, delta, None), delta.sum().expand(12))


def test_credit_by_hand_and_in_a_batch() -> None:
    graph = graph_of([[1], [2], [0], [4], [3]], torch.tensor([0, 0, 0, 7, 7]))
    delta = torch.tensor([1.0, 10.0, 100.0, 1000.0, 10000.0])
    assert credit(graph, delta, 1).tolist() == [101, 11, 110, 11000, 11000]
    assert credit(graph, delta, None).tolist() == [111, 111, 111, 11000, 11000]


def test_hops_of_several_graphs_are_refused() -> None:
    x = torch.randn(8, 2)
    graphs = [DiscreteDGM(nn.Identity(), 2)(x) for _ in range(2)]
    with pytest.raises(InputError, match="hops=1 follows the edges of one sampled graph, but the network has 2"):
        PlackettLuce(hops=1).graph_loss(graphs, torch.zeros(8))
    for hops in (0, None):
        assert float(PlackettLuce(hops=hops).graph_loss(graphs, torch.zeros(8)).detach()) == 0


# In training


def small_net(k: int = 3, gradient: Gradient | None = None) -> DGMNet:
    torch.manual_seed(0)
    return DGMNet([(DiscreteDGM(nn.Linear(4, 2), k, gradient=gradient), gcn([4, 8, 2]))], detach=True)


def nodes(weight: Tensor | None = None) -> NodeSet:
    x = torch.randn(40, 4, generator=seeded())
    return NodeSet(x, (x[:, 0] > 0).long(), torch.arange(40) < 30, weight=weight)


def test_the_papers_gradient_is_the_papers_graph_loss() -> None:
    """Broken: `gradient=` and the arguments that it replaces train differently."""
    old, new = small_net(), small_net()
    fit(old, nodes(), baseline=MovingAverageBaseline(40), steps=5)
    fit(new, nodes(), gradient=Reinforce(MovingAverageBaseline(40)), steps=5)
    for a, b in zip(old.parameters(), new.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_every_gradient_moves_the_embedding(name: str) -> None:
    gradient = by_name(name, num_nodes=40, convolutions=2)
    net = small_net()
    dgm = net.dgms[0]
    assert isinstance(dgm, DiscreteDGM)
    assert isinstance(dgm.embed, nn.Linear)
    before = dgm.embed.weight.detach().clone()
    history = fit(net, nodes(), gradient=gradient, task=classification(log_probability_reward), steps=3)
    assert dgm.gradient is gradient
    after = dgm.embed.weight
    assert after.isfinite().all()
    assert not torch.equal(after, before)
    assert ("graph_loss" in history.rows[0]) == (gradient.baseline is not None)


def test_a_module_brings_its_gradient_along() -> None:
    apart, along = small_net(), small_net(gradient=StraightThrough())
    fit(apart, nodes(), gradient=StraightThrough(), steps=3)
    fit(along, nodes(), steps=3)
    for a, b in zip(apart.parameters(), along.parameters(), strict=True):
        assert torch.equal(a, b)


def test_rewards_count_as_much_as_the_losses_they_stand_for() -> None:
    """A node of weight zero is as good as one without a label, and a common factor changes nothing."""
    some = torch.where(torch.arange(40) % 3 == 0, 0.0, 5.0)
    nets = small_net(), small_net()
    labelled = nodes()
    assert labelled.mask is not None
    without = NodeSet(labelled.x, labelled.y, labelled.mask & (some > 0))
    for net, given in zip(nets, (nodes(some), without), strict=True):
        descent = torch.optim.SGD(net.parameters(), lr=1.0)
        task = classification(log_probability_reward)
        fit(net, given, gradient=PlackettLuce(2, 1), task=task, optimizer=descent, steps=1)
    for a, b in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(a, b)


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(InputError, match="has its own baseline and samples"):
        fit(small_net(), nodes(), gradient=Softmax(), baseline=MovingAverageBaseline(40), steps=1)
    with pytest.raises(InputError, match="has its own baseline and samples"):
        fit(small_net(gradient=Softmax()), nodes(), samples=4, steps=1)
    two = DGMNet([(DiscreteDGM(nn.Linear(4, 2), 3, gradient=g), gcn([4, 4])) for g in (Softmax(), Subsets())])
    with pytest.raises(InputError, match="different gradients"):
        fit(two, nodes(), steps=1)
    with pytest.raises(InputError, match="no DiscreteDGM that samples"):
        fit(DGMNet([(ContinuousDGM(nn.Linear(4, 2)), gcn([4, 2]))]), nodes(), gradient=Softmax(), steps=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PlackettLuce(samples=1),
        lambda: PlackettLuce(hops=-1),
        lambda: Reinforce(SampleMeanBaseline()),
        lambda: Implicit(strength=0.0),
        lambda: Implicit(reach=-1.0),
        lambda: Subsets(count=0),
        lambda: StraightThrough("q"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError):
        make()


# By name


def test_names() -> None:
    made = {name: by_name(name, num_nodes=5, convolutions=3) for name in NAMES}
    assert {name: type(gradient) for name, gradient in made.items()} == {
        "softmax": Softmax,
        "straight_through": StraightThrough,
        "implicit": Implicit,
        "subsets": Subsets,
        "reinforce": Reinforce,
        "plackett_luce": PlackettLuce,
        "softmax+reinforce": Both,
        "softmax+plackett_luce": Both,
    }
    assert getattr(made["plackett_luce"], "hops", None) == 2
    with pytest.raises(InputError, match="gradient='subset' is not known; choose one of 'softmax', 'straight_through'"):
        by_name("subset", num_nodes=5, convolutions=2)


@pytest.mark.parametrize("name", NAMES)
def test_estimators_take_names(name: str, tmp_path: Path) -> None:
    """The model learns, is kept with its gradient, and answers for a row alone as in company."""
    x, y = load_wine(return_X_y=True)
    x, y = x[::2], y[::2]
    model = DGMClassifier(gradient=name, random_state=0, steps=10, samples=2, trees=0, hidden=8, k=4).fit(x, y)
    assert (model.transduction_ == y).mean() > 0.7  # chance: 0.4
    model.save(tmp_path / "model")
    kept = DGMClassifier.load(tmp_path / "model")
    assert kept.gradient == name
    np.testing.assert_allclose(kept.predict_proba(x[[7]]), model.predict_proba(x[:9])[[7]], atol=1e-9)


def test_regression_by_rewards() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = DGMRegressor(gradient="softmax+plackett_luce", random_state=0, steps=15, samples=2, trees=0)
    assert model.fit(x, x[:, 0]).score(x, x[:, 0]) > 0.5


def test_a_wrong_name_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("a,b,kind\n" + "1,2,x\n3,5,y\n" * 10)
    command = ["fit", str(tmp_path / "t.csv"), "--target", "kind", "--out", str(tmp_path / "run")]
    assert main([*command, "--gradient", "magic"]) == 2
    said = capsys.readouterr().err
    assert "'gradient'" in said
    assert "straight_through" in said
    assert "'magic'" in said
