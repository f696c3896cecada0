"""The noise is a hash of (seed, row, column); it must behave like independent Exp(1) variables all the same.

Every p-value below comes from fixed seeds, so it is the same number in every run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from latentgraph.sampling.noise import draw_seed, exponential_noise
from spaces import every_dtype

SEEDS = [0, 1, 12345, (1 << 62) - 1]


def noise(seed: int, rows: int, columns: int, dtype: torch.dtype = torch.float32, first: int = 0) -> Tensor:
    return exponential_noise(seed, torch.arange(first, first + rows), torch.arange(first, first + columns), dtype)


def normal_scores(e: Tensor) -> Tensor:
    """Standard normal if e is Exp(1): correlations of these have a known law."""
    u = -torch.expm1(-e.double())
    return math.sqrt(2) * torch.erfinv(2 * u - 1)


def correlation_score(a: Tensor, b: Tensor) -> float:
    """Sum of products of independent normal scores, in standard deviations."""
    return float((a * b).sum()) / math.sqrt(a.numel())


@every_dtype
@pytest.mark.parametrize("seed", SEEDS)
def test_open_interval(seed: int, dtype: torch.dtype) -> None:
    """U = 0 or U = 1: a Gumbel variable that is infinite, which wins or loses whatever the distances say."""
    e = noise(seed, 1500, 1500, dtype)
    assert e.dtype == dtype
    assert bool(e.isfinite().all())
    assert bool((e > 0).all())
    assert bool((-e.log()).isfinite().all())
    # Of two million values the smallest is near 1/2e6 and the largest near log(2e6) = 14.6; in single precision the
    # largest is clamped to -log(eps) = 15.9.
    assert float(e.min()) < 1e-5
    assert 12 < float(e.max()) < 25


@every_dtype
@pytest.mark.parametrize("bits", [0, 1, 0x7FFFFFFF])
def test_open_interval_at_the_extreme_bits(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, bits: int) -> None:
    """The two ends of U, which are too rare to meet by chance: all random bits zero, all one."""
    monkeypatch.setattr("latentgraph.sampling.noise._keyed_bits", lambda *_: torch.tensor([[bits]], dtype=torch.int32))
    e = noise(0, 1, 1, dtype)
    assert bool(e.isfinite().all())
    assert bool((e > 0).all())
    if bits < 2:
        steps = bits + 0.5 if dtype == torch.float32 else bits + (bits + 0.5) * 2.0**-31
        assert e.item() == pytest.approx(steps * 2.0**-31, rel=1e-6)
    else:
        assert e.item() > 15


@every_dtype
@pytest.mark.parametrize("seed", SEEDS)
def test_exponential_law(seed: int, dtype: torch.dtype) -> None:
    """Another law than Exp(1), over a block, over one row and over one column."""
    e = noise(seed, 500, 500, dtype).double()
    assert stats.kstest(e.flatten().numpy(), "expon").pvalue > 1e-4
    assert stats.kstest(noise(seed, 1, 50_000, dtype).double().flatten().numpy(), "expon").pvalue > 1e-4
    assert stats.kstest(noise(seed, 50_000, 1, dtype).double().flatten().numpy(), "expon").pvalue > 1e-4
    for power in (1, 2, 3):
        expected, variance = math.factorial(power), math.factorial(2 * power) - math.factorial(power) ** 2
        score = (float((e**power).mean()) - expected) / math.sqrt(variance / e.numel())
        assert abs(score) < 4.5


@every_dtype
def test_every_bit_is_fair(dtype: torch.dtype) -> None:
    """A bit of U that is stuck or leans to one side, or two bits that move together."""
    u = -torch.expm1(-noise(3, 600, 600, dtype).double()).flatten()
    depth = 20 if dtype == torch.float32 else 40  # as far as 1 - exp(-E) gives the bits back
    bits = ((u[:, None] * 2.0 ** torch.arange(1, depth + 1)).floor() % 2) * 2 - 1
    scores = bits.sum(0) / math.sqrt(len(u))
    assert float(scores.abs().max()) < 4.5
    together = (bits.T @ bits) / math.sqrt(len(u))
    assert float(together.fill_diagonal_(0.0).abs().max()) < 5


def test_smallest_values_have_their_law() -> None:
    """The race is won by the smallest values: their law matters most and a KS test of all values sees it least."""
    smallest = noise(4, 2000, 5000).double().amin(1) * 5000  # the minimum of m Exp(1) is Exp(m)
    assert stats.kstest(smallest.numpy(), "expon").pvalue > 1e-4
    fastest = noise(4, 2000, 5000).argmin(1)
    counts = torch.bincount(fastest // 100, minlength=50).numpy()
    assert stats.chisquare(counts).pvalue > 1e-4


@every_dtype
@pytest.mark.parametrize("seed", SEEDS)
def test_neighbouring_values_are_independent(seed: int, dtype: torch.dtype) -> None:
    """Correlation along a row, along a column, along diagonals, or between (i, j) and (j, i)."""
    z = normal_scores(noise(seed, 500, 500, dtype))
    for down, right in [(0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (0, 7), (7, 0), (0, 64), (64, 0), (256, 0), (0, 256)]:
        assert abs(correlation_score(z[down:, right:], z[: 500 - down, : 500 - right])) < 4.5, (down, right)
    flipped = z.flip(1)
    assert abs(correlation_score(flipped[1:, 1:], flipped[:-1, :-1])) < 4.5
    i, j = torch.triu_indices(500, 500, 1)
    assert abs(correlation_score(z[i, j], z[j, i])) < 4.5


def test_pairs_fill_the_square() -> None:
    """Dependence that no correlation shows: neighbours of a row, of a column, and of two seeds, counted on a grid."""
    u = -torch.expm1(-noise(5, 1000, 1000).double())
    other_seed = -torch.expm1(-noise(6, 1000, 1000).double())
    pairs = [(u[:, ::2], u[:, 1::2]), (u[::2], u[1::2]), (u, other_seed), (u[:, :500], u[:, 500:]), (u[:500], u[500:])]
    for a, b in pairs:
        cell = (a * 32).long() * 32 + (b * 32).long()
        assert stats.chisquare(torch.bincount(cell.flatten(), minlength=1024).numpy()).pvalue > 1e-4


def test_rows_of_all_kinds_are_uncorrelated() -> None:
    """Any two rows, any two columns: the largest of half a million correlations, and their whole distribution."""
    for z in (normal_scores(noise(7, 1000, 2000)), normal_scores(noise(8, 2000, 1000)).T):
        gram = (z @ z.T) / math.sqrt(z.shape[1])
        off = gram[tuple(torch.triu_indices(1000, 1000, 1))]
        assert float(off.abs().max()) < 6
        assert float(off.square().mean()) == pytest.approx(1.0, abs=4.5 * math.sqrt(2 / len(off)))


@every_dtype
def test_seeds_are_independent(dtype: torch.dtype) -> None:
    """Two training steps with related noise: neighbouring seeds, seeds one bit apart, seeds drawn from a generator."""
    generator = torch.Generator().manual_seed(0)
    seeds = [*range(20), *(1 << b for b in range(5, 62, 4)), *(draw_seed(generator) for _ in range(30))]
    z = torch.stack([normal_scores(noise(seed, 60, 60, dtype)).flatten() for seed in seeds])
    gram = (z @ z.T) / math.sqrt(z.shape[1])
    off = gram[tuple(torch.triu_indices(len(z), len(z), 1))]
    assert float(off.abs().max()) < 5
    assert float(off.square().mean()) == pytest.approx(1.0, abs=4.5 * math.sqrt(2 / len(off)))


@every_dtype
def test_one_pair_over_many_seeds(dtype: torch.dtype) -> None:
    """The noise of one pair of nodes over the steps of a training run, as drawn from one generator."""
    generator = torch.Generator().manual_seed(1)
    e = torch.cat([noise(draw_seed(generator), 2, 2, dtype).view(1, 4) for _ in range(3000)])
    for column in e.T:
        assert stats.kstest(column.double().numpy(), "expon").pvalue > 1e-4
        z = normal_scores(column)
        assert abs(correlation_score(z[1:], z[:-1])) < 4.5


@every_dtype
@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_nodes_share_their_noise(seed: int, dtype: torch.dtype) -> None:
    """Two of 200,000 nodes with the same noise throughout: of two such candidates the farther never arrives first."""
    nodes, few = torch.arange(200_000), torch.arange(2)
    for e in (exponential_noise(seed, few, nodes, dtype), exponential_noise(seed, nodes, few, dtype).T):
        e = e[:, e[0].argsort()]
        shared = (e.diff().abs() < 1e-6 * e[:, 1:]).all(0)
        assert int(shared.sum()) == 0


def test_seeds_do_not_shift_the_rows() -> None:
    """The noise of one seed for node i must not be that of the next seed for node i + 1."""
    first = normal_scores(noise(20, 300, 300))
    for seed in (19, 21, 22):
        second = normal_scores(noise(seed, 300, 300))
        for shift in (1, 2, 3):
            for a, b in ((first[shift:], second[:-shift]), (first[:-shift], second[shift:])):
                assert abs(correlation_score(a, b)) < 4.5
            for a, b in ((first[:, shift:], second[:, :-shift]), (first[:, :-shift], second[:, shift:])):
                assert abs(correlation_score(a, b)) < 4.5


@every_dtype
def test_function_of_seed_row_and_column_alone(dtype: torch.dtype) -> None:
    """Noise that depends on the block it is computed in: other samples for other block sizes or process counts."""
    whole = noise(11, 64, 64, dtype)
    torch.testing.assert_close(noise(11, 20, 20, dtype, first=30), whole[30:50, 30:50], rtol=1e-6, atol=0)
    rows, columns = torch.tensor([5, 63, 0, 5]), torch.tensor([40, 2, 2])
    picked = exponential_noise(11, rows, columns, dtype)
    torch.testing.assert_close(picked, whole[rows][:, columns], rtol=1e-6, atol=0)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            one = exponential_noise(11, row[None], column[None], dtype)
            torch.testing.assert_close(one[0, 0], picked[i, j], rtol=1e-6, atol=0)
    assert not torch.equal(noise(12, 64, 64, dtype), whole)


def test_double_refines_single() -> None:
    """A row done again in double precision must meet the noise it met before, with more digits."""
    single, double = noise(13, 300, 300, torch.float32), noise(13, 300, 300, torch.float64)
    torch.testing.assert_close(single.double(), double, rtol=2e-3, atol=2.0**-31)
    assert len(double.unique()) == double.numel()


def test_inputs_are_left_alone() -> None:
    """In-place arithmetic on the caller's row numbers."""
    rows, columns = torch.arange(5), torch.arange(7)
    exponential_noise(1, rows, columns, torch.float64)
    assert torch.equal(rows, torch.arange(5))
    assert torch.equal(columns, torch.arange(7))


def test_draw_seed() -> None:
    """A seed that repeats, that leaves the generator where it was, or that ignores the generator."""
    generator = torch.Generator().manual_seed(3)
    seeds = [draw_seed(generator) for _ in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 1 << 62 for seed in seeds)
    assert stats.kstest(np.array(seeds) / 2.0**62, "uniform").pvalue > 1e-4
    again = torch.Generator().manual_seed(3)
    assert [draw_seed(again) for _ in range(1000)] == seeds
    state = torch.get_rng_state()
    draw_seed(generator)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    first = draw_seed(None)
    assert draw_seed(None) != first
    torch.manual_seed(4)
    assert draw_seed(None) == first
