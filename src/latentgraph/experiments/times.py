"""The paper's table of iteration times, and on to a million nodes: LDS, DGCNN, cDGM, dDGM, and two simple networks.

What is measured, and how, is in `latentgraph.bench.table_times`. All methods of one size are measured in one call, in
turn and with one thread, so that a busy machine slows all of them alike; a cell is such a size. Sizes measured at the
same time (`--jobs 2`) would slow each other: leave it at one. An iteration of LDS is one outer step. What the
paper counts as one is not said there; ours and the paper's need not be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

from latentgraph.baselines.lds import LDS
from latentgraph.bench.measure import machine, using_threads
from latentgraph.bench.table_times import FEW, METHODS, PATIENTS, SIZES, TRAINING, Case, measure
from latentgraph.bench.table_times import tables as bench_tables
from latentgraph.bench.tables import Row, number
from latentgraph.experiments.experiment import Cell, Experiment
from latentgraph.experiments.results import Results
from latentgraph.text_table import Table

KEY = ("n",)
LARGER = (100_000, 1_000_000)
PROTOCOL = (
    "one thread; methods of one size in turn in one process, median of up to 5 calls, one that took a second is called "
    "once; 564: TADPOLE where it is, else random rows, as for the other sizes: uniform, 30 columns; "
    f"LDS: one outer step, which is {LDS.tau} steps of training and one of the edge probabilities"
)
# the largest size at which a method is run, and why not beyond
LARGEST = {
    "LDS": (10_000, "several matrices of n² numbers for each step of training: 40 GB each with 100,000 nodes"),
    "cDGM": (10_000, "goes through all pairs: time grows as n²"),
    "DGCNN": (100_000, "exact nearest neighbours of uniform rows in 30 dimensions: time grows nearly as n²"),
    "kNN-GCN": (100_000, "an iteration is quick, but before the first the same nearest neighbours have to be found"),
}


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """A cell for each size. Times are medians of calls: more seeds add nothing."""
    return [{"n": n} for n in ((FEW, PATIENTS) if quick else (*SIZES, *LARGER))]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, Any]:
    with using_threads(1):
        rows = measure(Case(cell["n"], 1), methods_at(cell["n"]), data_root)
    return {"machine": machine(), "rows": rows}


def methods_at(n: int) -> list[str]:
    return [name for name in METHODS if name not in LARGEST or n <= LARGEST[name][0]]


def tables(results: Results) -> list[Table]:
    """Training and test iterations, the paper's beside ours; then what was not run, and why."""
    found = sorted(results.rows, key=lambda row: row["n"])
    if not found:
        return []
    rows = [row for size in found for row in size["rows"]]
    where = f"paper: a GPU, ours: {' / '.join(dict.fromkeys(size['machine'] for size in found))}"
    training, test = bench_tables(rows)
    shown = [
        training._replace(title=f"{training.title}; {where}; LDS: one outer step"),
        test._replace(title=f"{test.title}; {where}; one pass with one sampled graph"),
    ]
    left_out = _not_run(rows, [size["n"] for size in found])
    return [*shown, left_out] if left_out.rows else shown


def _not_run(rows: Sequence[Row], sizes: Sequence[int]) -> Table:
    lines = [
        [name, f"{n:,}", LARGEST[name][1], _extrapolated(rows, name, n)]
        for n in sizes
        for name in METHODS
        if name not in methods_at(n)
    ]
    title = "Not run. Extrapolated, not measured: a training iteration, if it grows on as between the last two sizes"
    return Table(title, ["method", "n", "why", "extrapolated, s"], lines)


def _extrapolated(rows: Sequence[Row], method: str, n: int) -> str:
    """Seconds with n nodes by the power of n that goes through the two largest sizes that were measured."""
    seconds = {row["n"]: row["seconds"] for row in rows if (row["method"], row["iteration"]) == (method, TRAINING)}
    if len(seconds) < 2:
        return "-"
    before, last = sorted(seconds)[-2:]
    power = log(seconds[last] / seconds[before]) / log(last / before)
    return number(seconds[last] * (n / last) ** power)


EXPERIMENTS = {"times": Experiment("times", KEY, 1, cells, compute, tables, PROTOCOL)}
