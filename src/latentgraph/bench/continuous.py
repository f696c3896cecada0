"""`latentgraph bench continuous`: diffusion over a continuous graph, forward and backward, beside (n, n) matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.tables import Row, in_words, megabytes, ratios
from latentgraph.diffusion import GAT, GCN, EdgeConv, RowNormalised
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM
from latentgraph.text_table import Table

LIBRARIES = ()
OURS, DENSE = "latentgraph", "dense formula"
INDEX = ("convolution", "n")
WIDTH, EMBEDDING = 16, 4
TEMPERATURE, THRESHOLD = 4.0, 1.0
MODULES: dict[str, Callable[[int, int], nn.Module]] = {
    "RowNormalised": RowNormalised,
    "GCN": GCN,
    "GAT": GAT,
    "EdgeConv": partial(EdgeConv, aggr="mean"),
}


class Case(NamedTuple):
    convolution: str
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    if quick:
        return [Case(name, 300, count) for count in threads for name in MODULES]
    found = [Case(name, n, count) for count in threads for n in (1_000, 2_000, 5_000, 10_000) for name in MODULES]
    return [case for case in found if _fits(case)] + [Case("RowNormalised", 50_000, max(threads))]


def _fits(case: Case) -> bool:
    return not (case.convolution == "EdgeConv" and case.n > 5_000)  # n^2 messages: minutes


def measure(case: Case) -> list[Row]:
    torch.manual_seed(0)
    x_hat, x = torch.randn(case.n, EMBEDDING, requires_grad=True), torch.randn(case.n, WIDTH)
    module = MODULES[case.convolution](WIDTH, WIDTH)
    dgm = ContinuousDGM(nn.Identity(), temperature=TEMPERATURE, threshold=THRESHOLD)

    def ours() -> None:
        module(x, dgm(x_hat)).square().mean().backward()

    def dense() -> None:
        dense_convolution(module, x, dgm(x_hat)).square().mean().backward()

    candidates: dict[str, Callable[[], object]] = {OURS: ours}
    if case.n <= (2_000 if case.convolution == "EdgeConv" else 10_000):  # (n, n, 2 * width) numbers, or (n, n)
        candidates[DENSE] = dense
    return [
        {
            **case._asdict(),
            "method": name,
            **asdict(value),
        }
        for name, value in side_by_side(candidates).items()
    ]


def dense_adjacency(graph: LatentGraph) -> Tensor:
    """a_ij = sigmoid(t (T - dist^2)) for all pairs."""
    assert graph.threshold is not None
    return torch.sigmoid(graph.temperature * (graph.threshold - torch.cdist(graph.x_hat, graph.x_hat) ** 2))


def dense_convolution(module: nn.Module, x: Tensor, graph: LatentGraph) -> Tensor:
    """What `module` computes, in plain torch with (n, n) matrices."""
    a = dense_adjacency(graph)
    if isinstance(module, GCN):
        scale = a.sum(1, keepdim=True).rsqrt()
        return scale * (a @ (scale * module.conv.lin(x))) + module.conv.bias
    if isinstance(module, GAT):
        h = module.conv.lin(x)
        to, of = (h * module.conv.att_dst[0]).sum(1), (h * module.conv.att_src[0]).sum(1)
        weight = a * F.leaky_relu(to[:, None] + of[None], module.conv.negative_slope).exp()
        return weight / weight.sum(1, keepdim=True) @ h + module.conv.bias
    if isinstance(module, EdgeConv):
        pairs = torch.cat([x[:, None].expand(-1, len(x), -1), x[None] - x[:, None]], dim=2)
        return (a[..., None] * module.message(pairs)).sum(1) / a.sum(1, keepdim=True)
    assert isinstance(module, RowNormalised)
    return a / a.sum(1, keepdim=True) @ module.linear(x)


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for count in dict.fromkeys(row["threads"] for row in rows):
        here = [row for row in rows if row["threads"] == count]
        found.append(ratios(f"Time, {in_words(count)}", here, INDEX, OURS))
    return [*found, megabytes(f"Memory, {in_words(count)}", here, INDEX)]
