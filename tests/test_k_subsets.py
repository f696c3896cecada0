"""The law of k-subsets: sampler and marginals against enumeration, gradients against finite differences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.gradients.k_subsets import sample_subsets, subset_marginals

CASES = [(4, 1), (5, 2), (6, 3), (6, 5), (4, 4)]


def log_ps(m: int) -> Tensor:
    return -3 * torch.rand(m, generator=torch.Generator().manual_seed(m), dtype=torch.float64)


def law(log_p: Tensor, k: int) -> dict[tuple[int, ...], float]:
    """Every subset of k with its probability, product by product."""
    weight = {s: float(log_p[list(s)].sum().exp()) for s in combinations(range(len(log_p)), k)}
    total = sum(weight.values())
    return {s: w / total for s, w in weight.items()}


@pytest.mark.parametrize(("m", "k"), CASES)
def test_sampler_has_its_law(m: int, k: int) -> None:
    draws = 20_000
    uniform = torch.rand(draws, m, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    taken = sample_subsets(log_ps(m).expand(draws, m), k, uniform)
    assert (taken.sum(1) == k).all()
    expected = law(log_ps(m), k)
    counts = dict.fromkeys(expected, 0)
    for row in taken.numpy():
        counts[tuple(np.flatnonzero(row))] += 1
    if len(expected) > 1:
        assert stats.chisquare(list(counts.values()), [draws * p for p in expected.values()]).pvalue > 1e-3


@pytest.mark.parametrize(("m", "k"), CASES)
def test_marginals_are_those_of_all_subsets(m: int, k: int) -> None:
    expected = [sum(p for s, p in law(log_ps(m), k).items() if j in s) for j in range(m)]
    found = subset_marginals(log_ps(m)[None] + 700, k)[0]  # a common factor changes nothing
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(("m", "k"), CASES)
def test_gradient_of_the_marginals(m: int, k: int) -> None:
    log_p = torch.stack([log_ps(m), 10 * log_ps(m)]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: subset_marginals(x, k), log_p)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_probabilities(dtype: torch.dtype) -> None:
    """Broken: sums over subsets underflow, or the difference of two empty ones is not a number."""
    log_p = torch.tensor([[0, -1e4, -1e4, -5e3, -1], [-1e4] * 5, [0, 0, 0, -1e4, -1e4]], dtype=dtype)
    log_p.requires_grad_()
    for k in range(1, 6):
        mu = subset_marginals(log_p, k)
        assert mu.dtype == dtype
        torch.testing.assert_close(mu.sum(1), torch.full((3,), float(k), dtype=dtype))
        (grad,) = torch.autograd.grad(mu.square().sum(), log_p)
        assert grad.isfinite().all()
        uniform = torch.rand(3, 5, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
        assert (sample_subsets(log_p, k, uniform).sum(1) == k).all()
    torch.testing.assert_close(subset_marginals(log_p, 3)[2], torch.tensor([1, 1, 1, 0, 0], dtype=dtype))
    torch.testing.assert_close(subset_marginals(log_p, 2)[1], torch.full((5,), 0.4, dtype=dtype))


def test_k_must_fit() -> None:
    for k in (0, 4):
        with pytest.raises(InputError, match=f"k={k}"):
            subset_marginals(torch.zeros(2, 3), k)
