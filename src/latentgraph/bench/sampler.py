"""`latentgraph bench sampler`: exact Gumbel-top-k beside the dense formula and beside plain nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import torch

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.neighbours import OURS, dense_clouds, methods
from latentgraph.bench.regimes import NAMES, points
from latentgraph.bench.tables import Row, in_words, megabytes, ratios
from latentgraph.sampling import gumbel_top_k
from latentgraph.text_table import Table

LIBRARIES = ("faiss", "pykeops", "pynndescent")
SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
INDEX = ("points", "n", "d", "k")
FEW, WIDTHS = (130, 500), (4, 32, 64, 128)  # where it is least plain whether a tree pays


class Case(NamedTuple):
    regime: str
    n: int
    d: int
    k: int
    clouds: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """Sizes for every number of threads, the other kinds of points and few nodes for the first."""
    if quick:
        sizes = [("gaussian", 500, 4, 5, 1), ("gaussian", 200, 4, 5, 4)]
        kinds = [("duplicates", 500, 4, 5, 1), ("scaled", 130, 32, 5, 1)]
    else:
        sizes = [("gaussian", n, d, 5, 1) for d in (4, 16) for n in SIZES]
        sizes += [("gaussian", 1_000_000, 4, 5, 1), ("gaussian", 2_048, 16, 20, 32)]
        kinds = [(name, 10_000, d, 5, 1) for d in (4, 16) for name in NAMES if name not in ("gaussian", "scaled")]
        kinds += [("scaled", n, d, 5, 1) for n in FEW for d in WIDTHS]
    return [
        Case(*shape, count) for number, count in enumerate(threads) for shape in (sizes if number else sizes + kinds)
    ]


def measure(case: Case) -> list[Row]:
    regime, n, d, k, clouds, threads = case
    x_hat, t = points(regime, n * clouds, d)
    candidates: dict[str, Callable[[], object]]
    if clouds > 1:
        batch = torch.arange(clouds).repeat_interleave(n)
        candidates = {
            OURS: partial(gumbel_top_k, x_hat, k, t, batch=batch),
            "torch backend": partial(gumbel_top_k, x_hat, k, t, batch=batch, backend="torch"),
            "dense formula": partial(dense_clouds, x_hat, k, t, clouds),
        }
    else:
        candidates = {name: partial(methods()[name].sample, x_hat, k, t) for name in _asked(regime, n, d)}
        for name in candidates:
            _compile(name, d, k)
    return [
        {
            "points": regime,
            "n": f"{clouds} x {n}" if clouds > 1 else n,
            "d": d,
            "k": k,
            "threads": threads,
            "method": name,
            "seconds": value.seconds,
            "megabytes": value.megabytes,
            "repeats": value.repeats,
        }
        for name, value in side_by_side(candidates).items()
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    few, many = ([row for row in rows if (row["points"] == "scaled") == scaled] for scaled in (True, False))
    found = []
    for count in dict.fromkeys(row["threads"] for row in rows):
        here = [row for row in many if row["threads"] == count]
        found.append(ratios(f"Time, {in_words(count)}", here, INDEX, OURS))
    found.append(megabytes(f"Memory, {in_words(count)}", here, INDEX))
    if few:
        found.append(ratios(f"Few nodes, {in_words(few[0]['threads'])}", few, INDEX[1:], OURS))
    return found


def _asked(regime: str, n: int, d: int) -> list[str]:
    """The methods that can do it; for few nodes those that `backend="auto"` chooses from, and the dense formula."""
    if regime == "scaled":
        return [OURS, "torch backend", "dense formula"]
    can = [
        name for name, method in methods().items() if method.least <= n <= (method.most if d <= 4 else method.most_wide)
    ]
    return [name for name in can if not (regime == "duplicates" and name.startswith("scipy"))]  # it takes minutes


@cache
def _compile(name: str, d: int, k: int) -> None:
    """Some methods compile at their first call, KeOps for every d and k."""
    methods()[name].sample(torch.randn(200, d), k, 1.0)
