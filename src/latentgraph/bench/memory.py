"""`latentgraph bench memory`: how the memory of a sample and of a training step grows with the number of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import linear_regression
from typing import NamedTuple

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.neighbours import dense
from latentgraph.bench.regimes import points
from latentgraph.bench.step import Step
from latentgraph.bench.tables import Row, number
from latentgraph.sampling import gumbel_top_k
from latentgraph.text_table import Table

LIBRARIES = ()
OURS, DENSE = "latentgraph", "dense formula"
SUBJECTS = ("sample", "training step")
SIZES = {OURS: (10_000, 30_000, 100_000, 300_000), DENSE: (2_500, 5_000, 10_000, 14_000)}
QUICK_SIZES = {OURS: (1_000, 4_000), DENSE: (500, 1_000)}


class Case(NamedTuple):
    subject: str
    method: str
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """Memory hardly depends on the number of threads: the first given is used."""
    sizes = QUICK_SIZES if quick else SIZES
    return [Case(subject, name, n, threads[0]) for subject in SUBJECTS for name in sizes for n in sizes[name]]


def measure(case: Case) -> list[Row]:
    sample = gumbel_top_k if case.method == OURS else dense
    call: Callable[[], object]
    if case.subject == "sample":
        x_hat, t = points("gaussian", case.n, 4)
        call = partial(sample, x_hat, 5, t)
        sample(x_hat[:200], 5, t)  # the compiled code is loaded at the first call, and stays
    else:
        call = Step(case.n, sample)
    value = side_by_side({case.method: call}, repeats=1)[case.method]
    return [{**case._asdict(), "megabytes": value.megabytes, "repeats": value.repeats}]


def growth(rows: Sequence[Row]) -> float:
    """The exponent a of memory ~ n^a, by a straight line through the logarithms."""
    known = [(math.log(row["n"]), math.log(row["megabytes"])) for row in rows if row["megabytes"] > 0]
    return linear_regression(*zip(*known, strict=True)).slope if len(known) > 1 else math.nan


def tables(rows: Sequence[Row]) -> list[Table]:
    lines = []
    for subject in SUBJECTS:
        for name in (OURS, DENSE):
            here = [row for row in rows if (row["subject"], row["method"]) == (subject, name)]
            cells = ", ".join(f"{row['n']:,}: {number(row['megabytes'])}" for row in here)
            lines.append([subject, name, cells, f"n^{growth(here):.2f}"])
    return [Table("Growth of the process, MB, and how it depends on n", ["", "method", "n: MB", "grows as"], lines)]
