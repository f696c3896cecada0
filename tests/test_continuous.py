"""Continuous graphs in flat space: gradients by hand against autograd through the dense formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from latentgraph import blocks
from latentgraph.attention import flat_attention
from latentgraph.blocks import graph_sizes, pair_tiles
from latentgraph.continuous import SPREAD, FlatPairs, flat_product, is_flat
from latentgraph.diffusion import EdgeConv, adjacency_product, row_normalised, symmetric_normalised
from latentgraph.geometry import Euclidean, Sphere
from latentgraph.graph import LatentGraph
from latentgraph.messages import flat_message_sum

N = 43  # of no block a multiple
BATCH = torch.tensor([3] * 4 + [5] * 25 + [6] * 1 + [7] * 3 + [9] * 10)
Function = Callable[..., Tensor]
every_block = pytest.mark.parametrize("block", [1, 100, 4 * 15**2, 1 << 20])
with_batch = pytest.mark.parametrize("batch", [None, BATCH], ids=["one-graph", "batch"])


def randn(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def weights(x_hat: Tensor, t: Tensor, threshold: Tensor, batch: Tensor | None) -> Tensor:
    a = torch.sigmoid(t * (threshold - (x_hat[:, None] - x_hat[None]).square().sum(-1)))
    return a if batch is None else a * (batch[:, None] == batch)


def dense_product(z: Tensor, t: Tensor, threshold: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
    return weights(z, t, threshold, batch) @ x


def dense_attention(
    z: Tensor, t: Tensor, threshold: Tensor, h: Tensor, u: Tensor, v: Tensor, batch: Tensor | None
) -> Tensor:
    unnormalised = weights(z, t, threshold, batch)[..., None] * leaky_relu(u[:, None] + v[None], 0.2).exp()
    return torch.einsum("ijh,jhc->ihc", unnormalised / unnormalised.sum(1, keepdim=True), h)


def dense_message_sum(z: Tensor, t: Tensor, threshold: Tensor, p: Tensor, q: Tensor, batch: Tensor | None) -> Tensor:
    return torch.einsum("ij,ijc->ic", weights(z, t, threshold, batch), (p[:, None] + q[None]).relu())


def by_hand_attention(*inputs: Tensor, batch: Tensor | None) -> Tensor:
    z, t, threshold, h, u, v = inputs
    return flat_attention(z, t, threshold, h, u, v, 0.2, batch)


FORMS: dict[str, tuple[Function, Function, list[tuple[int, ...]]]] = {
    "product": (flat_product, dense_product, [(3,)]),
    "attention": (by_hand_attention, dense_attention, [(2, 3), (2,), (2,)]),
    "messages": (flat_message_sum, dense_message_sum, [(3,), (3,)]),
}
every_form = pytest.mark.parametrize("form", FORMS)


def inputs_of(form: str, n: int = N) -> list[Tensor]:
    """Embedding far from the origin, t, T and the features, in double precision."""
    z = randn(n, 3, seed=1) + 7
    numbers = [torch.tensor(value, dtype=torch.float64) for value in (0.7, 1.3)]
    return leaves(z, *numbers, *(randn(n, *shape, seed=2 + k) for k, shape in enumerate(FORMS[form][2])))


@every_form
@with_batch
@every_block
def test_by_hand_is_autograd(form: str, batch: Tensor | None, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a value or a gradient, in some input, for some way to cut the pairs."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    by_hand, dense, _ = FORMS[form]
    inputs = inputs_of(form)
    found, expected = by_hand(*inputs, batch=batch), dense(*inputs, batch=batch)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    direction = randn(*found.shape, seed=9)
    for a, b in zip(
        torch.autograd.grad((found * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
        strict=True,
    ):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@every_form
def test_gradcheck(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: both the gradient by hand and the dense formula, in the same way."""
    monkeypatch.setattr(blocks, "BLOCK", 4 * 3**2)
    batch = torch.tensor([0] * 7 + [1] * 2)
    assert torch.autograd.gradcheck(lambda *inputs: FORMS[form][0](*inputs, batch=batch), inputs_of(form, 9))


@every_form
def test_some_gradients_only(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: what is skipped when only the features, or only the graph, are trained."""
    monkeypatch.setattr(blocks, "BLOCK", 100)
    by_hand = FORMS[form][0]
    inputs = inputs_of(form)
    full = torch.autograd.grad(by_hand(*inputs, batch=None).square().sum(), inputs)
    for trained in (range(3), range(3, len(inputs)), [1]):
        some = [x.detach().requires_grad_(k in trained) for k, x in enumerate(inputs)]
        part = torch.autograd.grad(by_hand(*some, batch=None).square().sum(), [some[k] for k in trained])
        torch.testing.assert_close(list(part), [full[k] for k in trained])


@every_form
@with_batch
def test_only_vectors_are_kept(form: str, batch: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: memory quadratic in n, or the graph of autograd hangs on to tiles."""
    monkeypatch.setattr(blocks, "BLOCK", 100)
    inputs = inputs_of(form)
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = FORMS[form][0](*inputs, batch=batch)
    assert kept
    assert max(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in kept) <= N * 6
    assert len(kept) <= 2 * len(inputs)
    assert out.grad_fn is not None


@pytest.mark.parametrize("function", [row_normalised, symmetric_normalised])
@pytest.mark.parametrize("threshold", [-1.0, -1e6])
def test_rows_without_weight(function: Function, threshold: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: all weights of a row underflow, and 0 / 0 is not a number."""
    monkeypatch.setattr(blocks, "BLOCK", 100)
    x_hat, t, level, x = leaves(
        randn(N, 3, seed=1, dtype=torch.float32),
        torch.tensor(500.0),
        torch.tensor(threshold),
        randn(N, 2, seed=2, dtype=torch.float32),
    )
    out = function(LatentGraph(x_hat, t, Euclidean(), threshold=level), x, dense=False)
    assert bool((out == 0).all())
    for gradient in torch.autograd.grad(out.sum(), (x_hat, t, level, x)):
        assert bool((gradient == 0).all())


# Precision


def clusters(size: float) -> Tensor:
    """Points at distances about 1 within clusters that are `size` from the origin."""
    centres = torch.nn.functional.normalize(randn(6, 4, seed=3), dim=1) * size
    return (centres.repeat_interleave(50, 0) + 0.5 * randn(300, 4, seed=4)).float()


@pytest.mark.parametrize(("size", "shift"), [(1.0, 0.0), (100.0, 0.0), (200.0, 0.0), (1.0, 100.0)])
def test_single_precision_far_from_the_origin(size: float, shift: float) -> None:
    """Broken: the digits of close pairs are lost in |z_i|^2 + |z_j|^2 - 2 z_i z_j."""
    z, t, threshold = clusters(size) + shift, torch.tensor(1.0), torch.tensor(0.8)
    assert is_flat(Euclidean(), z, t, None)
    eye = torch.eye(300)
    found, expected = flat_product(z, t, threshold, eye, None), weights(z.double(), t, threshold, None)
    assert float((found - expected).abs().max()) < 1e-5
    by_hand, dense, _ = FORMS["product"]
    single = leaves(z, t, threshold, randn(300, 5, seed=5, dtype=torch.float32))
    double = leaves(*(tensor.double() for tensor in single))
    of_single = torch.autograd.grad(by_hand(*single, batch=None).square().sum(), single)
    of_double = torch.autograd.grad(dense(*double, batch=None).square().sum(), double)
    for a, b in zip(of_single, of_double, strict=True):
        assert float((a - b).norm() / b.norm()) < 1e-4


def test_far_clusters_in_a_batch_are_centred_one_by_one() -> None:
    """Broken: one mean for all graphs leaves each of them far from it."""
    batch = torch.arange(6).repeat_interleave(50)
    t, threshold = torch.tensor(1.0), torch.tensor(0.8)
    z = clusters(3000.0)
    assert is_flat(Euclidean(), z, t, batch)
    assert not is_flat(Euclidean(), z, t, None)
    found = flat_product(z, t, threshold, torch.eye(300), batch)
    assert float((found - weights(z.double(), t, threshold, batch)).abs().max()) < 1e-5


def test_what_is_too_wide_takes_the_exact_path() -> None:
    """Broken: the embedding's gradient loses its digits where the points are far apart in units of 1 / sqrt(t)."""
    z, level, x = clusters(30.0), torch.tensor(1e-6), randn(300, 2, seed=5, dtype=torch.float32)
    t = torch.tensor(1e6)
    assert not is_flat(Euclidean(), z, t, None)
    single = leaves(z, t, level, x)
    out = adjacency_product(LatentGraph(single[0], single[1], Euclidean(), threshold=single[2]), single[3], dense=False)
    double = leaves(*(tensor.double() for tensor in (z, t, level, x)))
    torch.testing.assert_close(out.double(), FORMS["product"][1](*double, batch=None), rtol=1e-4, atol=1e-4)


def test_where_the_flat_formulas_apply() -> None:
    """Broken: another geometry, a temperature that is not positive, or not a number, gets the Euclidean formula."""
    z = torch.eye(4)
    assert is_flat(Euclidean(), z, torch.tensor(SPREAD), None)
    assert not is_flat(Euclidean(), z, torch.tensor(2 * SPREAD), None)
    assert not is_flat(Sphere(), z, torch.tensor(1.0), None)
    for t in (0.0, -1.0, float("nan")):
        assert not is_flat(Euclidean(), z, torch.tensor(t), None)
    assert not is_flat(Euclidean(), torch.full((4, 4), torch.nan), torch.tensor(1.0), None)


def test_mixed_precisions_are_promoted() -> None:
    """Broken: half-precision features of a single-precision graph fail, or drag the sums down to half precision."""
    z, t, threshold = randn(N, 3, seed=1, dtype=torch.float32), torch.tensor(0.7), torch.tensor(1.3)
    x = randn(N, 2, seed=2, dtype=torch.float32).half()
    out = flat_product(z, t, threshold, x, None)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, dense_product(z, t, threshold, x.float(), None))
    assert flat_product(z.double(), t, threshold, x, None).dtype == torch.float64


# Tiles


@pytest.mark.parametrize("block", [1, 16, 36, 100, 400, 10_000])
@with_batch
def test_tiles_meet_each_pair_once(batch: Tensor | None, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: pairs lost or counted twice, or tiles larger than promised."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    met = torch.zeros(N, N)
    for tile in pair_tiles(batch, N):
        assert (tile.row_stop - tile.row_start) * (tile.stop - tile.start) <= max(1, block // 4)
        met[tile.rows, tile.columns] += 1
        if tile.row_start != tile.start:
            met[tile.columns, tile.rows] += 1
    own = torch.ones(N, N, dtype=torch.bool) if batch is None else batch[:, None] == batch
    assert bool((met[own] == 1).all())
    assert bool((met <= 1).all())


def test_small_graphs_share_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: one call for each of many tiny graphs."""
    monkeypatch.setattr(blocks, "BLOCK", 4 * 20**2)
    batch = torch.arange(50).repeat_interleave(4)
    assert len(list(pair_tiles(batch, 200))) == 10
    assert len(graph_sizes(batch, 200)) == 50


def test_pairs_of_different_graphs_are_finite() -> None:
    """Broken: minus infinity times a gradient of zero is not a number."""
    batch = torch.tensor([0, 0, 1])
    pairs = FlatPairs(randn(3, 2, seed=0), torch.tensor(1.0), torch.tensor(1.0), batch)
    (tile,) = pair_tiles(batch, 3)
    logit = pairs.logit(tile)
    assert bool(logit.isfinite().all())
    assert torch.equal(logit.sigmoid() == 0, batch[:, None] != batch)


# The maximum of messages


@with_batch
@pytest.mark.parametrize("block", [1, 200, 1 << 20])
def test_the_largest_message_keeps_linear_memory(
    batch: Tensor | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: the winners, found without gradients, are not those of the dense maximum, or are not all that is kept."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    module = EdgeConv(3, 2).double()
    inputs = [*leaves(*inputs_of("product")), *module.parameters()]
    z, t, threshold, x = inputs[:4]
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.untyped_storage().nbytes() // tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = module(x, LatentGraph(z, t, Euclidean(), threshold=threshold, batch=batch))
    assert max(kept) <= N * 2 * 3
    pairs = torch.cat([x[:, None].expand(N, N, 3), x[None] - x[:, None]], dim=2)
    expected = (weights(z, t, threshold, batch)[..., None] * module.message(pairs)).amax(1)
    torch.testing.assert_close(found, expected)
    direction = randn(N, 2, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad((found * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
    )


@pytest.mark.parametrize("own", [20.0, -80.0], ids=["near", "all-far"])
@every_form
def test_no_number_is_denormal(form: str, own: float) -> None:
    """Far pairs, whose weights would be denormal, are zero; beside what the others weigh that is nothing.

    With `own`, the logit of a node with itself, at -80 all weights are below 1e-34: they count relative to each other.
    """
    by_hand, dense, _ = FORMS[form]
    z, t, _, *features = inputs_of(form, 60)
    z.data *= 3
    t.data.fill_(2.0)
    threshold = torch.tensor(own / 2, dtype=torch.float64)
    exact = dense(z, t, threshold, *features, batch=None).detach()
    found = by_hand(*(x.detach().float() for x in (z, t, threshold, *features)), batch=None).double()
    assert (found - exact).abs().max() < 1e-3 * exact.abs().max()  # logits of -80 keep five digits
    single = FlatPairs(z.detach().float(), t.detach().float(), threshold.float(), None)
    logit = single.logit(next(iter(pair_tiles(None, 60))))
    weight = logit.sigmoid()
    tiny = torch.finfo(torch.float32).tiny
    assert (weight == 0).sum() > 100
    assert ((weight == 0) | (weight > tiny**0.8 * min(1.0, math.exp(own)) / 2)).all()
