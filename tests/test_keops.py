"""The keops backend: near points by KeOps, far ones by thinning. Its law, its bounds, and what it says when it cannot.

Eight near points instead of 64 bring the far ones into play in small graphs. All formulas have this number, and three
or five coordinates: each that is not in the cache of KeOps yet takes some ten seconds to compile.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

pytest.importorskip("pykeops")

from latentgraph import Euclidean, InputError, PoincareBall, Product, Sphere, gumbel_top_k, nearest
from latentgraph.geometry import Geometry
from latentgraph.sampling import lazy
from latentgraph.sampling.population import check_population
from test_sampling_law import check_law, draws, log_weights, ordered_law, p_value
from test_tree import REGIMES, check_rows, costs, gaussian, positions_in_law, seeded

SMALLEST_P = 1e-4
PRODUCT = Product([(Euclidean(), 1), (PoincareBall(0.7), 2), (Sphere(), 2)])
SPACES: list[tuple[str, Geometry, torch.dtype]] = [
    ("euclidean", Euclidean(), torch.float32),
    ("euclidean-double", Euclidean(), torch.float64),
    ("sphere", Sphere(), torch.float32),
    ("sphere-double", Sphere(), torch.float64),
    ("ball", PoincareBall(1.0), torch.float32),
    ("wide-ball", PoincareBall(0.3), torch.float32),
    ("product", PRODUCT, torch.float32),
    ("product-double", PRODUCT, torch.float64),
]
every_space = pytest.mark.parametrize(("geometry", "dtype"), [s[1:] for s in SPACES], ids=[s[0] for s in SPACES])


def width(geometry: Geometry) -> int:
    return 5 if geometry is PRODUCT else 3


@pytest.fixture(autouse=True)
def few_near_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "NEAR", 8)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many rows took part in rounds of far arrivals, and how many were finished directly."""
    counts = {"_let_next_arrive": 0, "_let_all_arrive": 0}

    def counted(name: str) -> None:
        function = getattr(lazy, name)

        def count(space: Any, rows: Any, *rest: Any) -> None:
            counts[name] += len(rows.row)
            function(space, rows, *rest)

        monkeypatch.setattr(lazy, name, count)

    for name in counts:
        counted(name)
    return counts


def sampled(x: Tensor, k: int, temperature: float, *, seed: int = 0, **options: Any) -> Tensor:
    return gumbel_top_k(x, k, temperature, generator=seeded(seed), backend="keops", **options)


# Without noise


@every_space
@pytest.mark.parametrize("loop", [False, True])
def test_nearest_is_that_of_torch(geometry: Geometry, dtype: torch.dtype, loop: bool) -> None:
    """A formula that is not the distance, a node of another graph, an empty slot of a small graph taken for node 0."""
    x = 0.5 * gaussian(150, width(geometry), seed=1, dtype=dtype)
    other = 0.5 * gaussian(70, width(geometry), seed=2, dtype=dtype)
    batch = torch.bucketize(torch.arange(150), torch.tensor([40, 46, 54, 130]))
    query = torch.tensor([140, 3, 47, 3, 99])
    cases: list[dict[str, Any]] = [{}, {"batch": batch}, {"query": query}, {"batch": batch, "query": query}]
    if loop:
        cases.append({"candidates": other, "query": query})
    for case in cases:
        options = {"geometry": geometry, "loop": loop and "candidates" not in case, **case}
        ours, plain = (nearest(x, 4, backend=backend, **options) for backend in ("keops", "torch"))
        assert torch.equal(ours, plain), case


# The law


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(("n", "k", "temperature"), [(9, 2, 1.0), (10, 2, 0.05), (11, 3, 0.4), (12, 1, 3.0)])
def test_law_of_small_graphs(n: int, k: int, temperature: float, loop: bool, calls: dict[str, int]) -> None:
    """A far point that arrives too often, too rarely, twice, or at the wrong time: ordered samples, enumerated."""
    x = gaussian(n, seed=n)
    x[-1] = x[0]
    sample = draws(x, k, temperature, Euclidean(), loop=loop, copies=6000, backend="keops", seed=k)
    check_law(sample, x, k, temperature, Euclidean(), loop)
    assert calls["_let_next_arrive"] > 6000


@pytest.mark.parametrize(("first_round", "vain"), [(1, math.inf), (3, 0.0), (64, math.inf), (1, 0.0)])
def test_law_however_the_work_is_divided(
    first_round: int, vain: float, calls: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that forget the time, and rows finished directly as if nothing had arrived (or nobody was left)."""
    monkeypatch.setattr(lazy, "FIRST_ROUND", first_round)
    monkeypatch.setattr(lazy, "VAIN", vain)
    x = gaussian(11, seed=3)
    sample = draws(x, 3, 0.5, Euclidean(), loop=False, copies=10_000, backend="keops")
    check_law(sample, x, 3, 0.5, Euclidean(), False)
    assert (calls["_let_all_arrive"] > 1000) == (vain < math.inf)


def test_a_wrong_law_is_found() -> None:
    """The test itself: a temperature 5 % off must not pass."""
    x = gaussian(10, seed=4)
    sample = draws(x, 2, 1.0, Euclidean(), loop=False, copies=12_000, backend="keops")
    wrong = log_weights(x, 1.05, Euclidean(), False)
    assert min(p_value(sample[:, i], ordered_law(wrong[i], 2)) for i in range(10)) < SMALLEST_P


@every_space
def test_law_of_whole_samples(geometry: Geometry, dtype: torch.dtype) -> None:
    """Any bias of a pick given the picks before it, in every space, for clusters, outliers, antipodes and equals."""
    p = []
    for number, (points, temperature) in enumerate(REGIMES.values()):
        x, k, loop = points(400, width(geometry)).to(dtype), (1, 4)[number % 2], number % 3 == 0
        if dtype == torch.float64:
            x += 1e-9 * gaussian(len(x), x.shape[1], seed=10, dtype=dtype)
        sample = sampled(x, k, temperature, geometry=geometry, loop=loop, seed=number)
        check_rows(sample, len(x), loop)
        log_w = -temperature * costs(x, geometry)
        if not loop:
            log_w.fill_diagonal_(-torch.inf)
        p.append(float(stats.kstest(positions_in_law(sample, log_w).flatten().numpy(), "uniform").pvalue))
    assert min(p) > SMALLEST_P, dict(zip(REGIMES, p, strict=True))


def test_inclusion_frequencies_are_those_of_torch() -> None:
    """n = 200: how often each pair is chosen, by either backend."""
    n, k, repeats = 200, 4, 250
    x, generator = gaussian(n, seed=5), seeded(6)
    ours, plain = torch.zeros(n, n), torch.zeros(n, n)
    for _ in range(repeats):
        for counts, backend in ((ours, "keops"), (plain, "torch")):
            sample = gumbel_top_k(x, k, 0.7, generator=generator, backend=backend)
            counts.scatter_add_(1, sample, torch.ones(n, k))
    share = (ours + plain) / (2 * repeats)
    common = share > 0.02
    z = (ours - plain)[common] / (2 * repeats * share * (1 - share))[common].sqrt()
    assert len(z) > 4000
    assert float(z.abs().max()) < 5.0
    assert float(z.mean()) == pytest.approx(0.0, abs=0.05)
    assert float(z.square().mean()) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("far", [100.0, 1e6])
def test_an_outlier_chooses_evenly_among_equals(far: float, calls: dict[str, int]) -> None:
    """Single precision orders the points of a cluster at random seen from afar, and leaves no digits for the noise."""
    cluster = 0.5 / far * gaussian(40, seed=7)
    x = torch.cat([cluster, torch.tensor([[far, 0.0, 0.0]])])
    copies, outlier = 3000, torch.arange(3000) * 41 + 40
    sample = gumbel_top_k(
        x.repeat(copies, 1),
        2,
        1.0,
        batch=torch.arange(copies).repeat_interleave(41),
        query=outlier,
        generator=seeded(),
        backend="keops",
    )
    log_w = log_weights(x, 1.0, Euclidean(), False)[40].expand(copies, -1).clone()
    u = positions_in_law(sample - (outlier - 40)[:, None], log_w)
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > SMALLEST_P
    assert calls["_let_next_arrive"] > 0


def test_guests_choose_among_candidates() -> None:
    """Another table: nobody is its own candidate, and number i there has nothing to do with row i here."""
    x, candidates = gaussian(500, seed=8), gaussian(300, seed=9)
    log_w = -2.0 * (x.double()[:, None] - candidates.double()).square().sum(-1)
    u = positions_in_law(sampled(x, 3, 2.0, candidates=candidates), log_w)
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > SMALLEST_P


# Addressed noise


@pytest.mark.parametrize("temperature", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("batched", [False, True])
def test_rows_do_not_depend_on_others(temperature: float, batched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise drawn in sequence: another `query`, another order or other parts would give another sample."""
    x, batch = gaussian(260, seed=11), (torch.arange(260) // 130 if batched else None)
    full = sampled(x, 3, temperature, batch=batch, seed=1)
    assert torch.equal(sampled(x, 3, temperature, batch=batch, seed=1), full)
    assert not torch.equal(sampled(x, 3, temperature, batch=batch, seed=2), full)
    monkeypatch.setattr(lazy, "HELD", 1 << 10)
    assert torch.equal(sampled(x, 3, temperature, batch=batch, seed=1), full)
    for query in (torch.tensor([259]), torch.tensor([200, 3, 3, 131]), torch.arange(0)):
        part = sampled(x, 3, temperature, batch=batch, query=query, seed=1)
        assert torch.equal(part, full[query])


def test_keys_name_the_rows() -> None:
    """The same row under another number: shards of a table must sample what the table samples."""
    x, candidates = gaussian(50, seed=12), gaussian(100, seed=13)
    full = sampled(x, 3, 1.0, candidates=candidates)
    shard = sampled(x[20:], 3, 1.0, candidates=candidates, keys=torch.arange(20, 50))
    assert torch.equal(shard, full[20:])


# Extremes


def test_more_neighbours_than_near_points() -> None:
    """k beyond what KeOps is good for, up to everybody."""
    x = gaussian(30, seed=14)
    assert torch.equal(sampled(x, 29, 1.0).sort(1).values, nearest(x, 29, backend="torch").sort(1).values)
    assert sampled(x[:1], 1, 1.0, loop=True).tolist() == [[0]]
    assert sampled(x[:2], 1, 1.0).tolist() == [[1], [0]]


def test_coordinates_beyond_single_precision() -> None:
    """Squares that overflow: KeOps would find nobody, and everybody would choose node 0."""
    x = gaussian(40, seed=15)
    assert torch.equal(nearest(1e25 * x, 4, backend="keops"), nearest(x, 4, backend="keops"))
    assert torch.equal(sampled(1e25 * x, 4, 1e-50), sampled(x.double(), 4, 1.0))
    for scale, temperature in ((1e200, 1e-300), (1e100, 1e200)):
        with pytest.raises(InputError, match="overflows to -inf"):
            sampled(scale * x.double(), 4, temperature)


# Bounds


SHAPES: dict[str, Callable[[int, int], Tensor]] = {
    "gaussian": lambda n, d: gaussian(n, d, seed=16, dtype=torch.float64),
    "small": lambda n, d: 1e-4 * gaussian(n, d, seed=17, dtype=torch.float64),
    "offset": lambda n, d: 0.4 + 1e-5 * gaussian(n, d, seed=18, dtype=torch.float64),
    "large": lambda n, d: 1e3 * gaussian(n, d, seed=19, dtype=torch.float64),  # at the edge of a ball
    "antipodal": lambda n, d: (
        (1 - 2 * (torch.arange(n) % 300 > 0).double())[:, None]
        * (torch.ones(n, d, dtype=torch.float64) + 1e-3 * gaussian(n, d, seed=20, dtype=torch.float64))
    ),
}


@every_space
@pytest.mark.parametrize("shape", SHAPES)
def test_far_points_never_cost_less_than_their_bound(geometry: Geometry, dtype: torch.dtype, shape: str) -> None:
    """What exactness rests on: KeOps orders by rounded distances, and the acceptance must not exceed 1."""
    x = SHAPES[shape](600, width(geometry)).to(dtype)
    population = check_population(x, 3, geometry, False, None, None, None, None)
    space, rows = lazy._Space(population, 1.0), torch.arange(600)
    index = space.nearest(rows, torch.zeros_like(rows), torch.full_like(rows, 600), 8)
    cost = space.cost(rows[:, None], rows)
    last = cost.gather(1, index).amax(1)
    low = space.least_cost_beyond(last)
    far = cost.scatter(1, index, torch.inf).amin(1)
    assert bool((low <= far).all())
    ordinary = last > 1e5 * space.absolute**2
    assert bool((low >= 0.98 * last)[ordinary].all()), "safe, but useless"


# Words


def test_what_keops_has_no_formula_for() -> None:
    class Taxicab(Geometry):
        def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
            return (x - y).abs().sum(-1).square()

        def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
            return self.sq_dist(x[:, None], y)

    for geometry in (Taxicab(), Product([(Euclidean(), 1), (Taxicab(), 2)])):
        with pytest.raises(InputError, match=re.escape('backend="keops" has no formula for')):
            sampled(gaussian(20), 3, 1.0, geometry=geometry)


def test_without_pykeops(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError instead of a sentence, or for those who never asked for it."""
    monkeypatch.setitem(sys.modules, "latentgraph.sampling.lazy", None)
    with pytest.raises(InputError, match=re.escape('pip install "latentgraph[keops]"')):
        sampled(gaussian(200), 3, 1.0)
    assert gumbel_top_k(gaussian(200), 3, 1.0, backend="auto").shape == (200, 3)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """KeOps imports the library that the compiler did not make."""

    def missing(*_: Any) -> Tensor:
        raise ModuleNotFoundError("No module named 'pykeops_cpp_6b505a175b'")

    monkeypatch.setattr(lazy, "_compiled", set())
    monkeypatch.setattr(lazy, "_arg_k_min", missing)
    with pytest.raises(InputError, match=re.escape("needs a C++ compiler")):
        sampled(gaussian(200), 3, 1.0)


def test_a_compilation_is_announced_on_stderr(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten silent seconds; or words of KeOps in the output of a program."""

    class ImpatientTimer(threading.Timer):
        def start(self) -> None:
            self.function()

    monkeypatch.setattr(lazy, "_compiled", set())
    monkeypatch.setattr("threading.Timer", ImpatientTimer)
    for _ in range(2):
        sampled(gaussian(200), 3, 1.0)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("latentgraph: KeOps compiles a formula")


def test_a_formula_is_compiled_under_the_lock() -> None:
    """Broken: the real call compiles another formula than the one that was prepared, and two processes collide."""
    import pykeops

    x = gaussian(30, 3, seed=5)
    space = lazy._Space(check_population(x, 3, PoincareBall(), False, None, None, None, None), 1.0)
    rows = torch.arange(30)
    lazy._compile_once(space.geometry, x, space.dtype, 13)
    before = set(Path(pykeops.get_build_folder()).iterdir())
    space.nearest(rows, torch.zeros_like(rows), torch.full_like(rows, 30), 13)
    assert set(Path(pykeops.get_build_folder()).iterdir()) == before
