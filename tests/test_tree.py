"""The tree backend: the law of whole samples of large graphs, its bounds, its tree and its vector arithmetic.

What holds for every backend is in test_sampling.py and test_sampling_law.py.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

numba = pytest.importorskip("numba")

from latentgraph import Euclidean, InputError, PoincareBall, Product, Sphere, gumbel_top_k, nearest  # noqa: E402
from latentgraph.geometry import Geometry  # noqa: E402
from latentgraph.sampling import lanes as v  # noqa: E402
from latentgraph.sampling.costs import box_cost, leaf_cost  # noqa: E402
from latentgraph.sampling.kdtree import BALL, Helpers, Tree, factors_of, plant  # noqa: E402
from latentgraph.sampling.lanes import FEW, LANES  # noqa: E402
from latentgraph.sampling.streams import ROUGH, log_waiting_times, word, words  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]
njit: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit
SMALLEST_P = 1e-4
PRODUCT = Product([(Euclidean(), 2), (PoincareBall(1.0), 3), (Sphere(), 2)])
GEOMETRIES: dict[str, Geometry] = {
    "euclidean": Euclidean(),
    "sphere": Sphere(),
    "ball": PoincareBall(1.0),
    "wide-ball": PoincareBall(0.3),
    "product": PRODUCT,
}
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(n: int, dim: int = 3, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, dim, generator=seeded(seed), dtype=torch.float64).to(dtype)


def tree_sample(x: Tensor, k: int, temperature: float, *, seed: int = 0, **options: Any) -> Tensor:
    return gumbel_top_k(x, k, temperature, generator=seeded(seed), backend="tree", **options)


def costs(x: Tensor, geometry: Geometry) -> Tensor:
    """Squared distances of all pairs, by the formula, in double precision."""
    points = geometry.project(x).double()
    return geometry.sq_dist(points[:, None], points[None, :])


def check_rows(sample: Tensor, n: int, loop: bool = False) -> None:
    """Distinct candidates in range, and not the row itself."""
    assert int(sample.min()) >= 0
    assert int(sample.max()) < n
    assert bool((sample.sort(1).values.diff(dim=1) > 0).all())
    assert loop or not bool((sample == torch.arange(len(sample))[:, None]).any())


# The law of whole samples


def positions_in_law(sample: Tensor, log_w: Tensor, seed: int = 0) -> Tensor:
    """Uniform numbers if the law is right: for each pick, the probability of what is nearer, given the picks before.

    Candidates are ordered by distance, ties at random, and V times the probability of the pick itself is added.
    """
    generator = seeded(seed)
    shuffle = torch.randperm(log_w.shape[1], generator=generator)
    order = shuffle[log_w[:, shuffle].argsort(dim=1, descending=True, stable=True)]
    left = log_w.gather(1, order)
    rank = order.argsort(1).gather(1, sample)
    u = torch.empty(sample.shape, dtype=torch.float64)
    for a in range(sample.shape[1]):
        pick = rank[:, a : a + 1]
        weight = (left - left.amax(1, keepdim=True)).exp_()
        total, own = weight.cumsum(1), weight.gather(1, pick)
        split = torch.rand(len(sample), 1, generator=generator, dtype=torch.float64)
        u[:, a] = ((total.gather(1, pick) - (1 - split) * own) / total[:, -1:])[:, 0]
        left.scatter_(1, pick, -torch.inf)
    return u.clamp(0.0, 1.0)


@dataclass(frozen=True)
class Case:
    name: str
    x: Tensor
    k: int
    temperature: float
    geometry: Geometry
    loop: bool

    def p_value(self, wrong: float = 1.0) -> float:
        sample = tree_sample(self.x, self.k, self.temperature, geometry=self.geometry, loop=self.loop, seed=len(self.x))
        check_rows(sample, len(self.x), self.loop)
        log_w = -self.temperature * wrong * costs(self.x, self.geometry)
        if not self.loop:
            log_w.fill_diagonal_(-torch.inf)
        return float(stats.kstest(positions_in_law(sample, log_w).flatten().numpy(), "uniform").pvalue)


def clustered(n: int, dim: int) -> Tensor:
    return 0.4 * gaussian(5, dim, seed=1)[torch.arange(n) % 5] + 0.02 * gaussian(n, dim, seed=2)


def with_outliers(n: int, dim: int) -> Tensor:
    x = 0.3 * gaussian(n, dim, seed=3)
    x[:5] *= 40
    return x


def thin(n: int, dim: int) -> Tensor:
    """A curve with a little noise around it."""
    along = torch.linspace(0, 3, n)[:, None]
    return 0.3 * torch.cat([(along + c).sin() for c in range(dim)], 1) + 1e-3 * gaussian(n, dim, seed=4)


def half_twice(n: int, dim: int) -> Tensor:
    x = 0.4 * gaussian(n, dim, seed=5)
    x[: n // 2] = x[n // 2 : 2 * (n // 2)]
    return x


def antipodal(n: int, dim: int) -> Tensor:
    """A few points opposite to all others: as far as it gets on a sphere."""
    x = 0.05 * gaussian(n, dim, seed=6)
    x[:, -1] -= 0.9
    x[:3, -1] += 1.8
    return x


REGIMES: dict[str, tuple[Callable[[int, int], Tensor], float]] = {
    "gaussian": (lambda n, dim: 0.5 * gaussian(n, dim, seed=7), 3.0),
    "flat": (lambda n, dim: 0.5 * gaussian(n, dim, seed=8), 1e-8),
    "between": (lambda n, dim: gaussian(n, dim, seed=9), 1.0),  # temperature times variance is 1
    "clustered": (clustered, 30.0),
    "equal": (lambda n, dim: torch.full((n, dim), 0.3), 1.0),
    "outliers": (with_outliers, 1.0),
    "thin": (thin, 20.0),
    "twins": (half_twice, 5.0),
    "antipodal": (antipodal, 20.0),
}


def all_cases() -> Iterator[Case]:
    number = 0
    for space, geometry in GEOMETRIES.items():
        for regime, (points, temperature) in REGIMES.items():
            for dtype in (torch.float32, torch.float64):
                k = (1, 5, 20, 100)[number % 4]
                n = 300 if k == 100 else 300 + 233 * (number % 3)
                x = points(n, 7 if space == "product" else 3).to(dtype)
                if dtype == torch.float64:
                    x += 1e-9 * gaussian(n, x.shape[1], seed=10, dtype=dtype)
                name = f"{space}-{regime}-{str(dtype)[6:]}-{k}"
                yield Case(name, x, k, temperature, geometry, loop=number % 5 == 0)
                number += 1
    for regime in ("gaussian", "flat", "between", "clustered", "thin"):  # more points than the pilot sees
        points, temperature = REGIMES[regime]
        yield Case(f"dim-14-{regime}", points(1400, 14), 5, temperature / 4, Euclidean(), loop=False)
    for k in (1, 5, 20, 100):
        for offset in (1e3, 1e6):
            x = offset + gaussian(300, 3, seed=k, dtype=torch.float64)
            yield Case(f"offset-{offset:g}-{k}", x, k, 1.0, Euclidean(), loop=False)
        for dim in (1, 16, 64):
            yield Case(f"dim-{dim}-{k}", gaussian(500, dim, seed=k), k, 1.0 / dim, Euclidean(), loop=k == 5)


CASES = list(all_cases())
_p_values: dict[str, float] = {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_law_of_whole_samples(case: Case) -> None:
    """Any bias of a pick given the picks before it: a wrong bound, a cell thinned wrongly, noise used twice."""
    _p_values[case.name] = case.p_value()
    assert _p_values[case.name] > SMALLEST_P


def test_p_values_of_all_cases_are_uniform() -> None:
    """A bias too small for one case but common to many."""
    p = [_p_values.get(case.name) or case.p_value() for case in CASES]
    assert stats.kstest(p, "uniform").pvalue > 1e-3, sorted(p)


def test_a_wrong_law_is_found() -> None:
    """The test itself: a temperature 8 % off must not pass."""
    case = Case("", gaussian(1000, seed=9), 20, 10.0, Euclidean(), False)
    assert case.p_value(wrong=1.08) < SMALLEST_P
    assert case.p_value(wrong=1 / 1.08) < SMALLEST_P


@every_geometry
def test_frequencies_of_many_nodes(geometry: Geometry) -> None:
    """First arrivals against the softmax, and inclusions against the other backend: two samples of one law."""
    n, k, temperature, repeats = 200, 8, 2.0, 300
    x = 0.4 * gaussian(n, 7 if geometry is PRODUCT else 3, seed=11)
    counts = {name: torch.zeros(n, n) for name in ("tree", "torch", "first")}
    ones, generator = torch.ones(n, k), seeded(12)
    for _ in range(repeats):
        for backend in ("tree", "torch"):
            sample = gumbel_top_k(x, k, temperature, geometry=geometry, generator=generator, backend=backend)
            counts[backend].scatter_add_(1, sample, ones)
            if backend == "tree":
                counts["first"].scatter_add_(1, sample[:, :1], ones)
    share = (counts["tree"] + counts["torch"]) / (2 * repeats)
    common = (share > 0.02) & (share < 0.98)
    z = ((counts["tree"] - counts["torch"]) / (2 * repeats * share * (1 - share)).sqrt())[common]
    assert len(z) > 2000
    assert float(z.abs().max()) < 5.5
    assert float(z.mean()) == pytest.approx(0.0, abs=0.06)
    assert float(z.square().mean()) == pytest.approx(1.0, abs=0.08)

    expected = (-temperature * costs(x, geometry)).fill_diagonal_(-torch.inf).softmax(1) * repeats
    often = expected > 5
    counted, expected = counts["first"][often], expected[often]
    excess = float(((counted - expected).square() / expected - (1 - expected / repeats)).sum())
    assert stats.norm.sf(abs(excess) / math.sqrt(2.5 * len(expected))) > SMALLEST_P


# What a sample may depend on


@every_geometry
@every_dtype
def test_nearest_is_brute_force(geometry: Geometry, dtype: torch.dtype) -> None:
    """A neighbour that a bound ruled out wrongly. Among equals any will do: distances are compared."""
    dims = [7] if geometry is PRODUCT else [1, 2, 16, 64]
    # At the boundary of the ball 1 - c |x|^2 is 2e-10, and depends on the order of summation.
    digits = 1e-6 if dtype == torch.float64 and geometry not in (Euclidean(), Sphere()) else 1e-9
    for x in (x for dim in dims for x in (half_twice(400, dim), 5 * gaussian(300, dim))):
        true = costs(x.to(dtype), geometry).fill_diagonal_(torch.inf).sort(1).values
        for k in (1, 2, 7, 16, 33, 100):
            found = nearest(x.to(dtype), k, geometry=geometry, backend="tree")
            check_rows(found, len(x))
            points = geometry.project(x.to(dtype)).double()
            distances = geometry.sq_dist(points[:, None], points[found])
            torch.testing.assert_close(distances, true[:, :k], rtol=digits, atol=1e-13)


@every_geometry
@every_dtype
@pytest.mark.parametrize("temperature", [1e-6, 1.0, 100.0])
def test_rows_apart_are_rows_together(geometry: Geometry, dtype: torch.dtype, temperature: float) -> None:
    """Rows shared out over processes that do not add up to the sample of one process."""
    x = 0.5 * gaussian(700, 7 if geometry is PRODUCT else 3, seed=13, dtype=dtype)
    full = tree_sample(x, 9, temperature, geometry=geometry)
    for query in (torch.randperm(700, generator=seeded(14))[:50], torch.tensor([699]), torch.tensor([3, 3, 0])):
        assert torch.equal(tree_sample(x, 9, temperature, geometry=geometry, query=query), full[query])
        near = nearest(x, 9, geometry=geometry, query=query, backend="tree")
        assert torch.equal(near, nearest(x, 9, geometry=geometry, backend="tree")[query])


@every_dtype
@pytest.mark.parametrize("temperature", [1e-6, 1.0])
def test_threads_change_nothing(dtype: torch.dtype, temperature: float) -> None:
    """A run that cannot be repeated on a machine with another number of cores."""
    x, before, samples = gaussian(3000, 4, seed=15, dtype=dtype), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            samples.append(tree_sample(x, 10, temperature))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(samples[0], samples[1])
    assert torch.equal(samples[0], samples[2])


def test_seed_decides() -> None:
    """A seed that is ignored, in part or altogether."""
    x = gaussian(500, seed=16)
    samples = [tree_sample(x, 5, 0.1, seed=seed) for seed in (0, 0, 1, 2)]
    assert torch.equal(samples[0], samples[1])
    assert len({tuple(sample.flatten().tolist()) for sample in samples}) == 3
    assert float((samples[0] == samples[2]).double().mean()) < 0.05


@every_geometry
@every_dtype
def test_batch_of_very_different_graphs(geometry: Geometry, dtype: torch.dtype) -> None:
    """Neighbours from another graph, or a law that looks beyond the own graph: leaves that are nearly empty or full."""
    u = []
    for sizes, k, loop in (
        ([1, 2, 15, 16, 17, 33, 500, 1], 1, True),
        ([500, 2, 15, 16, 17, 33, 2], 1, False),
        ([33, 32, 31, 500, 15, 16, 17, 48], 14, False),
    ):
        batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        x = 0.5 * gaussian(len(batch), 7 if geometry is PRODUCT else 2, seed=17, dtype=dtype)
        log_w = -2.0 * costs(x, geometry)
        log_w[batch[:, None] != batch] = -torch.inf
        if not loop:
            log_w.fill_diagonal_(-torch.inf)
        sample = tree_sample(x, k, 2.0, geometry=geometry, batch=batch, loop=loop)
        check_rows(sample, len(x), loop)
        assert torch.equal(batch[sample], batch[:, None].expand(-1, k))
        u.append(positions_in_law(sample, log_w).flatten())
    assert stats.kstest(torch.cat(u).numpy(), "uniform").pvalue > SMALLEST_P


# Extremes


@every_geometry
@every_dtype
@pytest.mark.parametrize("temperature", [1e-30, 1e-8, 1e8, 1e20])
def test_extreme_temperatures(geometry: Geometry, dtype: torch.dtype, temperature: float) -> None:
    """A race that never ends, or one that ends with the wrong rows."""
    x = 0.6 * gaussian(600, 7 if geometry is PRODUCT else 3, seed=18, dtype=dtype)
    sample = tree_sample(x, 10, temperature, geometry=geometry)
    check_rows(sample, 600)
    if temperature == 1e20:
        assert torch.equal(sample, nearest(x, 10, geometry=geometry, backend="tree"))


@every_dtype
@pytest.mark.parametrize("dim", [1, 2, 5, 12, 13, 31, 64])
@pytest.mark.parametrize(("scale", "offset"), [(1e-20, 0.0), (1.0, 1e6), (1e6, 0.0)])
def test_extreme_coordinates(dtype: torch.dtype, dim: int, scale: float, offset: float) -> None:
    """Squares that vanish in single precision, digits that are lost beside an offset."""
    x = (scale * gaussian(400, dim, seed=19, dtype=torch.float64) + offset).to(dtype)
    for temperature in (1.0, scale**-2 if scale < 1e3 else 1e-12):
        if temperature < 1e30:
            check_rows(tree_sample(x, 7, temperature), 400)
    check_rows(nearest(x, 7, backend="tree"), 400)


@every_geometry
@every_dtype
def test_extreme_point_sets(geometry: Geometry, dtype: torch.dtype) -> None:
    """Cells of no width, cells of any width, as many neighbours as there are nodes."""
    dim = 7 if geometry is PRODUCT else 3
    lonely = 0.1 * gaussian(500, dim, seed=20, dtype=dtype)
    lonely[7] = 1e6
    for x in (torch.full((3000, dim), 0.25, dtype=dtype), half_twice(2000, dim).to(dtype), lonely):
        for temperature in (1e-3, 1.0, 1e3):
            check_rows(tree_sample(x, 10, temperature, geometry=geometry), len(x))
    for n in (2, 16, 17, 32, 33, 40, 130):
        x = 0.5 * gaussian(n, dim, seed=n, dtype=dtype)
        check_rows(tree_sample(x, n - 1, 1.0, geometry=geometry), n)
        check_rows(tree_sample(x, n, 1.0, geometry=geometry, loop=True), n, loop=True)


@every_dtype
@pytest.mark.parametrize("temperature", [1e-3, 1.0, 10.0, 1000.0])
def test_points_on_the_boundary_of_a_ball(dtype: torch.dtype, temperature: float) -> None:
    """Bounds that fall below zero for points that are very far apart: the thinning of a cell never ended."""
    x = 3 * gaussian(1000, 2, seed=21, dtype=dtype)  # nearly all are outside, and moved to the boundary
    check_rows(tree_sample(x, 5, temperature, geometry=PoincareBall()), 1000)


@every_dtype
@pytest.mark.parametrize("temperature", [1.0, 10.0, 1000.0])
def test_alone_on_the_other_side_of_a_sphere(dtype: torch.dtype, temperature: float) -> None:
    """An upper bound of the cost that is none: the thinning of a cell that only looked even never ended."""
    x = 0.05 * gaussian(1000, 3, seed=22, dtype=dtype)
    x[:, 0] -= 1
    x[0] = torch.tensor([1.0, 0.0, 0.0])
    check_rows(tree_sample(x, 5, temperature, geometry=Sphere()), 1000)


# What the tree cannot do


class Taxicab(Geometry):
    def sq_dist(self, x: Tensor, y: Tensor) -> Tensor:
        return (x - y).abs().sum(-1).square()

    def sq_cdist(self, x: Tensor, y: Tensor) -> Tensor:
        return self.sq_dist(x[:, None], y[None])


UNSUPPORTED: list[tuple[Tensor, float, Geometry]] = [
    (gaussian(300), 1.0, Taxicab()),
    (gaussian(300, 4), 1.0, Product([(Euclidean(), 2), (Taxicab(), 2)])),
    (gaussian(300), 1e31, Euclidean()),
    (1e16 * gaussian(300), 1.0, Euclidean()),
    (1e8 * gaussian(300), 1e16, Euclidean()),
]


@pytest.mark.parametrize(("x", "temperature", "geometry"), UNSUPPORTED)
def test_what_the_tree_cannot_do(x: Tensor, temperature: float, geometry: Geometry) -> None:
    """A sample from bounds that do not hold; or no sample at all where another backend has one."""
    with pytest.raises(InputError, match=re.escape('backend="tree" has no bounds for')):
        tree_sample(x, 3, temperature, geometry=geometry)
    plain = gumbel_top_k(x, 3, temperature, geometry=geometry, generator=seeded(), backend="torch")
    assert torch.equal(gumbel_top_k(x, 3, temperature, geometry=geometry, generator=seeded()), plain)


@pytest.mark.parametrize("backend", ["auto", "tree"])
def test_overflow_of_double_precision(backend: str) -> None:
    """An OverflowError of Python instead of a sentence."""
    with pytest.raises(InputError, match=re.escape("coordinates up to")):
        gumbel_top_k(1e200 * gaussian(200, dtype=torch.float64), 3, 1.0, backend=backend)


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError for those who never asked for the tree."""
    monkeypatch.setitem(sys.modules, "latentgraph.sampling.tree", None)
    x = gaussian(300)
    plain = gumbel_top_k(x, 3, 1.0, generator=seeded(), backend="torch")
    assert torch.equal(gumbel_top_k(x, 3, 1.0, generator=seeded()), plain)
    assert torch.equal(nearest(x, 3), nearest(x, 3, backend="torch"))
    with pytest.raises(InputError, match="pip install numba"):
        tree_sample(x, 3, 1.0)
    with pytest.raises(InputError, match="pip install numba"):
        nearest(x, 3, backend="tree")


def test_auto_takes_the_tree_for_large_graphs() -> None:
    """A sampler that is quadratic for everybody who did not read the documentation."""
    for n, backend in ((127, "torch"), (128, "tree")):
        x = gaussian(n)
        auto = gumbel_top_k(x, 3, 1.0, generator=seeded())
        assert torch.equal(auto, gumbel_top_k(x, 3, 1.0, generator=seeded(), backend=backend))


# The tree itself


def planted(x: Tensor, geometry: Geometry, sizes: list[int] | None = None) -> Tree:
    factors = factors_of(geometry, x.shape[1])
    assert factors is not None
    points = geometry.project(x).numpy()
    return plant(points, sizes or [len(x)], factors, float(abs(points).max()))


def coords_of(tree: Tree) -> int:
    return len(tree.lanes) // len(tree.rows)


def boxes_of(tree: Tree) -> Array:
    return tree.boxes.reshape(-1, 2, coords_of(tree))


def nodes_of(tree: Tree, graph: int) -> Iterator[tuple[int, int, int]]:
    """(node, first leaf, leaves) of all nodes of a graph, by the rule in the docstring of `Tree`."""
    first = int(tree.first_leaf[graph])
    todo = [(2 * first, first, int(tree.first_leaf[graph + 1]) - first)]
    while todo:
        node, leaf, m = todo.pop()
        yield node, leaf, m
        if m > 1:
            half = m // 2
            todo += [(node + 1, leaf, half), (node + 2 * half, leaf + half, m - half)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    dim=st.integers(1, 9),
    space=st.sampled_from(list(GEOMETRIES)),
    double=st.booleans(),
    steps=st.sampled_from([0, 1, 3, 1000]),
    seed=st.integers(0, 1000),
)
def test_every_point_has_its_place(sizes: list[int], dim: int, space: str, double: bool, steps: int, seed: int) -> None:
    """A point in no leaf is never chosen, one in two leaves too often, one outside its box too rarely."""
    geometry, dtype = GEOMETRIES[space], torch.float64 if double else torch.float32
    x = gaussian(sum(sizes), 7 if geometry is PRODUCT else dim, seed=seed, dtype=torch.float64)
    x = ((x * steps).round() / max(steps, 1)).to(dtype)  # few steps: many ties
    tree, points = planted(x, geometry, sizes), geometry.project(x).numpy()
    used = tree.rows >= 0
    assert sorted(tree.rows[used]) == list(range(len(x)))
    assert np.array_equal(tree.points[used], points[tree.rows[used]])
    lanes = tree.lanes.reshape(-1, coords_of(tree), LANES).transpose(0, 2, 1).reshape(len(tree.rows), -1)
    assert np.array_equal(lanes[used, : x.shape[1]], points[tree.rows[used]].astype(np.float32))
    for f in np.flatnonzero(tree.kind == BALL):
        part = points[tree.rows[used], tree.start[f] : tree.stop[f]].astype(np.float64)
        gap = 1 - tree.curvature[f] * (part**2).sum(1)
        np.testing.assert_allclose(lanes[used, tree.gap[f]], gap, rtol=1e-5 if double else 3e-7)  # 1 - c |x|^2 cancels
    start, seen = 0, []
    for graph, size in enumerate(sizes):
        begin = int(tree.first_leaf[graph]) * LANES
        assert bool(used[begin : begin + size].all())
        assert not used[begin + size : int(tree.first_leaf[graph + 1]) * LANES].any()
        assert sorted(tree.rows[begin : begin + size]) == list(range(start, start + size))
        for node, leaf, m in nodes_of(tree, graph):
            seen.append(node)
            below = lanes[leaf * LANES : min((leaf + m) * LANES, begin + size)]
            low, high = boxes_of(tree)[node]
            assert len(below)
            assert bool((low <= below).all())
            assert bool((below <= high).all())
            assert np.array_equal(low[: x.shape[1]], below[:, : x.shape[1]].min(0))
            assert np.array_equal(high[: x.shape[1]], below[:, : x.shape[1]].max(0))
        start += size
    assert len(set(seen)) == len(seen)
    assert max(seen) < len(boxes_of(tree))


@every_dtype
@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("sizes", [[3001], [900, 17, 1, 2000], [5] * 300], ids=["one", "some", "many"])
def test_helpers_plant_the_same_tree(dtype: torch.dtype, threads: int, sizes: list[int]) -> None:
    """A tree that depends on the number of threads: so would the sample. A cell that no thread got."""
    calls = []

    def each(work: Callable[[int, int], None], cuts: Any) -> None:
        for begin, end in reversed(list(pairwise(cuts))):  # in any order
            calls.append((begin, end))
            work(begin, end)

    x = (gaussian(sum(sizes), 3, dtype=dtype) * 20).round().numpy()  # ties too
    factors = factors_of(Euclidean(), 3)
    assert factors is not None
    alone, together = (plant(x, sizes, factors, 200.0, helpers) for helpers in (None, Helpers(threads, each)))
    for one, other in zip(alone._asdict().values(), together._asdict().values(), strict=True):
        assert np.array_equal(one, other)
    assert len(calls) == threads


def test_a_cell_is_as_uneven_as_it_says() -> None:
    """A cell that is even, but is said not to be: it would be split down to its leaves."""
    x = gaussian(700, 3)
    tree, queries = planted(x, Euclidean()), 3 * gaussian(400, 3, seed=1).numpy()
    for node, _, _ in nodes_of(tree, 0):
        low, high = boxes_of(tree)[node][:, :3]
        near = (np.maximum(np.maximum(low - queries, queries - high), 0) ** 2).sum(1)
        far = (np.maximum(high - queries, queries - low) ** 2).sum(1)
        assert bool((far - near >= tree.uneven[node] * (1 - 1e-5)).all())
    assert not planted(x, Sphere()).uneven.any()  # no such bound there


# Vector arithmetic


def over_lanes(function: Any) -> Any:
    """A function of lanes as one of an array."""

    @njit
    def run(x: Array) -> Array:
        out = np.empty_like(x)
        for i in range(0, len(x), LANES):
            v.store(out, i, function(v.load_floats(x, i)))
        return out

    return run


lanes_exp_above = over_lanes(v.exp_above)
lanes_log = over_lanes(v.log)
lanes_log_roughly = over_lanes(v.log_roughly)
lanes_sqrt = over_lanes(v.sqrt)


@njit
def lanes_log_precisely(x: Array) -> Array:
    out = np.empty(len(x))
    for i in range(0, len(x), FEW):
        v.store(out, i, v.log_precisely(v.load_doubles(x, i)))
    return out


@njit
def lanes_log_waiting_times(bits: Array) -> Array:
    out = np.empty(len(bits), np.float32)
    for i in range(0, len(bits), LANES):
        v.store(out, i, log_waiting_times(v.load_ints(bits, i)))
    return out


@njit
def compared(x: Array, y: Array) -> tuple[int, int, int, int, int]:
    a, b = v.load_floats(x, 0), v.load_floats(y, 0)
    return a < b, a <= b, a > b, a >= b, a > y[3]


@njit
def extremes(x: Array, y: Array) -> tuple[Array, Array]:
    low, high = np.empty_like(x), np.empty_like(x)
    v.store(low, 0, v.minimum(v.load_floats(x, 0), v.load_floats(y, 0)))
    v.store(high, 0, v.maximum(v.load_floats(x, 0), v.load_floats(y, 0)))
    return low, high


@njit
def all_words(a: Array, b: Array, number: Array) -> tuple[Array, Array]:
    together, apart = np.empty_like(a), np.empty_like(a)
    for i in range(0, len(a), LANES):
        v.store(together, i, words(v.load_ints(a, i), v.load_ints(b, i), v.load_ints(number, i)))
    for i in range(len(a)):
        apart[i] = word(a[i], b[i], number[i])
    return together, apart


def bits_where(condition: Array) -> int:
    return int((condition * (1 << np.arange(LANES))).sum())


def test_lanes_compute_what_numpy_computes() -> None:
    """Bounds rest on these: the margins of the race allow relative errors of about 1e-6."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-86, 86, 16_000).astype(np.float32)
    far = np.array([-1e30, -100.0, -87.0, 87.0, 100.0, 1e30, 0.0, -0.0] * 4, np.float32)
    for some in (x, far):
        above = lanes_exp_above(some) / np.exp(some.astype(np.float64).clip(-87, 87))
        assert bool((above >= 1.0).all())
        assert bool((above < 1.07).all())
    x = np.exp(rng.uniform(-86, 86, 16_000)).astype(np.float32)
    np.testing.assert_allclose(lanes_log(x), np.log(x.astype(np.float64)), rtol=4e-7, atol=1e-7)
    np.testing.assert_allclose(lanes_log_roughly(x), np.log(x.astype(np.float64)), rtol=0, atol=1e-3)
    x = np.linspace(0.5, 2.0, 16_000, dtype=np.float32)
    np.testing.assert_allclose(lanes_log(x), np.log(x.astype(np.float64)), rtol=1e-6)
    x = np.exp(rng.uniform(-80, 80, 16_000)).astype(np.float32)
    np.testing.assert_allclose(lanes_sqrt(x), np.sqrt(x.astype(np.float64)), rtol=1.2e-7)
    assert not lanes_sqrt(np.zeros(LANES, np.float32)).any()


def test_precise_logarithms_are_precise() -> None:
    """They decide: an error is an error of the law."""
    rng = np.random.default_rng(1)
    some = [np.exp(rng.uniform(-700, 700, 8000)), 1 - rng.random(8000), 1 - 1e-9 * rng.random(8000), np.ones(8)]
    for x in (*some, np.nextafter(np.sqrt(np.array([0.5, 2.0] * 4)), rng.choice([0.0, 9.0], 8))):
        np.testing.assert_allclose(lanes_log_precisely(x), np.log(x), rtol=3e-16, atol=0)


def test_waiting_times_of_the_pilot_are_no_more_than_the_true_ones() -> None:
    """Broken: a point whose noise is enough for the k best is ruled out by its noise in single precision."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 16_000, dtype=np.uint64) >> rng.integers(0, 32, 16_000, dtype=np.uint64)
    ends = np.array([0, 1, 2, 3, (1 << 32) - 1, (1 << 32) - 2, (1 << 32) - 3, 1 << 31] * 4, np.uint64)
    for some in (bits, ends, (1 << 32) - 1 - bits):
        number = (some >> np.uint64(1)).astype(np.float64)
        with np.errstate(divide="ignore"):
            least, most = (np.log(-np.log1p(-(number + further) * 2.0**-31)) for further in (0.0, 0.5))
        found = lanes_log_waiting_times(some.astype(np.uint32)).astype(np.float64)
        assert bool((found <= np.maximum(least, -80.0) + ROUGH).all())  # nobody waits for less than exp(-80)
        usual = (number >= 1000) & (number <= 2**31 - 1000)
        assert bool((found[usual] >= most[usual] - ROUGH).all())


def test_lanes_compare() -> None:
    """A mask with lanes in the wrong order, or a strict comparison that is not."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, y = rng.integers(-2, 3, (2, LANES)).astype(np.float32)
        expected = [bits_where(c) for c in (x < y, x <= y, x > y, x >= y, x > y[3])]
        assert [int(mask) for mask in compared(x, y)] == expected
        low, high = extremes(x, y)
        assert np.array_equal(low, np.minimum(x, y))
        assert np.array_equal(high, np.maximum(x, y))


def test_words_are_the_same_alone_and_together() -> None:
    """Broken: what was ruled out with 31 bits is decided with others."""
    rng = np.random.default_rng(2)
    a, b, number = rng.integers(0, 1 << 32, (3, 16_000), dtype=np.uint64).astype(np.uint32)
    together, apart = all_words(a, b | np.uint32(1), number)
    assert np.array_equal(together, apart)
    assert stats.kstest(apart / 2.0**32, "uniform").pvalue > SMALLEST_P


# Bounds


@njit
def box_costs(tree: Any, query: Array, t: float) -> Array:
    """Of all nodes, for the rows of a packet."""
    nodes = 2 * (len(tree.rows) // LANES)
    out = np.empty(nodes * LANES, np.float32)
    for node in range(nodes):
        v.store(out, node * LANES, box_cost(tree, node, query, t))
    return out


@njit
def leaf_costs(tree: Any, query: Array, t: float) -> Array:
    """Of all places, for each row of a packet."""
    leaves = len(tree.rows) // LANES
    out = np.empty(LANES * leaves * LANES, np.float32)
    for lane in range(LANES):
        for leaf in range(leaves):
            v.store(out, (lane * leaves + leaf) * LANES, leaf_cost(tree, leaf, query, lane, t))
    return out


@every_geometry
@every_dtype
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.02, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("dim", [2, 11])
def test_bounds_never_exceed_the_cost(geometry: Geometry, dtype: torch.dtype, scale: float, dim: int) -> None:
    """What exactness rests on: a bound above the cost rules out who should have had a chance.

    The race takes off a relative `rounding` of (d + 8) eps. Points around an offset, so that relative errors of close
    pairs show.
    """
    width = 7 if geometry is PRODUCT else dim
    x = scale * gaussian(320, width, seed=23, dtype=torch.float64)
    x[160:] = x[160:] / 30 + 0.3
    x = x.to(dtype)
    tree, true = planted(x, geometry), costs(x, geometry).numpy()
    keep = 1 - (width + 8) * float(np.finfo(np.float32).eps)
    coords, leaves = coords_of(tree), len(tree.rows) // LANES
    for t in (1.0, 1e6):
        for home in range(leaves):
            query = tree.lanes[home * coords * LANES : (home + 1) * coords * LANES].copy()
            rows = tree.rows[home * LANES : (home + 1) * LANES]
            cost = t * true[rows][:, tree.rows]  # (rows, places)
            allowed = cost * (1 + 1e-9) + 1e-30
            leaf_bound = leaf_costs(tree, query, t).reshape(LANES, -1).astype(np.float64)
            assert bool((leaf_bound * keep <= allowed).all()), (leaf_bound / cost.clip(1e-300)).max()
            box_bound = box_costs(tree, query, t).reshape(-1, LANES).astype(np.float64)
            for node, leaf, m in nodes_of(tree, 0):
                least = allowed[:, leaf * LANES : (leaf + m) * LANES].min(1)
                assert bool((box_bound[node] * keep <= least).all())
            assert bool((leaf_bound >= 0).all())
            assert bool((box_bound[[node for node, _, _ in nodes_of(tree, 0)]] >= 0).all())
