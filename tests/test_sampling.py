"""What a sample may contain and what it may depend on; its law is in test_sampling_law.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from latentgraph import Euclidean, InputError, Sphere, gumbel_top_k, nearest
from latentgraph.geometry import Geometry
from latentgraph.sampling.noise import draw_seed, exponential_noise
from spaces import Space, every_dtype, every_space

SIZES = [5, 40, 7, 4, 23, 4]  # of the graphs of a batch
both_loops = pytest.mark.parametrize("loop", [False, True])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(n: int, dim: int = 3, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, dim, generator=seeded(seed), dtype=dtype)


def batch_of(sizes: list[int]) -> Tensor:
    """Graph ids with gaps between them, as after a filter."""
    return (3 * torch.arange(len(sizes)) - 2).repeat_interleave(torch.tensor(sizes))


def dense(
    x: Tensor, k: int, temperature: float, geometry: Geometry, loop: bool, batch: Tensor | None, seed: int | None
) -> Tensor:
    """All pairs at once in double precision: the definition of the sample, given the noise."""
    points = geometry.project(x).double()
    value = -temperature * geometry.sq_dist(points[:, None], points[None, :])
    if seed is not None:
        value -= exponential_noise(seed, torch.arange(len(x)), torch.arange(len(x)), torch.float64).log()
    if batch is not None:
        value[batch[:, None] != batch] = -torch.inf
    if not loop:
        value.fill_diagonal_(-torch.inf)
    return value.argsort(dim=1, descending=True)[:, :k]


@pytest.fixture(params=[1, 60, 1000, None], ids=lambda budget: f"block-{budget}")
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row at a time, graphs larger than a block, many graphs in a block, all in one block."""
    if request.param is not None:
        monkeypatch.setattr("latentgraph.blocks.BLOCK", request.param)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@every_space
@both_loops
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.usefixtures("block_size")
def test_sample_is_the_top_k(space: Space, loop: bool, batched: bool) -> None:
    """Any slip of indices: block offsets, graph offsets, masks, order of arrival."""
    geometry, batch = space.geometry(1.0), batch_of(SIZES) if batched else None
    x = 0.5 * gaussian(sum(SIZES), space.width or 3, dtype=torch.float64)
    sample = gumbel_top_k(x, 3, 0.7, geometry=geometry, loop=loop, batch=batch, generator=seeded(1), backend="torch")
    assert sample.dtype == torch.long
    assert torch.equal(sample, dense(x, 3, 0.7, geometry, loop, batch, draw_seed(seeded(1))))


@both_loops
@every_dtype
@pytest.mark.usefixtures("block_size")
def test_neighbours_come_from_the_own_graph(loop: bool, dtype: torch.dtype, backend: str) -> None:
    """Edges between patients of different hospitals, a self-edge that nobody asked for, or the same edge twice."""
    batch, k = batch_of(SIZES), 4 if loop else 3
    for temperature in (1e-6, 1.0, 1e6):  # the far ends: all candidates equal, and the double-precision second pass
        sample = gumbel_top_k(
            gaussian(len(batch), dtype=dtype),
            k,
            temperature,
            loop=loop,
            batch=batch,
            generator=seeded(),
            backend=backend,
        )
        assert sample.shape == (len(batch), k)
        assert torch.equal(batch[sample], batch[:, None].expand(-1, k))
        assert loop or not bool((sample == torch.arange(len(batch))[:, None]).any())
        assert bool((sample.sort(1).values.diff(dim=1) > 0).all())


def test_a_batch_of_one_graph_is_no_batch(backend: str) -> None:
    x = gaussian(50)
    alone = gumbel_top_k(x, 5, 1.0, generator=seeded(), backend=backend)
    assert torch.equal(gumbel_top_k(x, 5, 1.0, batch=torch.full((50,), 7), generator=seeded(), backend=backend), alone)


@every_dtype
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 1e5])
def test_sample_does_not_depend_on_block(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, batched: bool, temperature: float
) -> None:
    """A result that changes with the memory setting."""
    batch, x = batch_of(SIZES) if batched else None, gaussian(sum(SIZES), dtype=dtype)
    expected = gumbel_top_k(x, 3, temperature, batch=batch, generator=seeded(2))
    for budget in (1, 50, 83, 300, 5000):
        monkeypatch.setattr("latentgraph.blocks.BLOCK", budget)
        assert torch.equal(gumbel_top_k(x, 3, temperature, batch=batch, generator=seeded(2)), expected)


@every_dtype
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 1e5])
@pytest.mark.usefixtures("block_size")
def test_query_gives_the_rows_of_the_full_call(
    dtype: torch.dtype, batched: bool, temperature: float, backend: str
) -> None:
    """Rows shared out over processes that do not add up to the sample of one process."""
    batch, x = batch_of(SIZES) if batched else None, gaussian(sum(SIZES), dtype=dtype)
    full = gumbel_top_k(x, 3, temperature, batch=batch, generator=seeded(3), backend=backend)
    queries = [
        torch.randperm(len(x), generator=seeded(4)),
        torch.arange(len(x) - 1, -1, -1),
        torch.tensor([50, 3, 3, 82, 0, 51, 50]),  # repeated, and graphs without a row
        torch.tensor([60]),
        torch.tensor([9, 2], dtype=torch.int32),
        torch.empty(0, dtype=torch.long),
    ]
    for query in queries:
        part = gumbel_top_k(x, 3, temperature, batch=batch, query=query, generator=seeded(3), backend=backend)
        assert torch.equal(part, full[query.long()])
        near = nearest(x, 3, batch=batch, query=query, backend=backend)
        assert torch.equal(near, nearest(x, 3, batch=batch, backend=backend)[query.long()])


@pytest.mark.usefixtures("restored_threads")
@every_dtype
def test_sample_does_not_depend_on_threads(dtype: torch.dtype, backend: str) -> None:
    """A run that cannot be repeated on a machine with another number of cores."""
    x, samples = gaussian(900, 8, dtype=dtype), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        samples.append(gumbel_top_k(x, 10, 0.3, generator=seeded(5), backend=backend))
    assert torch.equal(*samples)


def test_generator_decides(backend: str) -> None:
    """Hidden global state, a generator that is not advanced, or a seed that is ignored."""
    x, state = gaussian(60), torch.get_rng_state()
    generator = seeded(6)
    first, second = (gumbel_top_k(x, 4, 0.1, generator=generator, backend=backend) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(gumbel_top_k(x, 4, 0.1, generator=seeded(6), backend=backend), first)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    own = gumbel_top_k(x, 4, 0.1, backend=backend)  # without a generator: torch's own, as torch.rand does
    assert torch.equal(own, first)


@every_dtype
def test_everybody(dtype: torch.dtype, backend: str) -> None:
    """The largest k: without loops all others, with loops all, in random order."""
    x, everybody = gaussian(12, dtype=dtype), torch.arange(12).expand(12, 12)
    sample = gumbel_top_k(x, 12, 0.1, loop=True, generator=seeded(7), backend=backend)
    assert torch.equal(sample.sort(1).values, everybody)
    sample = gumbel_top_k(x, 11, 0.1, generator=seeded(7), backend=backend)
    with_self = torch.cat([sample, torch.arange(12)[:, None]], 1)
    assert torch.equal(with_self.sort(1).values, everybody)
    assert len(sample.unique(dim=0)) == 12
    assert gumbel_top_k(x[:1], 1, 1.0, loop=True, backend=backend).tolist() == [[0]]
    assert gumbel_top_k(x[:2], 1, 1.0, backend=backend).tolist() == [[1], [0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_sampled_in_single(dtype: torch.dtype, backend: str) -> None:
    """Half-precision embeddings of mixed-precision training: distances in 8 bits, or a refusal."""
    x = gaussian(40).to(dtype)
    sample = gumbel_top_k(x, 3, 1.0, geometry=Sphere(), generator=seeded(8), backend=backend)
    assert torch.equal(sample, gumbel_top_k(x.float(), 3, 1.0, geometry=Sphere(), generator=seeded(8), backend=backend))


def test_embedding_and_temperature_may_require_gradients(backend: str) -> None:
    """A warning or a gradient graph for what is only indices; an embedding changed in place."""
    x = gaussian(20).requires_grad_()
    before = x.detach().clone()
    sample = gumbel_top_k(x, 3, torch.tensor(0.5, requires_grad=True), generator=seeded(9), backend=backend)
    assert not sample.requires_grad
    assert torch.equal(x, before)
    assert torch.equal(sample, gumbel_top_k(before, 3, 0.5, generator=seeded(9), backend=backend))
    assert torch.equal(
        sample, gumbel_top_k(before, 3, torch.tensor(0.5, dtype=torch.float64), generator=seeded(9), backend=backend)
    )


def test_flat_space_is_the_default(backend: str) -> None:
    x = gaussian(30)
    flat = gumbel_top_k(x, 3, 1.0, geometry=Euclidean(), generator=seeded(), backend=backend)
    assert torch.equal(gumbel_top_k(x, 3, 1.0, generator=seeded(), backend=backend), flat)
    assert not torch.equal(gumbel_top_k(x, 3, 1.0, geometry=Sphere(), generator=seeded(), backend=backend), flat)


def test_far_outlier_in_single_precision_stays_in_range() -> None:
    """Squared distances that overflow in single precision: self-edges, or neighbours from another graph."""
    x = gaussian(12)
    x[5] = 1e30
    batch = torch.tensor([0] * 4 + [1] * 8)
    for k in (2, 3):
        sample = gumbel_top_k(x, k, 1.0, batch=batch, generator=seeded(10))
        assert torch.equal(batch[sample], batch[:, None].expand(-1, k))
        assert not bool((sample == torch.arange(12)[:, None]).any())
        assert not bool((sample[[4, 6, 7, 8, 9, 10, 11]] == 5).any())


@every_space
@every_dtype
@both_loops
@pytest.mark.usefixtures("block_size")
def test_nearest_is_brute_force(space: Space, dtype: torch.dtype, loop: bool, backend: str) -> None:
    """kNN that is not kNN: missing neighbours, wrong order, or noise left in."""
    geometry = space.geometry(1.0)
    for batch in (None, batch_of(SIZES)):
        x = 0.5 * gaussian(sum(SIZES), space.width or 3, seed=11, dtype=dtype)
        found = nearest(x, 3, geometry=geometry, loop=loop, batch=batch, backend=backend)
        assert torch.equal(found, dense(x, 3, 1.0, geometry, loop, batch, None))
        if loop:
            assert torch.equal(found[:, 0], torch.arange(len(x)))


def test_nearest_among_equals(backend: str) -> None:
    """Ties: any of the equals, each once, nothing farther before them."""
    x = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [5.0]])
    found = nearest(x, 4, backend=backend)
    by_hand = [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1], [16, 16, 25, 25]]
    assert (x[found][..., 0] - x).square().tolist() == by_hand
    assert bool((found.sort(1).values.diff(dim=1) > 0).all())


def test_nearest_of_an_outlier(backend: str) -> None:
    """Far from everybody the differences drown in single precision; the order must still be right."""
    x = torch.tensor([[0.0], [2.0**-14], [2.0**-13], [-(2.0**-14)], [8192.0]])
    assert nearest(x, 4, backend=backend)[4].tolist() == [2, 1, 0, 3]


@every_space
@every_dtype
def test_no_noise_is_the_limit_of_large_temperature(space: Space, dtype: torch.dtype, backend: str) -> None:
    """The direction of the temperature: large values mean the nearest, not random neighbours."""
    geometry, x = space.geometry(1.0), 0.5 * gaussian(60, space.width or 3, seed=12, dtype=dtype)
    limit = nearest(x, 6, geometry=geometry, backend=backend)
    assert torch.equal(gumbel_top_k(x, 6, 1e9, geometry=geometry, generator=seeded(13), backend=backend), limit)
    assert not torch.equal(gumbel_top_k(x, 6, 1e-9, geometry=geometry, generator=seeded(13), backend=backend), limit)


def spoilt(value: float, rows: list[int]) -> Tensor:
    x = gaussian(10)
    x[rows, 1] = value
    return x


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("k too large", {"k": 20}, "k=20 but the graph has 10 nodes; k can be at most 9 with loop=False. Lower k."),
    ("k one too large", {"k": 10}, "k can be at most 9 with loop=False. Lower k or pass loop=True."),
    ("k too large with loop", {"k": 11, "loop": True}, "k=11 but the graph has 10 nodes; k can be at most 10"),
    (
        "k too large for a graph",
        {"k": 4, "batch": torch.tensor([0] * 6 + [1] * 4)},
        "smallest graph of the batch has",
    ),
    ("lonely node", {"k": 1, "batch": torch.tensor([0] * 9 + [1])}, "at most 0 with loop=False. It needs more nodes."),
    ("no nodes", {"x_hat": torch.empty(0, 3)}, "the graph has 0 nodes; k can be at most 0"),
    ("no graphs", {"x_hat": torch.empty(0, 3), "batch": torch.empty(0, dtype=torch.long)}, "0 nodes"),
    ("k zero", {"k": 0}, "k=0 but it must be a whole number of neighbours, at least 1"),
    ("k negative", {"k": -2}, "k=-2"),
    ("k fractional", {"k": 2.0}, "k=2.0 but it must be a whole number"),
    ("k bool", {"k": True}, "k=True"),
    ("nan", {"x_hat": spoilt(torch.nan, [3, 8])}, "2 rows with NaN or infinite values, the first is row 3"),
    ("inf", {"x_hat": spoilt(torch.inf, [7])}, "1 rows with NaN or infinite values, the first is row 7"),
    ("-inf", {"x_hat": spoilt(-torch.inf, [0])}, "the first is row 0"),
    ("vector", {"x_hat": torch.ones(10)}, "shape (10,); it must be floating point of shape (n, d_hat)"),
    ("integers", {"x_hat": torch.ones(10, 2, dtype=torch.long)}, "torch.int64 tensor of shape (10, 2); it must be"),
    ("overflow", {"x_hat": 1e200 * gaussian(10, dtype=torch.float64)}, "coordinates up to"),
    ("unknown backend", {"backend": "cuda"}, "backend='cuda' is not known; choose one of 'auto', 'torch'"),
    ("batch descending", {"batch": torch.tensor([0] * 5 + [2] * 3 + [1] * 2)}, "batch must be ascending"),
    ("batch too short", {"batch": torch.zeros(9, dtype=torch.long)}, "shape (9,); it must hold one integer graph id"),
    ("batch as a matrix", {"batch": torch.zeros(10, 1, dtype=torch.long)}, "shape (10, 1); it must hold one integer"),
    ("batch fractional", {"batch": torch.zeros(10)}, "batch is a torch.float32 tensor"),
    ("query too large", {"query": torch.tensor([0, 10])}, "from 0 to 10; x_hat has rows 0 to 9"),
    ("query negative", {"query": torch.tensor([-1, 3])}, "from -1 to 3; x_hat has rows 0 to 9"),
    ("query as a mask", {"query": torch.ones(10, dtype=torch.bool)}, "For a mask, pass mask.nonzero()[:, 0]"),
    ("query fractional", {"query": torch.ones(3)}, "query is a torch.float32 tensor of shape (3,)"),
    ("query as a matrix", {"query": torch.ones(3, 1, dtype=torch.long)}, "it must be a vector of row numbers"),
]


@pytest.mark.parametrize(("changed", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("function", [gumbel_top_k, nearest])
def test_refusals_say_what_came_and_what_is_allowed(
    function: Callable[..., Tensor], changed: dict[str, Any], message: str, backend: str
) -> None:
    """Nonsense in, a sample (or a torch error from deep inside) out."""
    arguments: dict[str, Any] = {"x_hat": gaussian(10), "k": 3, "backend": backend, **changed}
    if function is gumbel_top_k:
        arguments["temperature"] = 1.0
    with pytest.raises(InputError, match=re.escape(message)):
        function(**arguments)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_temperature_must_be_positive(temperature: float, as_tensor: bool) -> None:
    with pytest.raises(InputError, match=f"temperature={temperature} but it must be a positive, finite number"):
        gumbel_top_k(gaussian(10), 3, torch.tensor(temperature) if as_tensor else temperature)


def test_overflow_of_temperature_times_distance_is_refused(backend: str) -> None:
    """log p = -inf for every candidate: the masked ones (itself, other graphs) would be as good as any."""
    with pytest.raises(InputError, match=re.escape("temperature=1e+300")):
        gumbel_top_k(1e10 * gaussian(6, dtype=torch.float64), 2, 1e300, backend=backend)
