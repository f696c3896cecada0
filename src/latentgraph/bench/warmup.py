"""`latentgraph bench warmup`: what the first call costs, in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from latentgraph.bench.tables import Row, number
from latentgraph.text_table import Table

LIBRARIES = ()
HELP, IMPORT, COLD, WARM, SECOND = (
    "latentgraph --help",
    "import latentgraph and torch",
    "first sample on a machine: compiles",
    "first sample in a process",
    "second sample in a process",
)
# Prints the seconds of the import, of the first sample, and of the second.
SCRIPT = """
import time
start = time.perf_counter()
import latentgraph, torch
torch.set_num_threads({threads})
latentgraph.gumbel_top_k
imported = time.perf_counter()
x_hat = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
begin = time.perf_counter()
latentgraph.gumbel_top_k(x_hat, 5, 4.0)
first = time.perf_counter()
latentgraph.gumbel_top_k(x_hat, 5, 4.0)
print(imported - start, first - begin, time.perf_counter() - first)
"""


class Case(NamedTuple):
    cold: bool
    repeats: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """A cold start compiles for half a minute: not in a quick run."""
    return [Case(False, 1, 1)] if quick else [Case(True, 1, 1), Case(False, 5, 1)]


def measure(case: Case) -> list[Row]:
    if case.cold:
        with TemporaryDirectory() as empty:
            seconds = {COLD: [_fresh_process(case.threads, {"NUMBA_CACHE_DIR": empty})[1]]}
    else:
        _fresh_process(case.threads, {})  # fills the cache
        starts = [_fresh_process(case.threads, {}) for _ in range(case.repeats)]
        helps = [_help() for _ in range(case.repeats)]
        imports, firsts, seconds_calls = ([start[i] for start in starts] for i in range(3))
        seconds = {HELP: helps, IMPORT: imports, WARM: firsts, SECOND: seconds_calls}
    return [{"what": what, "seconds": median(all_), "repeats": len(all_)} for what, all_ in seconds.items()]


def _fresh_process(threads: int, variables: dict[str, str]) -> list[float]:
    command = [sys.executable, "-c", SCRIPT.format(threads=threads)]
    done = subprocess.run(  # noqa: S603
        command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def _help() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "latentgraph", "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def tables(rows: Sequence[Row]) -> list[Table]:
    return [Table("Starting up", ["what", "seconds"], [[row["what"], number(row["seconds"])] for row in rows])]
