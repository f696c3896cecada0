"""The sampler against the law it claims: Plackett-Luce over ordered neighbours, with fixed seeds.

A call with many copies of one small graph as a `batch` gives thousands of independent draws. The law is enumerated in
double precision from the points the sampler saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from latentgraph import Euclidean, PoincareBall, Sphere, gumbel_top_k
from latentgraph.geometry import Geometry
from spaces import SPACES, Space, every_dtype, every_space

SMALLEST_P = 1e-4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of about 20 tiny graphs: the default would spend its time on pairs across graphs."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", 1 << 14)


def log_weights(x: Tensor, temperature: float, geometry: Geometry, loop: bool) -> Tensor:
    """log p_ij by the formula, in double precision, -inf where j is no candidate: (n, n)."""
    points = geometry.project(x).double()
    log_p = -temperature * geometry.sq_dist(points[:, None], points[None, :])
    return log_p if loop else log_p.fill_diagonal_(-torch.inf)


def ordered_law(log_w: Tensor, k: int) -> np.ndarray:
    """P(j_1, ..., j_k) for one row, by one draw after another from what is left: a (n, ..., n) array."""
    law = np.zeros((len(log_w),) * k)
    candidates = log_w.isfinite().nonzero()[:, 0].tolist()
    for sample in permutations(candidates, k):
        probability, left = 1.0, log_w.clone()
        for j in sample:
            probability *= float(left.softmax(0)[j])
            left[j] = -torch.inf
        law[sample] = probability
    return law


def draws(
    x: Tensor, k: int, temperature: float, geometry: Geometry, *, loop: bool, copies: int, backend: str, seed: int = 0
) -> Tensor:
    """Independent samples of one graph, with node numbers of that graph: (copies, n, k)."""
    n = len(x)
    sample = gumbel_top_k(
        x.repeat(copies, 1),
        k,
        temperature,
        geometry=geometry,
        loop=loop,
        batch=torch.arange(copies).repeat_interleave(n),
        generator=torch.Generator().manual_seed(seed),
        backend=backend,
    )
    return sample.view(copies, n, k) - n * torch.arange(copies)[:, None, None]


def p_value(sample: Tensor, law: np.ndarray) -> float:
    """Chi-square p-value of samples (m, k) under a law over all (n, ..., n) ordered samples."""
    cell = np.ravel_multi_index(tuple(sample.T.numpy()), law.shape)
    counts, expected = np.bincount(cell, minlength=law.size), law.ravel() * len(sample)
    assert counts[expected == 0].sum() == 0, "an impossible sample was drawn"
    counts, expected = counts[expected > 0], expected[expected > 0]
    order = np.argsort(expected)
    rare = int(np.searchsorted(np.cumsum(expected[order]), 10.0)) + 1  # the rarest cells become one that expects 10
    rare = max(rare, int((expected < 10).sum()))
    counts = np.append(counts[order[rare:]], counts[order[:rare]].sum())
    expected = np.append(expected[order[rare:]], expected[order[:rare]].sum())
    if len(counts) == 1:
        return 1.0
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def check_law(sample: Tensor, x: Tensor, k: int, temperature: float, geometry: Geometry, loop: bool) -> None:
    log_w = log_weights(x, temperature, geometry, loop)
    p = [p_value(sample[:, i], ordered_law(log_w[i], k)) for i in range(sample.shape[1])]
    assert min(p) > SMALLEST_P, p


def gaussian(n: int, dim: int = 2, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@dataclass(frozen=True)
class Graph:
    name: str
    x: Tensor
    k: int
    temperature: float
    geometry: Geometry
    loop: bool = False


TWINS = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.3, 0.8]])
LARGE_SAMPLES = [
    Graph("flat", gaussian(4), 2, 1e-6, Euclidean()),
    Graph("peaked", gaussian(5, seed=1), 2, 6.0, Euclidean()),
    Graph("twins", TWINS, 3, 2.0, Euclidean(), loop=True),
    Graph("hyperbolic", 0.5 * gaussian(4, seed=2), 3, 0.2, PoincareBall(1.5), loop=True),
    Graph("everybody", gaussian(4, 3, seed=3), 3, 0.5, Sphere()),
]


@pytest.mark.parametrize("graph", LARGE_SAMPLES, ids=lambda graph: graph.name)
def test_law_of_a_hundred_thousand_graphs(graph: Graph, backend: str) -> None:
    """Any bias of the sampler above half a percent, in the set of neighbours or in their order."""
    g = graph
    sample = draws(g.x, g.k, g.temperature, g.geometry, loop=g.loop, copies=100_000, backend=backend)
    check_law(sample, g.x, g.k, g.temperature, g.geometry, g.loop)


@every_space
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(("n", "k", "temperature"), [(6, 1, 3.0), (5, 2, 0.3), (5, 3, 1.0)])
def test_law_in_every_space(space: Space, loop: bool, n: int, k: int, temperature: float, backend: str) -> None:
    """A space whose distances are not the ones sampled with, or a self-edge that is (or is not) a candidate."""
    geometry, x = space.geometry(1.0), 0.4 * gaussian(n, space.width or 2, seed=n + k)
    x[-1] = x[0]
    sample = draws(x, k, temperature, geometry, loop=loop, copies=8_000, backend=backend, seed=k)
    check_law(sample, x, k, temperature, geometry, loop)


@every_dtype
@pytest.mark.parametrize("temperature", [1e-3, 0.1, 1.0, 10.0])
def test_law_at_every_temperature(dtype: torch.dtype, temperature: float, backend: str) -> None:
    """A temperature that divides instead of multiplying, or is applied to the noise."""
    x = gaussian(4, 3, seed=9, dtype=dtype)
    sample = draws(x, 2, temperature, Euclidean(), loop=False, copies=8_000, backend=backend, seed=5)
    check_law(sample, x, 2, temperature, Euclidean(), False)


def test_a_wrong_law_is_found(backend: str) -> None:
    """The test itself: a temperature 5 % off must not pass."""
    x = gaussian(5, seed=1)
    sample = draws(x, 2, 1.0, Euclidean(), loop=False, copies=12_000, backend=backend)
    wrong = log_weights(x, 1.05, Euclidean(), False)
    assert min(p_value(sample[:, i], ordered_law(wrong[i], 2)) for i in range(5)) < SMALLEST_P


def test_law_over_many_seeds(backend: str) -> None:
    """Samples of one graph over a training run, one generator: the only way most users ever draw."""
    x, generator = gaussian(5, seed=6), torch.Generator().manual_seed(7)
    sample = torch.stack([gumbel_top_k(x, 2, 0.8, generator=generator, backend=backend) for _ in range(4000)])
    check_law(sample, x, 2, 0.8, Euclidean(), False)
    first = sample[:, :, 0]
    for i in range(5):
        assert independent(first[1:, i], first[:-1, i]) > SMALLEST_P


def independent(a: Tensor, b: Tensor) -> float:
    """p-value of a chi-square test of independence between two columns of labels."""
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a.numpy(), b.numpy()), 1)
    table = table[table.sum(1) > 0][:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue)


def test_rows_are_independent(backend: str) -> None:
    """Two nodes of a graph, or the same node of two graphs, that share noise: the variance of the loss would be off."""
    first = draws(gaussian(5, seed=8), 1, 0.2, Euclidean(), loop=False, copies=25_000, backend=backend)[:, :, 0]
    p = [independent(first[:, a], first[:, b]) for a, b in combinations(range(5), 2)]
    p += [independent(first[1:, a], first[:-1, b]) for a in range(5) for b in range(5)]
    other = draws(gaussian(5, seed=8), 1, 0.2, Euclidean(), loop=False, copies=25_000, backend=backend, seed=1)[:, :, 0]
    p += [independent(first[:, a], other[:, b]) for a in range(5) for b in range(5)]
    assert min(p) > SMALLEST_P


@every_dtype
def test_many_nodes_against_the_textbook(dtype: torch.dtype, backend: str) -> None:
    """n = 200: inclusion frequencies against the dense formula written out, first arrivals against the softmax."""
    n, k, temperature, repeats = 200, 8, 0.7, 500
    x, generator = gaussian(n, 3, seed=10, dtype=dtype), torch.Generator().manual_seed(11)
    log_w = log_weights(x, temperature, Euclidean(), False)
    ours, reference = torch.zeros(n, n), torch.zeros(n, n)
    first, second = torch.zeros(n, n), torch.zeros(n, n)
    ones = torch.ones(n, k)
    for _ in range(repeats):
        sample = gumbel_top_k(x, k, temperature, generator=generator, backend=backend)
        ours.scatter_add_(1, sample, ones)
        first.scatter_add_(1, sample[:, :1], ones)
        second.scatter_add_(1, sample[:, 1:2], ones)
        uniform = torch.rand(n, n, generator=generator, dtype=torch.float64)
        textbook = (log_w - (-uniform.log()).log()).topk(k, dim=1).indices
        reference.scatter_add_(1, textbook, ones)
    assert bool((ours.sum(1) == repeats * k).all())
    assert float(ours.diagonal().sum()) == 0

    share = (ours + reference) / (2 * repeats)
    common = (share > 0.02) & (share < 0.98)
    z = (ours - reference)[common] / (2 * repeats * share * (1 - share))[common].sqrt()
    assert len(z) > 5000
    assert float(z.abs().max()) < 5.5
    assert float(z.mean()) == pytest.approx(0.0, abs=0.05)
    assert float(z.square().mean()) == pytest.approx(1.0, abs=0.06)

    # P(j second) = sum over the first i of p_i p_j / (1 - p_i)
    p = log_w.softmax(1)
    odds = p / (1 - p)
    p_second = p * (odds.sum(1, keepdim=True) - odds)
    for counts, law in ((first, p), (second, p_second)):
        expected = (law / law.sum(1, keepdim=True) * repeats).numpy()
        often = expected > 5
        counted, expected = counts.numpy()[often], expected[often]
        excess = ((counted - expected) ** 2 / expected - (1 - expected / repeats)).sum()
        assert stats.norm.sf(abs(excess) / np.sqrt(2.5 * len(expected))) > SMALLEST_P


@pytest.mark.parametrize("loop", [False, True])
def test_outlier_in_single_precision(loop: bool, backend: str) -> None:
    """Log-probabilities near -7e7 that differ by 1: single precision has steps of 8 there, noise and all."""
    x = torch.tensor([[0.0], [2.0**-14], [2.0**-13], [-(2.0**-14)], [8192.0]])
    log_w = log_weights(x, 1.0, Euclidean(), loop)
    assert log_w[4, :4].diff().tolist() == pytest.approx([1.0, 1.0, -3.0], abs=1e-3)
    sample = draws(x, 3, 1.0, Euclidean(), loop=loop, copies=20_000, backend=backend)
    check_law(sample, x, 3, 1.0, Euclidean(), loop)
    if loop:
        assert bool((sample[:, 4, 0] == 4).all())


def test_temperature_beyond_the_range_of_single_precision() -> None:
    """0 * inf for coincident points: the twins must stay equally likely, and the fourth node come last.

    The tree refuses such temperatures.
    """
    x = torch.tensor([[0.0], [0.0], [0.0], [1e-3]])
    for k, loop in ((1, False), (2, False), (4, True)):
        sample = draws(x, k, 1e39, Euclidean(), loop=loop, copies=5000, backend="torch")
        check_law(sample[:, :3], x, k, 1e39, Euclidean(), loop)


@pytest.mark.parametrize("space", [space for space in SPACES if space.name != "euclidean"], ids=lambda s: s.name)
def test_points_are_projected_first(space: Space, backend: str) -> None:
    """Distances between raw vectors: far outside the ball and off the sphere they mean nothing."""
    geometry, x = space.geometry(1.0), 3 * gaussian(4, space.width or 2, seed=12)
    sample = draws(x, 2, 0.02, geometry, loop=False, copies=5000, backend=backend)
    check_law(sample, x, 2, 0.02, geometry, False)
    assert torch.equal(sample, draws(geometry.project(x), 2, 0.02, geometry, loop=False, copies=5000, backend=backend))


def test_unequal_graphs_of_a_batch(backend: str) -> None:
    """Graphs of different sizes that share a block: each follows the law of its own candidates."""
    sizes, points = [3, 6, 4], gaussian(13, seed=13)
    copies = 8000
    order = torch.arange(copies * 3).repeat_interleave(torch.tensor(sizes * copies))
    sample = gumbel_top_k(
        points.repeat(copies, 1), 2, 1.0, batch=order, generator=torch.Generator().manual_seed(14), backend=backend
    )
    sample = sample.view(copies, 13, 2) - 13 * torch.arange(copies)[:, None, None]
    start = 0
    for size in sizes:
        part = sample[:, start : start + size] - start
        check_law(part, points[start : start + size], 2, 1.0, Euclidean(), False)
        start += size


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_an_outlier_chooses_evenly_among_equals(far: float, backend: str) -> None:
    """Broken: the noise is rounded away beside log p, and a node far from all always chooses the same ones."""
    x_hat = torch.tensor([[0.0], [0.0], [0.0], [far]], dtype=torch.float64)
    outlier = torch.tensor([3])
    first = torch.cat(
        [
            gumbel_top_k(x_hat, 1, 1.0, query=outlier, generator=torch.Generator().manual_seed(seed), backend=backend)
            for seed in range(3000)
        ]
    )
    counts = first.flatten().bincount(minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3].numpy()).pvalue > 1e-3
