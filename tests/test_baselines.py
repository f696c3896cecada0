"""The methods a learned graph is compared with: that they learn, what they may see, and their formulas by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn import functional

from latentgraph.baselines import lds, population_graph
from latentgraph.baselines.dgcnn import DGCNN
from latentgraph.baselines.ensemble import Ensemble
from latentgraph.baselines.gcn import GAT, GCN, SkipGCN
from latentgraph.baselines.inception_gcn import InceptionGCN
from latentgraph.baselines.knn_gcn import KnnGCN
from latentgraph.baselines.lds import LDS
from latentgraph.baselines.method import Method, Population
from latentgraph.baselines.mlp import MLP
from latentgraph.baselines.multi_gcn import MultiGCN, MultiNet, symmetric_normalised
from latentgraph.baselines.population_graph import (
    Rule,
    agreement_rules,
    feature_similarity,
    graph_of_each,
    summed_graph,
)
from latentgraph.baselines.simple import Simple, linear_classifier, logistic_regression, random_forest
from latentgraph.baselines.spectral_gcn import Chebyshev, SpectralGCN, chebyshev_sum, rescaled_laplacian
from latentgraph.datasets.synthetic import planted_partition
from latentgraph.errors import InputError

N, CLASSES = 120, 3
CHANCE, BOUND = 1 / CLASSES, 0.6  # on 40 rows chance is above the bound in one of 6,000 cases
METHODS: dict[str, Callable[[int], Method]] = {
    "mlp": lambda seed: MLP(seed, steps=100),
    "gcn": lambda seed: GCN(seed, steps=60),
    "skip_gcn": lambda seed: SkipGCN(seed, steps=60),
    "gat": lambda seed: GAT(seed, steps=60),
    "ensemble": lambda seed: Ensemble(lambda one: GCN(one, steps=30), seed, members=2),
    "knn_gcn": lambda seed: KnnGCN(seed, steps=60),
    "dgcnn": lambda seed: DGCNN(seed, steps=60),
    "spectral_gcn": lambda seed: SpectralGCN(seed, steps=80),
    "multi_gcn": lambda seed: MultiGCN(seed, steps=60),
    "inception_gcn": lambda seed: InceptionGCN(seed, steps=80),
    "lds": lambda seed: LDS(seed, steps=20),
    "linear_classifier": lambda seed: linear_classifier(strengths=(0.01, 1.0)),
    "logistic_regression": lambda seed: logistic_regression(strengths=(0.01, 1.0)),
    "random_forest": lambda seed: random_forest(seed),
}
NEEDS_EDGES = ("gcn", "skip_gcn", "gat", "ensemble")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def problem() -> tuple[Population, Tensor, Tensor]:
    """A population with meta columns that know something of the class, all its classes, and the 40 rows to test on."""
    x, y, edge_index = planted_partition(N, num_classes=CLASSES, homophily=0.8, signal=0.8, features=8, seed=1)
    rng = np.random.default_rng(0)
    told = np.where(rng.random(N) < 0.6, y.numpy(), rng.integers(0, CLASSES, N))
    meta = {"site": np.array(["a", "b", "c"])[told], "age": 60 + 8 * y.numpy() + rng.normal(0, 6, N)}
    part = torch.tensor(rng.permutation(N) % 6)  # 0, 1: test; 2: stop; the others: learn
    test = part < 2
    return Population(x, y.masked_fill(test, -1), CLASSES, part == 2, edge_index, meta), y, test


def accuracy(predicted: Tensor, y: Tensor, rows: Tensor) -> float:
    return float((predicted == y)[rows].float().mean())


@pytest.mark.parametrize("name", METHODS)
def test_learns_and_repeats(name: str) -> None:
    """Well above chance on rows whose class was hidden, and the same seed gives the same predictions.

    The second time the hidden rows are among those to stop by. As their class is not known, that must change nothing.
    """
    population, y, test = problem()
    torch.manual_seed(5)
    first = METHODS[name](3).fit(population).predict(population)
    torch.manual_seed(6)  # the global random state must not matter
    assert population.stop is not None
    second = METHODS[name](3).fit(replace(population, stop=population.stop | test)).predict(population)
    assert first.shape == (N,)
    assert accuracy(first, y, test) > BOUND > CHANCE
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "lds"])
def test_fits_some_rows_and_predicts_all(name: str) -> None:
    """Inductive: the rows to be tested on join after training, and change nothing in what was learned."""
    population, y, test = problem()
    seen = replace(population, edge_index=None).select((~test).nonzero()[:, 0])
    method = METHODS[name](0)
    assert method.inductive
    if name in NEEDS_EDGES:
        assert population.edge_index is not None
        number = (~test).cumsum(0) - 1
        inside = (~test)[population.edge_index].all(0)
        seen = replace(seen, edge_index=number[population.edge_index[:, inside]])
    predicted = method.fit(seen).predict(population)
    assert predicted.shape == (N,)
    assert accuracy(predicted, y, test) > BOUND


@pytest.mark.parametrize("name", METHODS)
def test_only_known_classes_are_used(name: str) -> None:
    """With two known classes swapped, predictions of hidden rows are swapped: they come from nowhere else."""
    population, y, test = problem()
    swap = torch.tensor([1, 0, 2, -1])  # the last for -1
    predicted = METHODS[name](0).fit(replace(population, y=swap[population.y])).predict(population)
    assert accuracy(predicted, swap[y], test) > BOUND
    assert accuracy(predicted, y, test) < 0.5


def test_lds_refuses_other_rows() -> None:
    population, _, test = problem()
    method = LDS(0, steps=1).fit(population)
    assert not method.inductive
    with pytest.raises(InputError, match=r"fitted on 120 rows.* \(here 40 rows\).*class -1") as failure:
        method.predict(replace(population, edge_index=None).select(test.nonzero()[:, 0]))
    assert "inductive" in str(failure.value)


# Simple methods


class Remembers:
    """A classifier that always says the class 0 and scores by its strength."""

    seen: ClassVar[list[int]] = []

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def fit(self, x: Any, y: Any) -> Remembers:
        self.rows = len(x)
        return self

    def score(self, x: Any, y: Any) -> float:
        self.seen.append(len(x))
        return -abs(self.strength - 2)

    def predict(self, x: Any) -> Any:
        return np.zeros(len(x), dtype=int)


@pytest.mark.parametrize(("refit", "rows"), [(True, 80), (False, 60)])
def test_strength_is_chosen_on_the_rows_to_stop_by(refit: bool, rows: int) -> None:
    population, _, _ = problem()
    Remembers.seen.clear()
    method = Simple(Remembers, strengths=(1.0, 2.0, 4.0), refit=refit).fit(population)
    assert Remembers.seen == [20, 20, 20]
    assert (method.model.strength, method.model.rows) == (2.0, rows)


def test_logistic_regression_takes_the_better_strength() -> None:
    """Against a choice made here."""
    from sklearn.linear_model import LogisticRegression

    population, _, _ = problem()
    learn, stop = population.learn.numpy(), (population.known & ~population.learn).numpy()
    x, y = population.x.double().numpy(), population.y.numpy()
    strengths = (1e-4, 1.0)
    scores = [LogisticRegression(C=c).fit(x[learn], y[learn]).score(x[stop], y[stop]) for c in strengths]
    assert scores[0] != scores[1]
    method = logistic_regression(strengths=strengths).fit(population)
    assert strengths[int(np.argmax(scores))] == method.model.C


# Population graphs


def people(x: Tensor, **meta: Any) -> Population:
    return Population(x, torch.full((len(x),), -1), 2, meta={name: np.array(values) for name, values in meta.items()})


def test_population_graph_by_hand() -> None:
    """Correlations 1, -1 and 1/2, each pair written out."""
    x = torch.tensor([[0.0, 1.0, 2.0], [1.0, 3.0, 5.0], [2.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    group = people(x, sex=["f", "m", "f", "f"], age=np.array([70.0, 71.5, 73.0, 71.9]))
    rules = (Rule("sex", None), Rule("age", 2.0))
    distance = {(0, 1): 0.0, (0, 2): 2.0, (0, 3): 0.5, (1, 2): 2.0, (1, 3): 0.5, (2, 3): 1.5}
    agreed = {(0, 1): (0, 1), (0, 2): (1, 0), (0, 3): (1, 1), (1, 2): (0, 1), (1, 3): (0, 1), (2, 3): (1, 1)}
    sigma = sum(distance.values()) / 6
    each = torch.zeros(2, 4, 4)
    for (i, j), rho in distance.items():
        for m in range(2):
            each[m, i, j] = each[m, j, i] = agreed[i, j][m] * math.exp(-(rho**2) / (2 * sigma**2))
    torch.testing.assert_close(graph_of_each(group, rules), each)
    torch.testing.assert_close(summed_graph(group, rules), each.sum(0))


def test_rules() -> None:
    """Names, truth values and few numbers must be equal; other numbers close, by their spread or as told."""
    rng = np.random.default_rng(0)
    age = rng.normal(70, 8, 50)
    meta = {
        "sex": rng.choice(["f", "m"], 50),
        "smokes": rng.random(50) < 0.5,
        "gene": rng.integers(0, 3, 50),
        "year": np.arange(50),
        "age": np.where(np.arange(50) == 7, np.nan, age),
    }
    group = people(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)), **meta)
    rules = {rule.column: rule.threshold for rule in agreement_rules(group, {"age": 2.0})}
    assert rules == {
        "sex": None,
        "smokes": None,
        "gene": None,
        "year": pytest.approx(np.arange(50).std() / 4),
        "age": 2,
    }
    by_spread = {rule.column: rule.threshold for rule in agreement_rules(group)}
    assert by_spread["age"] == pytest.approx(np.delete(age, 7).std() / 4)
    assert not Rule("age", 2.0).agree(group)[7].any()  # no age, no agreement


def test_a_missing_category_agrees_with_nobody() -> None:
    group = people(torch.eye(4), sex=np.array(["f", None, None, "f"], dtype=object))
    assert Rule("sex", None).agree(group).nonzero().tolist() == [[0, 0], [0, 3], [3, 0], [3, 3]]


def test_features_stand_in_for_meta_columns() -> None:
    """Those with the fewest values first, at most four; a constant says nothing, and labels are not looked at."""
    generator = torch.Generator().manual_seed(0)
    values = [1, 41, 30, 2, 2, 5, 40, 3]  # how many different ones in each column
    columns = [torch.arange(100).remainder(v)[torch.randperm(100, generator=generator)] for v in values]
    group = people(torch.stack(columns, 1).float())
    rules = agreement_rules(group)
    assert [rule.column for rule in rules] == [3, 4, 7, 5]
    assert rules == agreement_rules(replace(group, y=torch.arange(100) % 2))
    expected = [(columns[j][:, None] == columns[j]) * feature_similarity(group.x) for j in (3, 4, 7, 5)]
    torch.testing.assert_close(graph_of_each(group), torch.stack(expected))


def test_without_anything_to_agree_in_the_most_similar_are_joined() -> None:
    group = people(torch.randn(60, 5, generator=torch.Generator().manual_seed(0)))
    weights = summed_graph(group)
    similarity = feature_similarity(group.x)
    tenth = similarity.sort(1, descending=True).values[:, population_graph.NEAREST - 1]
    near = similarity >= tenth[:, None]
    torch.testing.assert_close(weights, similarity * (near | near.T))
    assert torch.equal(graph_of_each(group), weights[None])


@pytest.mark.parametrize("kind", ["meta", "features alone"])
def test_population_graphs_are_symmetric_without_loops(kind: str) -> None:
    population, _, _ = problem()
    group = population if kind == "meta" else replace(population, meta={})
    for weights in (summed_graph(group)[None], graph_of_each(group)):
        assert weights.dtype == torch.float32
        assert torch.equal(weights, weights.transpose(1, 2))
        assert not weights.diagonal(dim1=1, dim2=2).any()
        assert (weights >= 0).all()
    assert torch.equal(summed_graph(group), summed_graph(group))


def test_similarity_of_degenerate_rows_is_finite() -> None:
    """Equal numbers in a row have no correlation; equal rows have no spread of distances."""
    assert feature_similarity(torch.tensor([[1.0, 1.0], [0.0, 1.0], [2.0, 2.0]])).isfinite().all()
    torch.testing.assert_close(feature_similarity(torch.tensor([[0.0, 1.0]] * 3)), 1 - torch.eye(3))


def test_rules_are_those_of_the_fitted_population() -> None:
    """A value that comes later does not change how many graphs there are, nor what they mean."""
    population, _, _ = problem()
    flag = (torch.arange(N) % 2).float()[:, None]
    group = replace(population, x=torch.cat([population.x, flag], 1), meta={}, edge_index=None)
    method = MultiGCN(0, steps=2).fit(group)
    later = group.x.clone()
    later[:60, -1] = torch.arange(60) + 2.0
    assert agreement_rules(replace(group, x=later)) != method.rules
    assert method.predict(replace(group, x=later)).shape == (N,)


# Networks on them


def random_weights(n: int, seed: int = 0) -> Tensor:
    weights = torch.rand(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).triu(1)
    weights = weights * (weights > 0.5)
    return weights + weights.T


def test_rescaled_laplacian() -> None:
    """Eigenvalues in [-1, 1], both ends taken by a connected graph; by hand for a pair; finite for who stands alone."""
    values = torch.linalg.eigvalsh(rescaled_laplacian(random_weights(12)))
    assert [float(values[0]), float(values[-1])] == pytest.approx([-1, 1])
    pair = torch.tensor([[0.0, 3.0], [3.0, 0.0]])
    torch.testing.assert_close(rescaled_laplacian(pair), torch.tensor([[0.0, -1.0], [-1.0, 0.0]]))
    assert rescaled_laplacian(torch.zeros(3, 3)).isfinite().all()


@pytest.mark.parametrize("order", [0, 1, 2, 3, 6])
def test_chebyshev_recursion(order: int) -> None:
    """Against T_k(lambda) = cos(k arccos lambda) of the eigenvalues."""
    laplacian = rescaled_laplacian(random_weights(12))
    values, vectors = torch.linalg.eigh(laplacian)
    generator = torch.Generator().manual_seed(1)
    terms = [torch.randn(12, 4, generator=generator, dtype=torch.float64) for _ in range(order + 1)]
    polynomials = [(k * values.clamp(-1, 1).arccos()).cos() for k in range(order + 1)]
    expected = sum(vectors @ (p[:, None] * (vectors.T @ term)) for p, term in zip(polynomials, terms, strict=True))
    torch.testing.assert_close(chebyshev_sum(terms, laplacian), expected)


def test_chebyshev_convolution() -> None:
    """Its weights are those of one linear map of [T_0 X | T_1 X | T_2 X]."""
    laplacian = rescaled_laplacian(random_weights(9)).float()
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    layer = Chebyshev(5, 3, order=2)
    basis = torch.cat([x, laplacian @ x, 2 * laplacian @ laplacian @ x - x], dim=1)
    torch.testing.assert_close(layer(x, laplacian), layer.linear(basis))


def test_attention_of_branches() -> None:
    """Sums to one over the branches for each class, before and after training; training moves it."""
    population, _, _ = problem()
    method = MultiGCN(0, steps=30).fit(population)
    assert isinstance(method.net, MultiNet)
    attention = method.net.attention.detach()
    assert attention.shape == (2, CLASSES)
    torch.testing.assert_close(attention.sum(0), torch.ones(CLASSES))
    assert not torch.equal(attention, torch.full_like(attention, 0.5))


def test_multi_gcn_is_the_weighted_sum_of_its_branches() -> None:
    population, _, _ = problem()
    net = MultiNet(2, population.x.shape[1], 4, CLASSES, 0.3).eval()
    torch.nn.init.normal_(net.trust)
    graphs = symmetric_normalised(graph_of_each(population))
    alone = []
    for m in range(2):
        net.trust.data, kept = torch.full((2, CLASSES), -1e9).index_fill(0, torch.tensor(m), 0.0), net.trust.data
        alone.append(net(population.x, graphs)[0])
        net.trust.data = kept
    expected = net.attention[0] * alone[0] + net.attention[1] * alone[1]
    torch.testing.assert_close(net(population.x, graphs)[0], expected)


# LDS


def test_hypergradient_against_finite_differences() -> None:
    """Through three steps of Adam that has been going on for a while, on the expected graph: nothing is random."""
    n, generator = 6, torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    theta = torch.rand(n, n, generator=generator, dtype=torch.float64).triu(1)
    theta = theta + theta.T
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = lds.DenseGCN(3, 4, 2, dropout=0.0).double()

    def loss(rows: slice) -> lds.Loss:
        def of(weights: lds.Weights, graph: Tensor) -> Tensor:
            out: Tensor = torch.func.functional_call(net, dict(weights), (x, graph))
            return functional.cross_entropy(out[rows], y[rows])

        return of

    inner, outer = loss(slice(0, 4)), loss(slice(4, 6))
    start = lds.Trained.new({name: weight.detach() for name, weight in net.named_parameters()})

    def search(theta: Tensor, trained: lds.Trained) -> lds.Found:
        return lds.hypergradient(theta, trained, inner=inner, outer=outer, draw=lambda t: t, tau=3, lr=0.1)

    begun = search(theta, start).trained
    found = search(theta, begun).gradient
    assert torch.equal(found, found.T)
    graph = theta.clone().requires_grad_()
    (direct,) = torch.autograd.grad(outer(search(theta, begun).trained.weights, graph), graph)
    assert not torch.allclose(found, direct + direct.T, rtol=0.1)  # the way through the weights matters here
    step = 1e-6
    for i, j in [(0, 1), (0, 4), (2, 5), (3, 4), (4, 5)]:
        ends = []
        for sign in (1, -1):
            moved = theta.clone()
            moved[i, j] += sign * step
            moved[j, i] += sign * step
            ends.append(float(outer(search(moved, begun).trained.weights, moved).detach()))
        assert float(found[i, j]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-9)


def test_adam_is_torchs() -> None:
    """Up to the small number under the root, where torch has it beside the root."""
    weight = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    theirs = weight.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    ours = lds.Trained.new({"w": weight})
    for power in (1, 2, 3, 4):
        slope = weight**power
        theirs.grad = slope
        optimizer.step()
        ours = ours.after({"w": slope}, 0.1)
    torch.testing.assert_close(ours.weights["w"], theirs.detach(), rtol=1e-6, atol=1e-6)


def test_sampled_graphs_have_their_law() -> None:
    """All eight graphs of three nodes as often as their probability says (chi-square), symmetric, slope one."""
    p01, p02, p12 = 0.2, 0.5, 0.9
    theta = torch.tensor([[0, p01, p02], [p01, 0, p12], [p02, p12, 0]], dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(4000):
        graph = lds.sample_graph(theta.detach(), generator)
        assert torch.equal(graph, graph.T)
        counts[tuple(int(graph[i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))] += 1
    outcomes = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    law = [math.prod(p if e else 1 - p for p, e in zip((p01, p02, p12), o, strict=True)) for o in outcomes]
    assert stats.chisquare([counts[o] for o in outcomes], 4000 * np.array(law)).pvalue > 0.01
    (slope,) = torch.autograd.grad(lds.sample_graph(theta, generator).sum(), theta)
    assert torch.equal(slope, torch.ones(3, 3, dtype=torch.float64))


def test_lds_starts_from_the_nearest_rows_and_stays_in_its_bounds() -> None:
    population, _, _ = problem()
    method = LDS(0)
    with torch.random.fork_rng():
        search = method.start(population)
        theta = search.theta
        assert set(theta.unique().tolist()) == {0.0, 1.0}
        assert (theta.sum(1) >= method.k).all()
        for _ in range(2):
            search.step()
    assert not torch.equal(search.theta, theta)
    assert torch.equal(search.theta, search.theta.T)
    assert float(search.theta.min()) >= 0
    assert float(search.theta.max()) <= 1
    assert not search.theta.diagonal().any()


@pytest.mark.parametrize("stop", [True, False])
def test_rows_of_the_outer_problem(stop: bool) -> None:
    """The rows to stop by in two halves, or a third of the others; classes in proportion, none of the hidden rows."""
    population, _, _ = problem()
    group = population if stop else replace(population, stop=None)
    parts = lds.split(group, torch.Generator().manual_seed(0))
    assert [len(part) for part in parts] == ([60, 10, 10] if stop else [53, 14, 13])
    assert sorted(torch.cat(parts).tolist()) == group.known.nonzero()[:, 0].tolist()
    if stop:
        assert torch.equal(parts.learn, group.learn.nonzero()[:, 0])
    counts = [group.y[part].bincount(minlength=CLASSES) for part in (parts.outer, parts.watched)]
    assert int((counts[0] - counts[1]).abs().max()) <= 1


def test_lds_starts_again_when_training_stands_still() -> None:
    population, _, _ = problem()
    method = LDS(0)
    method.restart_after, method.lr = 1, 0.0  # nothing is learned: no loss is lower for long
    with torch.random.fork_rng():
        search = method.start(population)
        before = search.trained
        for _ in range(12):
            search.step()
    assert not torch.equal(before.weights["first.weight"], search.trained.weights["first.weight"])
