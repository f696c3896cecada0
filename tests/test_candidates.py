"""Rows of a new table that choose among the points of an old one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.sampling import gumbel_top_k, nearest
from spaces import Space, every_dtype, every_space


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tables(dim: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = seeded(1)
    old, new = torch.randn(700, dim, generator=generator), torch.randn(90, dim, generator=generator)
    new[0] = 30.0  # far from everybody
    new[1:20] = new[1]  # many with one home
    return old.to(dtype), new.to(dtype)


@every_space
@every_dtype
def test_nearest_is_brute_force(backend: str, space: Space, dtype: torch.dtype) -> None:
    geometry = space.geometry(1.0)
    old, new = (x / 10 for x in tables(space.width or 5, dtype))
    found = nearest(new, 4, geometry=geometry, candidates=old, backend=backend)
    square = geometry.sq_cdist(geometry.project(new).double(), geometry.project(old).double())
    expected = square.sort(1).values[:, :4]
    torch.testing.assert_close(square.gather(1, found), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("dim", [3, 16])
def test_a_row_does_not_see_the_others(backend: str, temperature: float, dim: int) -> None:
    old, new = tables(dim)
    keys = torch.arange(len(new)) * 7 + 3
    together = gumbel_top_k(new, 6, temperature, candidates=old, keys=keys, generator=seeded(), backend=backend)
    some = torch.tensor([60, 3, 0, 17])
    apart = gumbel_top_k(
        new[some], 6, temperature, candidates=old, keys=keys[some], generator=seeded(), backend=backend
    )
    asked = gumbel_top_k(
        new, 6, temperature, candidates=old, keys=keys, query=some, generator=seeded(), backend=backend
    )
    assert torch.equal(together[some], apart)
    assert torch.equal(together[some], asked)
    assert not torch.equal(together[1:20], together[1].expand(19, -1))  # equal rows have noise of their own


@pytest.mark.parametrize("temperature", [0.02, 1.0, 6.0])
@pytest.mark.parametrize("dim", [2, 14])
def test_law_of_the_first_two(backend: str, temperature: float, dim: int) -> None:
    """First choice against softmax, and the second against softmax without the first, in groups of equal size."""
    draws, n = 6000, 230
    old = torch.randn(n, dim, generator=seeded(2)) * (2 / dim) ** 0.5
    row = torch.full((1, dim), 0.3)
    sample = gumbel_top_k(row.expand(draws, -1), 2, temperature, candidates=old, generator=seeded(3), backend=backend)
    log_p = -temperature * (old - row).square().sum(1).double()
    first = log_p.softmax(0)
    rest = log_p[:, None].expand(n, n).clone().fill_diagonal_(-torch.inf).softmax(0)
    for probability, chosen in ((first, sample[:, 0]), (rest @ first, sample[:, 1])):
        order = probability.argsort()
        group = torch.empty(n, dtype=torch.long)
        group[order] = (probability[order].cumsum(0) * 20).long().clamp_max(19)
        expected = torch.zeros(20, dtype=torch.double).index_add_(0, group, probability) * draws
        seen = np.bincount(group[chosen].numpy(), minlength=20)
        used = expected.numpy() > 0
        assert stats.chisquare(seen[used], expected.numpy()[used] * draws / expected.sum().item()).pvalue > 1e-4


def test_loop_is_not_left_out(backend: str) -> None:
    x = torch.randn(200, 3, generator=seeded())
    assert torch.equal(nearest(x, 1, candidates=x.clone(), backend=backend)[:, 0], torch.arange(200))


def test_more_neighbours_than_candidates(backend: str) -> None:
    x = torch.randn(9, 3, generator=seeded())
    everyone = gumbel_top_k(x, 4, 1.0, candidates=x[:4], backend=backend).sort(1).values
    assert torch.equal(everyone, torch.arange(4).expand(9, 4))
    with pytest.raises(InputError, match="k=5 but the graph has 4 nodes"):
        gumbel_top_k(x, 5, 1.0, candidates=x[:4], backend=backend)


def test_no_rows(backend: str) -> None:
    old, new = tables(3)
    assert gumbel_top_k(new[:0], 4, 1.0, candidates=old, backend=backend).shape == (0, 4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"candidates": torch.zeros(5, 2)}, "2 columns and x_hat has 3"),
        ({"candidates": torch.zeros(5)}, "candidates is a"),
        ({"candidates": torch.full((5, 3), torch.nan)}, "candidates has 5 rows with NaN"),
        ({"candidates": torch.zeros(5, 3), "loop": True}, "leave out batch and loop"),
        ({"keys": torch.zeros(4)}, "keys is a"),
        ({"keys": torch.zeros(3, dtype=torch.long)}, "one whole number for each of the 4 rows"),
    ],
)
def test_bad_arguments(more: dict[str, Tensor | bool], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gumbel_top_k(torch.zeros(4, 3), 2, 1.0, **more)  # type: ignore[arg-type]


@every_dtype
@pytest.mark.parametrize("temperature", [0.01, 1.0, 50.0])
def test_noise_for_all_pairs_gives_what_noise_for_a_few_gives(
    temperature: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(400, 3, generator=seeded(), dtype=dtype)
    few = gumbel_top_k(x, 7, temperature, generator=seeded(), backend="torch")
    monkeypatch.setattr("latentgraph.sampling.blocked._FEW", -1.0)
    assert torch.equal(few, gumbel_top_k(x, 7, temperature, generator=seeded(), backend="torch"))
    monkeypatch.setattr("latentgraph.sampling.blocked._FEW", 1.0)
    assert torch.equal(few, gumbel_top_k(x, 7, temperature, generator=seeded(), backend="torch"))
