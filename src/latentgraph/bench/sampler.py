"""`latentgraph bench sampler`: exact Gumbel-top-k beside the dense formula that is in general use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from latentgraph.bench.measure import side_by_side
from latentgraph.sampling import gumbel_top_k, nearest

SIZES = [(1_000, 4, 5), (5_000, 4, 5), (10_000, 4, 5), (10_000, 16, 5)]
QUICK_SIZES = [(500, 4, 5)]


def dense(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """All distances, all noise, one top-k over the (n, n) matrix: the way it is usually written."""
    log_p = -temperature * torch.cdist(x_hat, x_hat) ** 2
    noise = -torch.log(-torch.log(torch.rand_like(log_p)))
    return (log_p + noise).topk(k, dim=1).indices


def run(*, quick: bool = False, repeats: int = 5) -> list[dict[str, float | str]]:
    """One row for every size and method: seconds, memory, and how many times faster than the dense formula."""
    rows: list[dict[str, float | str]] = []
    generator = torch.Generator().manual_seed(0)
    for n, d, k in QUICK_SIZES if quick else SIZES:
        x_hat = torch.randn(n, d, generator=generator)
        t = 50.0
        candidates: dict[str, Callable[[], object]] = {
            "dense formula": partial(dense, x_hat, k, t),
            "gumbel_top_k": partial(gumbel_top_k, x_hat, k, t),
            "nearest (no noise)": partial(nearest, x_hat, k),
        }
        measured = side_by_side(candidates, repeats=1 if quick else repeats)
        reference = measured["dense formula"]
        for name, value in measured.items():
            rows.append(
                {
                    "n": n,
                    "d": d,
                    "k": k,
                    "method": name,
                    "seconds": value.seconds,
                    "megabytes": value.megabytes,
                    "times faster": reference.seconds / value.seconds,
                }
            )
    return rows
