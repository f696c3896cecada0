"""Neighbours over a threshold: their law by enumeration, its likelihood and gradients, and how T is set and learned."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chances import p_value
from latentgraph import DGMNet, DiscreteDGM, InputError, LatentGraph, PoincareBall, graph_loss
from latentgraph.deadline import deadline_log_likelihood, log_arrived, log_chance
from latentgraph.degrees import Threshold
from latentgraph.geometry import Euclidean, Geometry
from latentgraph.gradients import PlackettLuce, Softmax, StraightThrough
from latentgraph.gradients.gradient import Gradient
from latentgraph.loss import log_probability_reward
from latentgraph.probability import log_p_of_neighbors, log_rest
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, classification, fit

N = 5


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(n: int = N, seed: int = 0) -> Tensor:
    return torch.randn(n, 2, generator=seeded(seed), dtype=torch.float64)


def law_of_sets(rate: dict[int, float], most: int, s: float) -> dict[frozenset[int], float]:
    """The chance of each set, in closed form: the product of :math:`1 - e^{-p tau}` is multiplied out."""
    law = {}
    for size in range(most + 1):
        for chosen in combinations(rate, size):
            q = sum(rate.values()) - sum(rate[j] for j in chosen)
            chance = float(np.exp(-q * s) * np.prod([1 - np.exp(-rate[j] * s) for j in chosen]))
            if size == most and q > 0:
                for r in range(size + 1):
                    for some in combinations(chosen, r):
                        total = q + sum(rate[j] for j in some)
                        chance += (-1) ** r * q * (1 - np.exp(-total * s)) / total
            law[frozenset(chosen)] = chance
    return law


def rates(x: Tensor, i: int, geometry: Geometry, temperature: float, loop: bool) -> dict[int, float]:
    square = geometry.sq_dist(x[i], x)
    return {j: float((-temperature * square[j]).exp()) for j in range(len(x)) if loop or j != i}


@pytest.mark.parametrize(
    ("k", "cutoff", "loop", "geometry"),
    [
        (4, -0.5, False, Euclidean()),  # no more than 4 can come: each edge by itself
        (2, -0.5, False, Euclidean()),  # often full
        (2, 0.5, True, Euclidean()),
        (3, -3.0, False, PoincareBall()),  # nearly always full
    ],
)
def test_law_by_enumeration(
    k: int, cutoff: float, loop: bool, geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: the times of arrival do not fit to their order, or to those who have not arrived."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", 1 << 12)
    copies, x = 4000, geometry.project(0.3 * points())
    batch = torch.arange(copies).repeat_interleave(N)
    dgm = DiscreteDGM(nn.Identity(), k, geometry=geometry, temperature=9.0, loop=loop, degrees=Threshold(cutoff))
    graph = dgm(x.repeat(copies, 1), batch=batch, generator=seeded(1))
    neighbors = graph.neighbors.view(copies, N, k) % N
    kept = graph.kept.view(copies, N, k)
    for i in range(N):
        law = law_of_sets(rates(x, i, geometry, 9.0, loop), k, float(np.exp(-cutoff)))
        rows = zip(neighbors[:, i], kept[:, i], strict=True)
        found = Counter(frozenset(row[there].tolist()) for row, there in rows)
        assert p_value(found, law) > 1e-3


def set_of(x: Tensor, chosen: tuple[int, ...], i: int, k: int, t: Tensor, cutoff: Tensor, geometry: Geometry) -> Tensor:
    """log P of one set of node i's neighbours, by way of a graph in which all nodes have some."""
    others = [j for j in range(len(x)) if j != i and j not in chosen]
    row = torch.tensor([*chosen, *others][:k])
    neighbors = torch.stack(
        [row if j == i else torch.tensor([m for m in range(len(x)) if m != j][:k]) for j in range(len(x))]
    )
    kept = torch.ones_like(neighbors, dtype=torch.bool)
    kept[i] = torch.arange(k) < len(chosen)
    graph = LatentGraph(x, t, geometry, neighbors=neighbors, kept=kept, cutoff=cutoff)
    return deadline_log_likelihood(graph)[i]


@pytest.mark.parametrize("cutoff", [-6.0, -1.0, 1.0, 8.0])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_likelihood_by_enumeration(k: int, cutoff: float) -> None:
    """Broken: the likelihood of a set, full or not, with a deadline that hardly any, or all, meet."""
    x, t, at = points(), torch.tensor(1.5, dtype=torch.float64), torch.tensor(cutoff, dtype=torch.float64)
    for i in (0, 3):
        law = law_of_sets(rates(x, i, Euclidean(), 1.5, False), k, float(np.exp(-cutoff)))
        for chosen, chance in law.items():
            if chance > 1e-10:  # the closed form cancels
                found = set_of(x, tuple(chosen), i, k, t, at, Euclidean())
                assert float(found.exp()) == pytest.approx(chance, rel=1e-6)


@pytest.mark.parametrize("geometry", [Euclidean(), PoincareBall(0.5)])
def test_gradients_of_the_likelihood(geometry: Geometry) -> None:
    """By finite differences in the embedding, the temperature and T, of sets that are full, half full and empty."""
    t, at = torch.tensor(1.2, dtype=torch.float64), torch.tensor(-0.4, dtype=torch.float64)
    x = geometry.project(0.5 * points())
    neighbors = torch.tensor([[1, 2], [0, 3], [4, 1], [2, 0], [3, 1]])
    kept = torch.tensor([[True, True], [True, False], [False, False], [True, True], [True, False]])

    def likely(x: Tensor, t: Tensor, at: Tensor) -> Tensor:
        return deadline_log_likelihood(LatentGraph(x, t, geometry, neighbors=neighbors, kept=kept, cutoff=at))

    assert torch.autograd.gradcheck(likely, (x.requires_grad_(), t.requires_grad_(), at.requires_grad_()))


def test_the_expected_score_is_zero() -> None:
    """What makes rewards unbiased, also where the cap is met: sum P(S) grad log P(S) = 0, in T as well."""
    x, at = points().requires_grad_(), torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(1.0, dtype=torch.float64)
    law = law_of_sets(rates(x.detach(), 0, Euclidean(), 1.0, False), 2, float(np.exp(0.5)))
    score = sum(chance * set_of(x, tuple(chosen), 0, 2, t, at, Euclidean()) for chosen, chance in law.items())
    assert isinstance(score, Tensor)
    for grad in torch.autograd.grad(score, (x, at)):
        torch.testing.assert_close(grad, torch.zeros_like(grad), atol=1e-6, rtol=0)


def test_likelihood_of_extreme_probabilities() -> None:
    """Broken: it overflows, or its gradient is nan, far away, near by, with nobody left or with no time."""
    log_p = torch.tensor(
        [[-1e5, -2e5], [0.0, -800.0], [-1e-9, -1e-9], [-30.0, 0.0]], dtype=torch.float64, requires_grad=True
    )
    rest = torch.tensor([-torch.inf, 12.0, -1e4, -1e5], dtype=torch.float64)
    for full in (True, False):
        kept = torch.tensor([[True, full]]).expand(4, 2)
        for cutoff in (-500.0, -5.0, 0.0, 300.0):
            at = torch.tensor(cutoff, dtype=torch.float64, requires_grad=True)
            found = log_chance(log_p, kept, rest, at)
            assert (found <= 1e-9).all()
            assert all(
                grad.isfinite().all() for grad in torch.autograd.grad(found[found.isfinite()].sum(), (log_p, at))
            )
    u = torch.tensor([-1e6, -25.0, 0.0, 1e6], dtype=torch.float64, requires_grad=True)
    found = log_arrived(u)
    torch.testing.assert_close(found.detach(), torch.tensor([-1e6, -25.0, np.log(1 - np.exp(-1)), 0.0]).double())
    assert torch.autograd.grad(found.sum(), u)[0].isfinite().all()


def test_the_rest_is_the_sum_over_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x, t = points(9), torch.tensor(0.8, dtype=torch.float64)
    neighbors = torch.tensor([[(i + 1) % 9, (i + 4) % 9] for i in range(9)])
    p = (-0.8 * Euclidean().sq_cdist(x, x)).exp()
    others = torch.ones(9, 9, dtype=torch.bool).scatter(1, neighbors, False).fill_diagonal_(False)
    expected = (p * others).sum(1).log()
    for block in (1 << 20, 20):
        monkeypatch.setattr("latentgraph.blocks.BLOCK", block)
        torch.testing.assert_close(log_rest(x, neighbors, t, Euclidean()), expected)
        # Rows 6 to 8 as guests, who choose among the first six.
        theirs = log_rest(x, neighbors[6:] % 6, t, Euclidean(), loop=True, first_row=6, among=6)
        among = torch.ones(3, 6, dtype=torch.bool).scatter(1, neighbors[6:] % 6, False)
        torch.testing.assert_close(theirs, (p[6:, :6] * among).sum(1).log())
    torch.testing.assert_close(log_p_of_neighbors(x, neighbors, t, Euclidean()), p.gather(1, neighbors).log())


def sampled(gradient: Gradient | None = None) -> tuple[DiscreteDGM, Any]:
    dgm = DiscreteDGM(nn.Identity(), 3, temperature=1.0, degrees=Threshold(-0.7), gradient=gradient)
    return dgm, dgm(points(8).requires_grad_(), generator=seeded(2))


def test_who_teaches_the_threshold() -> None:
    """Softmax weights move f but not T; chances of edges and the likelihood move both."""
    for gradient, learns in ((Softmax(), False), (StraightThrough(), False), (StraightThrough("p"), True)):
        dgm, graph = sampled(gradient)
        assert isinstance(dgm.degrees, Threshold)
        assert (graph.weights[~graph.kept] == 0).all()
        loss = (graph.weights * torch.rand(8, 3, generator=seeded(3), dtype=torch.float64)).sum()
        of_x, of_t = torch.autograd.grad(loss, (graph.x_hat, dgm.degrees.value), allow_unused=True)
        assert of_x.ne(0).any()
        assert (of_t is not None and float(of_t) != 0) == learns
    dgm, graph = sampled()
    delta = torch.rand(8, generator=seeded(4), dtype=torch.float64)
    loss = graph_loss(graph, delta, likelihood="plackett_luce")
    torch.testing.assert_close(loss, (delta * deadline_log_likelihood(graph)).sum())
    assert isinstance(dgm.degrees, Threshold)
    assert float(torch.autograd.grad(loss, dgm.degrees.value)[0]) != 0


@pytest.mark.parametrize("mean", [None, 3.0])
def test_the_threshold_is_set_from_the_data(mean: float | None) -> None:
    """Broken: the first graph has another number of edges than asked for (k / 2 by default)."""
    dgm = DiscreteDGM(nn.Identity(), 20, degrees=Threshold(mean=mean))
    graph = dgm(points(300), generator=seeded())
    assert float(graph.degrees.double().mean()) == pytest.approx(mean or 10.0, rel=0.15)
    assert graph.degrees.unique().numel() > 5
    value = dict(dgm.named_parameters())["degrees.value"]
    before = value.item()
    dgm(points(300, seed=5))
    assert value.item() == before  # set once


def test_without_noise_it_is_a_radius() -> None:
    x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
    graph = DiscreteDGM(nn.Identity(), 3, temperature=1.0, noise=False, degrees=Threshold(-5.0))(x)
    assert graph.degrees.tolist() == [1, 2, 2, 1]  # within sqrt(5)


def test_a_guest_draws_the_same_in_any_company() -> None:
    dgm = DiscreteDGM(nn.Identity(), 4, temperature=1.0, degrees=Threshold(-0.5))
    x = points(14)
    alone = dgm(x[:12], guests=2, keys=torch.tensor([5, 9]), generator=seeded(3))
    other = dgm(torch.cat([x[:10], x[12:], x[11:12]]), guests=3, keys=torch.tensor([1, 2, 9]), generator=seeded(3))
    assert torch.equal(alone.kept[:10], other.kept[:10])
    assert torch.equal(alone.kept[-1], other.kept[-1])


def test_training_moves_f_and_the_threshold() -> None:
    torch.manual_seed(0)
    x = torch.randn(30, 4)
    nodes = NodeSet(x, (x[:, 0] > 0).long())
    for gradient, task in ((StraightThrough("p"), None), (PlackettLuce(), classification(log_probability_reward))):
        dgm = DiscreteDGM(nn.Linear(4, 2), 5, degrees=Threshold())
        net = DGMNet([(dgm, gcn([4, 8, 2]))])
        net(x)  # sets T and t
        before = {name: value.clone() for name, value in dgm.state_dict().items()}
        fit(net, nodes, gradient=gradient, task=task, steps=3)
        after = dgm.state_dict()
        assert not torch.equal(before["embed.weight"], after["embed.weight"])
        assert not torch.equal(before["degrees.value"], after["degrees.value"])


def test_what_makes_no_sense() -> None:
    with pytest.raises(InputError, match="value, or a mean"):
        Threshold(1.0, mean=2.0)
    with pytest.raises(InputError, match="finite"):
        Threshold(float("nan"))
    with pytest.raises(InputError, match="must be positive"):
        Threshold(mean=0.0)
