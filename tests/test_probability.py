"""Edge log-probabilities, the logistic adjacency and the Plackett-Luce likelihood, by hand and by enumeration."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

from latentgraph import Euclidean, PoincareBall, Sphere, gumbel_top_k
from latentgraph.blocks import Block
from latentgraph.geometry import Geometry
from latentgraph.probability import adjacency_block, edge_log_p, logistic_adjacency, plackett_luce
from spaces import Space, every_dtype, every_space

BATCH = torch.tensor([0, 0, 0, 2, 2, 2, 2])
both_loops = pytest.mark.parametrize("loop", [False, True])


def number(value: float, requires_grad: bool = False, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(value, dtype=dtype, requires_grad=requires_grad)


def points(space: Space, n: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return space.points(n, 2, 0.8, 1.0, dtype, seed)


def sample_of(x: Tensor, k: int, geometry: Geometry, loop: bool, batch: Tensor | None = None) -> Tensor:
    return gumbel_top_k(
        x, k, 0.5, geometry=geometry, loop=loop, batch=batch, generator=torch.Generator().manual_seed(1)
    )


def naive_likelihood(
    x: Tensor, neighbors: Tensor, temperature: float, geometry: Geometry, loop: bool, batch: Tensor | None = None
) -> Tensor:
    """log P as the product of one draw after another, each from the candidates that are left."""
    result = []
    for i, row in enumerate(neighbors.tolist()):
        left = [j for j in range(len(x)) if (loop or j != i) and (batch is None or batch[i] == batch[j])]
        probability = 1.0
        for j in row:
            weight = {c: math.exp(-temperature * geometry.sq_dist(x[i], x[c]).item()) for c in left}
            probability *= weight[j] / sum(weight.values())
            left.remove(j)
        result.append(math.log(probability))
    return torch.tensor(result, dtype=x.dtype)


def test_edge_log_p_by_hand() -> None:
    """The sign, the square and the place of the temperature."""
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    temperature = number(0.5, True, torch.float32)
    edges = torch.tensor([[1, 2, 2, 0], [0, 1, 2, 2]])
    log_p = edge_log_p(x, edges, temperature, Euclidean())
    assert log_p.tolist() == [-12.5, -9.0, 0.0, -0.5]
    by_x, by_t = torch.autograd.grad(log_p[0] + log_p[3], (x, temperature))
    assert by_t.item() == -26.0
    assert by_x.tolist() == [[3.0, 5.0], [-3.0, -4.0], [0.0, -1.0]]
    sphere = edge_log_p(torch.eye(2), torch.tensor([[0], [1]]), torch.tensor(2.0), Sphere())
    assert sphere.item() == pytest.approx(-2 * (math.pi / 2) ** 2)
    ball = edge_log_p(torch.tensor([[0.0], [0.5]]), torch.tensor([[0], [1]]), torch.tensor(2.0), PoincareBall())
    assert ball.item() == pytest.approx(-2 * math.log(3.0) ** 2)


@every_space
def test_edge_log_p_is_the_weight_of_the_sample(space: Space) -> None:
    """Probabilities of edges that are not those they were sampled with: the graph loss would push elsewhere."""
    geometry, x = space.geometry(1.0), points(space, 8).requires_grad_()
    t = number(1.3, True)
    j, i = (index.flatten() for index in torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij"))
    log_p = edge_log_p(x, torch.stack([j, i]), t, geometry)
    torch.testing.assert_close(log_p.view(8, 8), -t * geometry.sq_cdist(x, x))
    assert torch.autograd.gradcheck(lambda x, t: edge_log_p(x, torch.stack([j, i]), t, geometry), (x, t))


def test_no_edges() -> None:
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert edge_log_p(torch.ones(3, 2), nothing, torch.tensor(1.0), Euclidean()).shape == (0,)


@every_space
@every_dtype
def test_adjacency_is_the_logistic_function(space: Space, dtype: torch.dtype) -> None:
    """a = sigmoid(t (T - d^2)): the sign printed in the paper would make far nodes neighbours."""
    geometry, x = space.geometry(1.0), points(space, 9, dtype)
    t, threshold = 1.7, 0.6
    adjacency = logistic_adjacency(x, number(t, dtype=dtype), number(threshold, dtype=dtype), geometry)
    assert adjacency.shape == (9, 9)
    assert adjacency.dtype == dtype
    sq_dist = geometry.sq_dist(x[:, None], x[None, :]).double()
    by_hand = 1 / (1 + (-t * (threshold - sq_dist)).exp())
    torch.testing.assert_close(adjacency.double(), by_hand, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=0)
    order = sq_dist[0].argsort()
    assert bool((adjacency[0, order].diff() < 0).all())
    torch.testing.assert_close(adjacency, adjacency.T)


def test_adjacency_at_the_threshold() -> None:
    """One half at d^2 = T, whatever the temperature."""
    x = torch.tensor([[0.0], [2.0], [4.0]])
    adjacency = logistic_adjacency(x, torch.tensor(50.0), torch.tensor(4.0), Euclidean())
    torch.testing.assert_close(adjacency, torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]))


@every_space
def test_adjacency_of_a_batch_is_block_diagonal(space: Space) -> None:
    """Weights between graphs of a batch: exactly zero, and no gradient; inside, as if each were alone."""
    geometry, x = space.geometry(1.0), points(space, 7).requires_grad_()
    t, threshold = number(0.4, True), number(-0.3, True)
    adjacency = logistic_adjacency(x, t, threshold, geometry, BATCH)
    alone = [logistic_adjacency(part, t, threshold, geometry) for part in (x[:3], x[3:])]
    torch.testing.assert_close(adjacency, torch.block_diag(*alone))
    foreign = BATCH[:, None] != BATCH
    assert float(adjacency.detach()[foreign].abs().max()) == 0
    (gradient,) = torch.autograd.grad(adjacency[foreign].sum(), x, retain_graph=True)
    assert float(gradient.abs().max()) == 0
    assert torch.autograd.gradcheck(
        lambda x, t, threshold: logistic_adjacency(x, t, threshold, geometry, BATCH), (x, t, threshold)
    )


@pytest.mark.parametrize("block", [Block(0, 2, 0, 3), Block(1, 5, 0, 7), Block(6, 7, 3, 7)])
def test_adjacency_block_is_a_part_of_the_whole(block: Block) -> None:
    """Row and column offsets of the blocked kernels, and their logarithm."""
    x = torch.randn(7, 2, generator=torch.Generator().manual_seed(2))
    t, threshold = torch.tensor(1.0), torch.tensor(0.5)
    whole = logistic_adjacency(x, t, threshold, Euclidean(), BATCH)[
        block.row_start : block.row_stop, block.start : block.stop
    ]
    torch.testing.assert_close(adjacency_block(block, x, t, threshold, Euclidean(), BATCH), whole)
    log = adjacency_block(block, x, t, threshold, Euclidean(), BATCH, log=True)
    torch.testing.assert_close(log, whole.log())


def test_log_adjacency_does_not_underflow() -> None:
    """Where the weight itself is zero in single precision, its logarithm is -t (d^2 - T) with a gradient."""
    x = torch.tensor([[0.0], [30.0]], requires_grad=True)
    block, one = Block(0, 1, 0, 2), torch.tensor(1.0)
    log = adjacency_block(block, x, one, one, Euclidean(), None, log=True)
    assert log[0, 1].item() == pytest.approx(-899.0)
    assert adjacency_block(block, x, one, one, Euclidean(), None)[0, 1].item() == 0
    (gradient,) = torch.autograd.grad(log[0, 1], x)
    torch.testing.assert_close(gradient, torch.tensor([[60.0], [-60.0]]))


@every_space
@both_loops
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 4.0])
def test_likelihood_sums_to_one(space: Space, loop: bool, k: int, temperature: float) -> None:
    """Not a probability: wrong candidates, a wrong normaliser, or the chosen ones not taken out."""
    geometry, x = space.geometry(1.0), points(space, 5)
    orders = [list(permutations([j for j in range(5) if loop or j != i], k)) for i in range(5)]
    total = torch.zeros(5, dtype=torch.float64)
    for neighbors in zip(*orders, strict=True):  # one order for every row at a time, each row meets all of its own
        total += plackett_luce(x, torch.tensor(neighbors), number(temperature), geometry, loop=loop).exp()
    torch.testing.assert_close(total, torch.ones(5, dtype=torch.float64))


@both_loops
def test_likelihood_of_a_batch_sums_to_one(loop: bool) -> None:
    """Candidates from other graphs in the normaliser."""
    x = torch.randn(7, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    members = [[j for j in range(7) if BATCH[j] == BATCH[i] and (loop or j != i)] for i in range(7)]
    orders = [list(permutations(row, 2)) for row in members]
    total = torch.zeros(7, dtype=torch.float64)
    for step in range(max(map(len, orders))):
        neighbors = torch.tensor([order[step % len(order)] for order in orders])
        fresh = torch.tensor([step < len(order) for order in orders])
        total += plackett_luce(x, neighbors, number(0.6), Euclidean(), loop=loop, batch=BATCH).exp() * fresh
    torch.testing.assert_close(total, torch.ones(7, dtype=torch.float64))


@every_space
@both_loops
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("budget", [1, 10, 21, 1 << 20])
def test_likelihood_is_the_naive_formula(
    space: Space, loop: bool, batched: bool, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients, in one block and in many; the order of arrival must count."""
    geometry, x = space.geometry(1.0), points(space, 7, seed=4)
    batch = BATCH if batched else None
    neighbors = sample_of(x, 2, geometry, loop, batch)
    x.requires_grad_()
    t = number(0.9, True)
    whole = plackett_luce(x, neighbors, t, geometry, loop=loop, batch=batch)
    monkeypatch.setattr("latentgraph.blocks.BLOCK", budget)
    cut = plackett_luce(x, neighbors, t, geometry, loop=loop, batch=batch)
    torch.testing.assert_close(cut.detach(), naive_likelihood(x.detach(), neighbors, 0.9, geometry, loop, batch))
    torch.testing.assert_close(cut, whole)
    weights = torch.arange(1.0, 8.0)
    torch.testing.assert_close(
        torch.autograd.grad((cut * weights).sum(), (x, t)), torch.autograd.grad((whole * weights).sum(), (x, t))
    )
    backwards = plackett_luce(x, neighbors.flip(1), t, geometry, loop=loop, batch=batch).detach()
    naive = naive_likelihood(x.detach(), neighbors.flip(1), 0.9, geometry, loop, batch)
    torch.testing.assert_close(backwards, naive)
    assert float((backwards - cut.detach()).abs().max()) > 1e-3


@every_space
@both_loops
@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize("budget", [14, 1 << 20])
def test_likelihood_gradcheck(
    space: Space, loop: bool, everybody: bool, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong gradient with respect to the embedding or the temperature, also when no candidate is left over."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", budget)
    geometry, x = space.geometry(1.0), points(space, 5, seed=5)
    k = (5 if loop else 4) if everybody else 2
    neighbors = sample_of(x, k, geometry, loop)
    assert torch.autograd.gradcheck(
        lambda x, t: plackett_luce(x, neighbors, t, geometry, loop=loop), (x.requires_grad_(), number(0.8, True))
    )


def test_certain_sample_has_log_likelihood_zero() -> None:
    """One candidate, one neighbour: nothing to learn from it, but no nan either."""
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(6)).requires_grad_()
    t = number(2.0, True, torch.float32)
    batch = torch.tensor([0, 0, 1, 1])
    log_p = plackett_luce(x, torch.tensor([[1], [0], [3], [2]]), t, Euclidean(), batch=batch)
    torch.testing.assert_close(log_p, torch.zeros(4))
    for gradient in torch.autograd.grad(log_p.sum(), (x, t)):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


def test_likelihood_of_twins_is_uniform() -> None:
    """All points equal: every ordered sample of 2 out of 4 candidates has probability 1/12."""
    x = torch.full((5, 3), 0.7, requires_grad=True)
    neighbors = torch.tensor([[(i + 1) % 5, (i + 3) % 5] for i in range(5)])
    log_p = plackett_luce(x, neighbors, torch.tensor(3.0), Euclidean())
    torch.testing.assert_close(log_p, torch.full((5,), -math.log(12.0)))
    (gradient,) = torch.autograd.grad(log_p.sum(), x)
    assert bool((gradient == 0).all())


@every_space
@every_dtype
@both_loops
@pytest.mark.parametrize("temperature", [1e-8, 1e8])
def test_likelihood_is_finite_at_extreme_temperatures(
    space: Space, dtype: torch.dtype, loop: bool, temperature: float
) -> None:
    """exp(-t d^2) under- or overflows; its logarithm must not."""
    geometry, x = space.geometry(1.0), points(space, 6, dtype, seed=7)
    uniform_order = torch.tensor([[j for j in range(6) if loop or j != i] for i in range(6)])
    for k in (2, 5):
        x_leaf, t = x.clone().requires_grad_(), number(temperature, True, dtype)
        log_p = plackett_luce(x_leaf, uniform_order[:, :k], t, geometry, loop=loop)
        assert bool(log_p.isfinite().all())
        assert bool((log_p <= 1e-5).all())
        for gradient in torch.autograd.grad(log_p.sum(), (x_leaf, t)):
            assert bool(gradient.isfinite().all())
        if temperature < 1:
            candidates = uniform_order.shape[1]
            uniform = -math.log(math.perm(candidates, k))
            torch.testing.assert_close(log_p.detach(), torch.full((6,), uniform, dtype=dtype), rtol=1e-5, atol=1e-6)


def test_nearest_are_certain_at_a_large_temperature() -> None:
    """The other extreme by value: the nearest in order have probability one, a swap costs t times the difference."""
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    t = number(1e8)
    near, far = torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.tensor([[2, 1], [2, 0], [0, 1]])
    torch.testing.assert_close(plackett_luce(x, near, t, Euclidean()), torch.zeros(3, dtype=torch.float64))
    expected = -1e8 * torch.tensor([9.0 - 1, 4 - 1, 9 - 4], dtype=torch.float64)
    torch.testing.assert_close(plackett_luce(x, far, t, Euclidean()), expected)


def test_likelihood_has_score_zero_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """E[grad log P] = 0 under the sampler: what makes the likelihood the exact choice for the graph loss."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", 1 << 14)  # few pairs across graphs
    copies = 4000
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    batch = torch.arange(copies).repeat_interleave(4)
    everywhere = x.repeat(copies, 1).requires_grad_()
    neighbors = gumbel_top_k(everywhere, 2, 0.7, batch=batch, generator=torch.Generator().manual_seed(9))
    log_p = plackett_luce(everywhere, neighbors, number(0.7), Euclidean(), batch=batch)
    (score,) = torch.autograd.grad(log_p.sum(), everywhere)
    score = score.view(copies, 8)
    z = score.mean(0) / (score.std(0) / math.sqrt(copies))
    assert float(z.abs().max()) < 4


@every_space
def test_edges_in_parts_are_the_same(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a gradient, where memory counts, bit for bit what training sees."""
    x = points(space, 9)
    edges = torch.randint(9, (2, 23), generator=torch.Generator().manual_seed(0))
    geometry = space.geometry(1.0)
    whole = edge_log_p(x, edges, number(2.0), geometry)
    monkeypatch.setattr("latentgraph.probability.SOME", 16)  # as the real one, so many vectors
    with torch.no_grad():
        assert torch.equal(edge_log_p(x, edges, number(2.0), geometry), whole)
