"""Convolutions on edge lists and on continuous graphs, whole and block by block."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.nn import EdgeConv as PyGEdgeConv
from torch_geometric.nn import GATConv, GCNConv

from latentgraph import blocks
from latentgraph.diffusion import (
    GAT,
    GCN,
    Aggregation,
    EdgeConv,
    RowNormalised,
    adjacency_product,
    row_normalised,
    symmetric_normalised,
)
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Product, Sphere
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM
from latentgraph.stacks import edge_conv, gat, gcn, mlp, row_normalised_conv

AnyModule = TypeVar("AnyModule", bound=nn.Module)
GEOMETRIES: dict[str, Geometry] = {
    "euclidean": Euclidean(),
    "ball": PoincareBall(0.5),
    "sphere": Sphere(),
    "product": Product([(Euclidean(), 1), (Sphere(), 3)]),
}
AGGREGATIONS: list[Aggregation] = ["sum", "mean", "max"]
EDGES = torch.tensor([[1, 2, 0, 3, 4, 1, 0, 4], [0, 0, 1, 1, 1, 2, 3, 3]])  # nobody points at 4
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2])


def points(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def fill(module: AnyModule, seed: int = 0, dtype: torch.dtype = torch.float64) -> AnyModule:
    """Give every parameter values that depend on the seed only; biases too, which PyG starts at zero."""
    module.to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.7)
    return module


def continuous(
    n: int = 13,
    *,
    geometry: Geometry | None = None,
    batch: Tensor | None = None,
    t: float = 0.8,
    threshold: float = 1.2,
    dtype: torch.dtype = torch.float64,
) -> LatentGraph:
    """A continuous graph whose embedding, temperature and threshold are leaves that want gradients."""
    geometry = geometry or Euclidean()
    x_hat = geometry.project(0.4 * points(n, 4, seed=11, dtype=dtype)).detach().requires_grad_()
    numbers = [torch.tensor(value, dtype=dtype, requires_grad=True) for value in (t, threshold)]
    return LatentGraph(x_hat, numbers[0], geometry, threshold=numbers[1], batch=batch)


def weights(graph: LatentGraph) -> Tensor:
    """(n, n) the weights a_ij by the formula, pair by pair from `sq_dist`, zero between graphs of a batch."""
    assert graph.threshold is not None
    sq_dist = graph.geometry.sq_dist(graph.x_hat[:, None], graph.x_hat[None])
    a = 1 / (1 + torch.exp(-graph.temperature * (graph.threshold - sq_dist)))
    return a if graph.batch is None else a * (graph.batch[:, None] == graph.batch)


def complete_edges(n: int) -> Tensor:
    """All ordered pairs, self edges included; edge e = i n + j goes from j to i."""
    i, j = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
    return torch.stack([j, i])


def gradients(out: Tensor, graph: LatentGraph, x: Tensor, module: nn.Module | None = None) -> list[Tensor]:
    """Of a random projection of `out`, in x, the embedding, t, T and all weights."""
    assert graph.threshold is not None
    leaves = [x, graph.x_hat, graph.temperature, graph.threshold, *(module.parameters() if module else [])]
    direction = points(len(out), out[0].numel(), seed=5, dtype=out.dtype)
    return list(torch.autograd.grad((out * direction).sum(), leaves))


# Edge lists


def adjacency_of_edges(n: int, edge_index: Tensor) -> Tensor:
    a = torch.zeros(n, n, dtype=torch.float64)
    a[edge_index[1], edge_index[0]] = 1
    return a


def test_gcn_on_edges_by_hand() -> None:
    """Broken: another normalisation, no self-loops, or messages against the arrows."""
    module, x = fill(GCN(3, 2)), points(5, 3)
    a = adjacency_of_edges(5, EDGES) + torch.eye(5)
    scale = a.sum(1).rsqrt()
    weight, bias = module.conv.lin.weight, module.conv.bias
    expected = torch.diag(scale) @ a @ torch.diag(scale) @ x @ weight.T + bias
    torch.testing.assert_close(module(x, EDGES), expected)


@pytest.mark.parametrize("width", [2, 4])
def test_gcn_is_pygs_on_edges(width: int) -> None:
    """To fewer columns and to more: the order of its two products differs."""
    module, x = fill(GCN(3, width)), points(5, 3)
    reference = GCNConv(3, width).double()
    reference.load_state_dict(module.conv.state_dict())
    torch.testing.assert_close(module(x, EDGES), reference(x, EDGES))


@pytest.mark.parametrize("concat", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_gat_on_edges_by_hand(heads: int, concat: bool) -> None:
    """Broken: attention is normalised over another set than a node's neighbours and itself."""
    module, x = fill(GAT(3, 2, heads=heads, concat=concat)), points(5, 3)
    allowed = (adjacency_of_edges(5, EDGES) + torch.eye(5)) > 0
    h = (x @ module.conv.lin.weight.T).view(5, heads, 2)
    outs = []
    for head in range(heads):
        u, v = module.conv.att_dst[0, head], module.conv.att_src[0, head]
        score = nn.functional.leaky_relu((h[:, head] @ u)[:, None] + (h[:, head] @ v)[None, :], 0.2)
        alpha = torch.softmax(score.masked_fill(~allowed, -torch.inf), 1)
        outs.append(alpha @ h[:, head])
    expected = torch.cat(outs, 1) if concat else torch.stack(outs).mean(0)
    torch.testing.assert_close(module(x, EDGES), expected + module.conv.bias)


@pytest.mark.parametrize("aggr", AGGREGATIONS)
def test_edge_conv_on_edges_by_hand(aggr: Aggregation) -> None:
    """Broken: the message is not h(x_i, x_j - x_i), or its aggregation another one."""
    module, x = fill(EdgeConv(3, 2, aggr=aggr)), points(5, 3)
    for i in range(5):
        messages = [module.message(torch.cat([x[i], x[j] - x[i]])) for j in EDGES[0, EDGES[1] == i].tolist()]
        if not messages:
            expected = torch.zeros(2, dtype=torch.float64)
        else:
            stacked = torch.stack(messages)
            expected = stacked.amax(0) if aggr == "max" else getattr(stacked, aggr)(0)
        torch.testing.assert_close(module(x, EDGES)[i], expected)


def test_row_normalised_on_edges_by_hand() -> None:
    """Broken: not the mean over the neighbours, or a node without neighbours divides by zero."""
    module, x = fill(RowNormalised(3, 2)), points(5, 3)
    h = x @ module.linear.weight.T
    expected = torch.stack([(h[1] + h[2]) / 2, (h[0] + h[3] + h[4]) / 3, h[1], (h[0] + h[4]) / 2, 0 * h[0]])
    torch.testing.assert_close(module(x, EDGES), expected)


def test_row_normalised_has_no_bias_unless_asked() -> None:
    assert [name for name, _ in RowNormalised(3, 2).named_parameters()] == ["linear.weight"]
    assert RowNormalised(3, 2, bias=True).linear.bias is not None


def test_a_given_message_is_taken_as_it_is() -> None:
    """Broken: the weights of the user's h are initialised again, or saved twice."""
    linear = nn.Linear(6, 2)
    message = nn.Sequential(linear, nn.ReLU())
    before = linear.weight.detach().clone()
    module = EdgeConv(3, 2, message=message)
    assert module.message is message
    assert torch.equal(linear.weight, before)
    assert len(module.state_dict()) == len(list(module.parameters())) == 2


def test_unknown_aggregation_is_refused() -> None:
    with pytest.raises(InputError, match="aggr='median' is not known; choose 'sum', 'mean' or 'max'"):
        EdgeConv(3, 2, aggr="median")  # type: ignore[arg-type]


# Continuous graphs, against dense formulas


@pytest.fixture(params=["whole", "blocks"])
def blocked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test twice: all pairs at once, and in blocks of one or a few rows."""
    if request.param == "blocks":
        monkeypatch.setattr(blocks, "BLOCK", 8)
    return bool(request.param == "blocks")


every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
with_batch = pytest.mark.parametrize("batch", [None, BATCH], ids=["one-graph", "batch"])


def assert_agrees(out: Tensor, expected: Tensor, graph: LatentGraph, x: Tensor, module: nn.Module | None) -> None:
    torch.testing.assert_close(out, expected)
    found, wanted = gradients(out, graph, x, module), gradients(expected, graph, x, module)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


@every_geometry
@with_batch
@pytest.mark.parametrize("dense", [None, False, True])
def test_adjacency_product(geometry: Geometry, batch: Tensor | None, dense: bool | None, blocked: bool) -> None:
    """Broken: A x differs from its definition, whole or in blocks, in value or gradient."""
    graph, x = continuous(geometry=geometry, batch=batch), points(13, 3).requires_grad_()
    assert_agrees(adjacency_product(graph, x, dense=dense), weights(graph) @ x, graph, x, None)


def test_dense_decides_whether_the_adjacency_is_formed(blocked: bool) -> None:
    """Broken: the argument is ignored; by default small graphs are dense."""
    for dense, formed in ((True, True), (False, False), (None, not blocked)):
        graph = continuous()
        adjacency_product(graph, points(13, 3), dense=dense)
        assert ("_differentiable_adj" in vars(graph)) is formed


@every_geometry
@with_batch
@pytest.mark.parametrize("dense", [None, False])
def test_normalised_products(geometry: Geometry, batch: Tensor | None, dense: bool | None, blocked: bool) -> None:
    """Broken: D^-1 A x or D^-1/2 A D^-1/2 x."""
    graph, x = continuous(geometry=geometry, batch=batch), points(13, 3).requires_grad_()
    a = weights(graph)
    assert_agrees(row_normalised(graph, x, dense=dense), a @ x / a.sum(1, keepdim=True), graph, x, None)
    graph = replace(graph)  # the first backward pass has used up the cached adjacency
    a = weights(graph)
    scale = a.sum(1, keepdim=True).rsqrt()
    assert_agrees(symmetric_normalised(graph, x, dense=dense), scale * (a @ (scale * x)), graph, x, None)


@every_geometry
@with_batch
def test_gcn_on_weights(geometry: Geometry, batch: Tensor | None, blocked: bool) -> None:
    """Broken: the graph convolution on a continuous graph is not D^-1/2 A D^-1/2 X W + b."""
    module, graph, x = fill(GCN(3, 2)), continuous(geometry=geometry, batch=batch), points(13, 3).requires_grad_()
    a = weights(graph)
    scale = a.sum(1).rsqrt()
    expected = torch.diag(scale) @ a @ torch.diag(scale) @ x @ module.conv.lin.weight.T + module.conv.bias
    assert_agrees(module(x, graph), expected, graph, x, module)


def test_gcn_on_weights_is_pygs_on_the_complete_weighted_graph(blocked: bool) -> None:
    """Broken: the same layer means different things on a weighted edge list and on the graph it came from."""
    module, graph, x = fill(GCN(3, 2)), continuous(), points(13, 3).requires_grad_()
    edge_weight = weights(graph).flatten()
    expected = module.conv(x, complete_edges(13), edge_weight)
    assert_agrees(module(x, graph), expected, graph, x, module)


@every_geometry
@with_batch
def test_row_normalised_on_weights(geometry: Geometry, batch: Tensor | None, blocked: bool) -> None:
    """Broken: the convolution of the zero-shot section is not D^-1 A X W."""
    module, graph = fill(RowNormalised(3, 2, bias=True)), continuous(geometry=geometry, batch=batch)
    x = points(13, 3).requires_grad_()
    a = weights(graph)
    expected = (a / a.sum(1, keepdim=True)) @ (x @ module.linear.weight.T + module.linear.bias)
    assert_agrees(module(x, graph), expected, graph, x, module)


@every_geometry
@with_batch
@pytest.mark.parametrize(("heads", "concat"), [(1, False), (3, False), (2, True)])
def test_gat_on_weights(geometry: Geometry, batch: Tensor | None, heads: int, concat: bool, blocked: bool) -> None:
    """Broken: attention is not proportional to a_ij exp(score)."""
    module = fill(GAT(3, 2, heads=heads, concat=concat))
    graph, x = continuous(geometry=geometry, batch=batch), points(13, 3).requires_grad_()
    h = (x @ module.conv.lin.weight.T).view(13, heads, 2)
    outs = []
    for head in range(heads):
        u, v = module.conv.att_dst[0, head], module.conv.att_src[0, head]
        score = nn.functional.leaky_relu((h[:, head] @ u)[:, None] + (h[:, head] @ v)[None, :], 0.2)
        alpha = weights(graph) * score.exp()
        outs.append(alpha @ h[:, head] / alpha.sum(1, keepdim=True))
    expected = torch.cat(outs, 1) if concat else torch.stack(outs).mean(0)
    assert_agrees(module(x, graph), expected + module.conv.bias, graph, x, module)


def test_gat_with_all_weights_one_is_pygs_on_the_complete_graph(blocked: bool) -> None:
    """Broken: the limit of a huge threshold, where every a_ij = 1, is not graph attention among all."""
    module = fill(GAT(3, 2, heads=2))
    reference = GATConv(3, 2, heads=2, concat=False).double()
    reference.load_state_dict(module.conv.state_dict())
    x = points(13, 3)
    torch.testing.assert_close(module(x, continuous(threshold=1e6)), reference(x, complete_edges(13)))


def test_gat_survives_large_scores(blocked: bool) -> None:
    """Broken: exp overflows where scores are large."""
    module, x = fill(GAT(3, 2)), 1e3 * points(13, 3)
    graph = continuous()
    out = module(x, graph)
    assert bool(out.isfinite().all())
    h = x @ module.conv.lin.weight.T
    score = nn.functional.leaky_relu(
        (h @ module.conv.att_dst[0, 0])[:, None] + (h @ module.conv.att_src[0, 0])[None, :], 0.2
    )
    expected = torch.softmax(score + weights(graph).log(), 1) @ h + module.conv.bias
    torch.testing.assert_close(out, expected)


def mixed_sign_message() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


MESSAGES: dict[str, Callable[[], nn.Module | None]] = {
    "default": lambda: None,
    "linear": lambda: nn.Linear(6, 2),
    "perceptron": mixed_sign_message,
    "stack": lambda: mlp([6, 5, 2]),
}


@every_geometry
@with_batch
@pytest.mark.parametrize("aggr", AGGREGATIONS)
@pytest.mark.parametrize("message", MESSAGES)
def test_edge_conv_on_weights(
    geometry: Geometry, batch: Tensor | None, aggr: Aggregation, message: str, blocked: bool
) -> None:
    """Broken: not the sum, mean or maximum of a_ij h(x_i, x_j - x_i) over a node's own graph."""
    module = fill(EdgeConv(3, 2, aggr=aggr, message=MESSAGES[message]()))
    graph, x = continuous(geometry=geometry, batch=batch), points(13, 3).requires_grad_()
    a = weights(graph)
    pairs = torch.cat([x[:, None].expand(13, 13, 3), x[None] - x[:, None]], dim=2)
    weighted = a[..., None] * module.message(pairs)
    if aggr == "max":
        own = torch.ones(13, 13, dtype=torch.bool) if batch is None else batch[:, None] == batch
        expected = weighted.masked_fill(~own[..., None], -torch.inf).amax(1)
    else:
        expected = weighted.sum(1) / (a.sum(1, keepdim=True) if aggr == "mean" else 1)
    assert_agrees(module(x, graph), expected, graph, x, module)


@pytest.mark.parametrize("aggr", AGGREGATIONS)
def test_edge_conv_with_all_weights_one_is_pygs_on_the_complete_graph(aggr: Aggregation, blocked: bool) -> None:
    """Broken: the limit of a huge threshold is not the edge convolution among all."""
    module, x = fill(EdgeConv(3, 2, aggr=aggr, message=mixed_sign_message())), points(13, 3)
    reference = PyGEdgeConv(module.message, aggr=aggr)
    torch.testing.assert_close(module(x, continuous(threshold=1e6)), reference(x, complete_edges(13)))


def test_edge_conv_message_may_normalise() -> None:
    """Broken: a batch normalisation inside h takes its statistics over the wrong dimension on a continuous graph."""
    message = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU())
    module, x = EdgeConv(3, 5, aggr="sum", message=message).double(), points(13, 3)
    reference = PyGEdgeConv(message, aggr="sum")
    torch.testing.assert_close(module(x, continuous(threshold=1e6)), reference(x, complete_edges(13)))


def test_dropout_in_a_message_drops_the_same_in_both_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: computed again, a block drops other messages, and the gradient belongs to another function.

    The sum of messages is linear in the weights of h: weights times gradients must give back the value itself.
    """
    monkeypatch.setattr(blocks, "BLOCK", 8)
    module = fill(EdgeConv(3, 2, aggr="sum", message=nn.Sequential(nn.Linear(6, 2), nn.Dropout(0.5))))
    graph, x = continuous(), points(13, 3).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        out = module(x, graph)
        torch.rand(3)
        after = torch.get_rng_state()
        found = gradients(out, graph, x, module)
        assert torch.equal(torch.get_rng_state(), after)  # the backward pass draws nothing
    value = (out * points(13, 2, seed=5)).sum()
    products = [(p * g).sum() for p, g in zip(module.parameters(), found[4:], strict=True)]
    torch.testing.assert_close(torch.stack(products).sum(), value)


def test_frozen_parts_get_no_gradient(blocked: bool) -> None:
    """Broken: blocks fail where some input or weight is not to be trained, or train it."""
    module, x = fill(EdgeConv(3, 2, aggr="sum")), points(13, 3)
    first = module.message[0]  # type: ignore[index]
    first.weight.requires_grad_(False)
    graph = continuous()
    frozen = replace(graph, temperature=graph.temperature.detach())
    module(x, frozen).sum().backward()
    assert first.weight.grad is None
    assert first.bias.grad is not None
    assert graph.x_hat.grad is not None
    assert graph.temperature.grad is None


CONVOLUTIONS: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: GCN(3, 2),
    "gcn-wider": lambda: GCN(3, 4),
    "row": lambda: RowNormalised(3, 2),
    "gat": lambda: GAT(3, 2, heads=2),
    "edge-sum": lambda: EdgeConv(3, 2, aggr="sum", message=mixed_sign_message()),
    "edge-mean": lambda: EdgeConv(3, 2, aggr="mean", message=mixed_sign_message()),
    "edge-max": lambda: EdgeConv(3, 2, aggr="max", message=mixed_sign_message()),
    "gcn-stack": lambda: gcn([3, 4, 2]),
    "gat-stack": lambda: gat([3, 4, 2]),
    "edge-stack": lambda: edge_conv([3, 4, 2]),
    "row-stack": lambda: row_normalised_conv([3, 4, 2]),
}
SINGLE = [name for name in CONVOLUTIONS if not name.endswith("stack")]
every_convolution = pytest.mark.parametrize("name", CONVOLUTIONS)


@every_convolution
def test_graphs_of_a_batch_do_not_see_each_other(name: str, blocked: bool) -> None:
    """Broken: what a patient group, or a point cloud, gives depends on what else is in the batch."""
    module, graph, x = fill(CONVOLUTIONS[name]()), continuous(batch=BATCH), points(13, 3)
    together = module(x, graph)
    for number in range(3):
        rows = BATCH.eq(number).nonzero()[:, 0]
        alone = replace(graph, x_hat=graph.x_hat[rows], batch=None)
        torch.testing.assert_close(together[rows], module(x[rows], alone))


@every_convolution
def test_nobody_near_gives_finite_results(name: str, blocked: bool) -> None:
    """Broken: a negative threshold or a far outlier, where all weights underflow, ends in 0 / 0."""
    module, x = fill(CONVOLUTIONS[name](), dtype=torch.float32), points(13, 3, dtype=torch.float32).requires_grad_()
    graph = continuous(t=1000.0, threshold=-1.0, dtype=torch.float32)
    assert float(weights(graph).sum().detach()) == 0
    out = module(x, graph)
    assert bool(out.isfinite().all())
    assert all(bool(g.isfinite().all()) for g in gradients(out, graph, x, module))


# Blocks against the whole


@every_convolution
@every_geometry
@with_batch
def test_blocks_equal_the_whole_in_single_precision(
    name: str, geometry: Geometry, batch: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: large graphs (computed in blocks) train differently from small ones."""
    module = fill(CONVOLUTIONS[name](), dtype=torch.float32)
    x = points(13, 3, dtype=torch.float32).requires_grad_()
    graph = continuous(geometry=geometry, batch=batch, dtype=torch.float32)
    whole = module(x, graph)
    whole_gradients = gradients(whole, graph, x, module)
    for block in (1, 30, 13 * 13 - 1):
        monkeypatch.setattr(blocks, "BLOCK", block)
        fresh = replace(graph)  # without the cached adjacency
        part = module(x, fresh)
        torch.testing.assert_close(part, whole, rtol=1e-5, atol=1e-5)
        for a, b in zip(gradients(part, fresh, x, module), whole_gradients, strict=True):
            # Where the terms of a gradient cancel, their size (that of the embedding's gradient) is the yardstick.
            assert float((a - b).norm()) <= 1e-5 * max(float(b.norm()), float(whole_gradients[1].norm()))


@pytest.mark.parametrize(("name", "geometry"), list(product(SINGLE, GEOMETRIES)))
@with_batch
def test_gradcheck_of_blocks(name: str, geometry: str, batch: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a gradient of the blocked path in x, the embedding, t, T or a weight differs from finite differences."""
    monkeypatch.setattr(blocks, "BLOCK", 5)
    n = 7
    space, batch = GEOMETRIES[geometry], None if batch is None else torch.tensor([0, 0, 0, 0, 1, 1, 1])
    module, graph = fill(CONVOLUTIONS[name](), seed=3), continuous(n, geometry=space)
    assert graph.threshold is not None
    names, parameters = zip(*module.named_parameters(), strict=True)

    def run(x: Tensor, x_hat: Tensor, t: Tensor, threshold: Tensor, *values: Tensor) -> Tensor:
        # Finite differences leave the sphere: project puts them back.
        here = LatentGraph(space.project(x_hat), t, space, threshold=threshold, batch=batch)
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x, here))

    x = points(n, 3, seed=21).requires_grad_()
    leaves = (x, graph.x_hat, graph.temperature, graph.threshold, *parameters)
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


def test_a_single_block_and_no_gradient_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: evaluation (under no_grad) differs from training."""
    for block, name in product((20, 1 << 20), CONVOLUTIONS):
        monkeypatch.setattr(blocks, "BLOCK", block)
        module, x = fill(CONVOLUTIONS[name]()), points(13, 3)
        trained = module(x, continuous())
        with torch.no_grad():
            torch.testing.assert_close(module(x, continuous()), trained, rtol=0, atol=0)


@every_convolution
def test_mixed_precision(name: str, blocked: bool) -> None:
    """Broken: under autocast the backward pass computes a block again in another precision, and fails."""
    module, x = fill(CONVOLUTIONS[name](), dtype=torch.float32), points(13, 3, dtype=torch.float32).requires_grad_()
    graph = continuous(dtype=torch.float32)
    full = module(x, graph)
    exact = gradients(full, graph, x, module)
    graph = replace(graph)
    with torch.autocast("cpu", torch.bfloat16):
        out = module(x, graph)
    torch.testing.assert_close(out.float(), full, rtol=0.05, atol=0.1)
    for a, b in zip(gradients(out.float(), graph, x, module), exact, strict=True):
        assert float((a - b).norm()) <= 0.1 * max(float(b.norm()), float(exact[1].norm()))


# Memory


class LargestTensor(TorchDispatchMode):
    """Sees every operation, also those of the backward pass, and keeps the size of its largest input or output."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
        self.elements = max([self.elements, *sizes])
        return out


@contextmanager
def kept_for_backward() -> Iterator[list[int]]:
    """Elements of the tensors that the forward pass keeps for the backward pass, each memory counted once."""
    kept: dict[int, int] = {}
    total = [0]

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        total[0] = sum(kept.values())
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield total


LARGE: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: GCN(3, 2),
    "gcn-wider": lambda: GCN(3, 4),
    "row": lambda: RowNormalised(3, 2),
    "gat": lambda: GAT(3, 2, heads=2),
    "edge-max": lambda: EdgeConv(3, 2),
    "edge-mean": lambda: EdgeConv(3, 2, aggr="mean"),
}


@pytest.mark.parametrize("name", LARGE)
@with_batch
def test_no_quadratic_memory(name: str, batch: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: at n = 3000 some (n, n) tensor is formed, or kept for the backward pass, block by block or at once."""
    n = 3000
    monkeypatch.setattr(blocks, "BLOCK", 1 << 17)
    if batch is not None:
        batch = torch.tensor([0] * 10 + [1] * (n - 40) + [2] * 30)
    module = fill(LARGE[name](), dtype=torch.float32)
    x, graph = points(n, 3, dtype=torch.float32).requires_grad_(), continuous(n, batch=batch, dtype=torch.float32)
    with LargestTensor() as seen, kept_for_backward() as kept:
        out = module(x, graph)
        assert kept[0] < n * n / 16
        grads = gradients(out, graph, x, module)
    assert n * 3 <= seen.elements < n * n / 4
    assert all(bool(g.isfinite().all()) for g in grads)


MEASURE = """
import resource, torch
from latentgraph import Euclidean, LatentGraph, blocks
from latentgraph.diffusion import adjacency_product

def run(n):
    x_hat = torch.linspace(0, 9, n)[:, None].requires_grad_()
    graph = LatentGraph(x_hat, torch.tensor(1.0), Euclidean(), threshold=torch.tensor(1.0))
    adjacency_product(graph, x_hat, dense=False).sum().backward()

blocks.BLOCK = 1 << 18
torch.set_num_threads(1)
run(1000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(8000)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is counted in other units elsewhere")
def test_the_process_does_not_grow_quadratically() -> None:
    """Broken: no tensor is large, but what is kept of each block leaves holes in the heap into which no block fits."""
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 0.4 * 8000 * 8000 * 4


def test_the_memory_meter_sees_quadratic_memory() -> None:
    """The two meters above would notice the dense path."""
    n = 300
    x, graph = points(n, 3).requires_grad_(), continuous(n)
    with LargestTensor() as seen, kept_for_backward() as kept:
        adjacency_product(graph, x, dense=True).sum().backward()
    assert seen.elements == n * n
    assert kept[0] >= n * n


def test_module_on_a_large_graph_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a continuous graph module followed by a convolution forms the adjacency although nobody asked for it."""
    n = 3000
    monkeypatch.setattr(blocks, "BLOCK", 1 << 17)
    dgm, g, x = ContinuousDGM(nn.Linear(3, 2)), gcn([3, 4]), points(n, 3, dtype=torch.float32)
    with torch.no_grad():
        dgm(x)  # the calibration looks at a fixed number of pairs, more than this block
    with LargestTensor() as seen:
        graph = dgm(x)
        g(x, graph).square().sum().backward()
    assert seen.elements < n * n / 4
    assert "adj" not in vars(graph)
    assert math.isfinite(float(dgm.log_temperature.grad))  # type: ignore[arg-type]
