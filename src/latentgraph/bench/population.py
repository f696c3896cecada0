"""`latentgraph bench population`: `latentgraph fit` on tables of up to a million rows: time, memory, and where it goes.

Every table is fitted in a process of its own, as a user would, with the defaults. Its processor time does not depend on
who else is at work on the machine.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

from latentgraph.bench.tables import Row, number
from latentgraph.errors import RunError
from latentgraph.runs.options import DEFAULTS
from latentgraph.text_table import Table

LIBRARIES = ()
COLUMNS, CLASSES = 16, 3
SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (300,)
# What a run spends its time in, by file and function. They do not contain each other.
PARTS = {
    "read": ("runs/plan.py", "read"),
    "forest": ("estimators/forest.py", "grow"),
    "training": ("latentgraph/training.py", "fit"),
    "graphs of all rows": ("estimators/base.py", "_look_back"),
    "test rows": ("estimators/base.py", "_mean"),
    "write": ("runs/writing.py", "write"),
}
METHODS = ("runs/testing.py", "tested"), ("runs/testing.py", "predicted")  # other methods: the first without the second


class Case(NamedTuple):
    n: int
    steps: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """With as many threads as there may be."""
    if quick:
        return [Case(n, 3, max(threads)) for n in QUICK_SIZES]
    return [Case(n, DEFAULTS["steps"], max(threads)) for n in SIZES]


def table(n: int) -> pd.DataFrame:
    """Numbers, of which four tell something about the class."""
    random = np.random.default_rng(0)
    kind = random.integers(0, CLASSES, n)
    x = random.normal(size=(n, COLUMNS))
    x[:, :4] += 1.5 * random.normal(size=(CLASSES, 4))[kind]
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(COLUMNS)])
    frame["kind"] = np.array(["a", "b", "c"])[kind]
    return frame


def measure(case: Case) -> list[Row]:
    with TemporaryDirectory() as folder:
        table(case.n).to_parquet(Path(folder) / "table.parquet")
        command = [sys.executable, "-m", "latentgraph.bench.population", folder, str(case.steps)]
        threads = {"OMP_NUM_THREADS": str(case.threads)}
        start = time.perf_counter()
        begun = subprocess.Popen(command, env=os.environ | threads, stdout=subprocess.PIPE)  # noqa: S603
        assert begun.stdout is not None
        with begun.stdout as pipe:
            said = pipe.read()
        _, status, used = os.wait4(begun.pid, 0)
        begun.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
    if begun.returncode:
        raise RunError(f"fit on {case.n:,} rows ended with status {begun.returncode}; see above.")
    return [
        {
            **case._asdict(),
            "seconds": seconds,
            "processor seconds": used.ru_utime + used.ru_stime,
            "megabytes": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
            "repeats": 1,
            **json.loads(said.splitlines()[-1]),
        }
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Peak memory is that of the whole process, with what Python and torch take."""
    parts = [*PARTS, "other methods"]
    header = ["rows", "peak MB", "processor s", *parts]
    lines = [
        [f"{row['n']:,}", number(row["megabytes"]), number(row["processor seconds"])]
        + [number(row[part]) for part in parts]
        for row in rows
    ]
    title = f"latentgraph fit on {COLUMNS} columns, in a process of its own: peak memory, processor time and its parts"
    return [Table(title, header, lines)]


def main(folder: str, steps: str) -> None:
    """Fit the table of a folder; print the processor seconds of the parts, and the accuracy on the rows kept away."""
    from latentgraph.runs import fitting
    from latentgraph.runs.plan import Plan

    plan = Plan(Path(folder) / "table.parquet", "kind", options=DEFAULTS | {"steps": int(steps)}, verbose=True)
    profile = cProfile.Profile(time.process_time)
    summary = profile.runcall(fitting.run, plan, Path(folder) / "run")
    spent = pstats.Stats(profile).stats  # type: ignore[attr-defined]

    def seconds(file: str, function: str) -> float:
        return sum(values[3] for (path, _, name), values in spent.items() if name == function and path.endswith(file))

    whole, ours = (seconds(*place) for place in METHODS)
    found = {part: seconds(*place) for part, place in PARTS.items()} | {"other methods": whole - ours}
    print(json.dumps(found | {"accuracy": summary["scores"][0]["latentgraph"]["accuracy"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
