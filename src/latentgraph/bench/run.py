"""Running a benchmark: case by case, each kept as soon as it is done, then a report in JSON and CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from latentgraph.bench.libraries import all_versions, left_out
from latentgraph.bench.measure import machine, using_threads
from latentgraph.bench.tables import Row
from latentgraph.errors import InputError
from latentgraph.experiments.results import Results
from latentgraph.files import replacing
from latentgraph.progress import progress
from latentgraph.text_table import Table

SEED = 0  # of all points, weights and samples


class Bench(Protocol):
    """What a module of a benchmark has. A case is a named tuple with a field `threads`."""

    LIBRARIES: tuple[str, ...]

    def cases(self, quick: bool, threads: Sequence[int]) -> Sequence[Any]: ...

    def measure(self, case: Any) -> list[Row]: ...

    def tables(self, rows: Sequence[Row]) -> list[Table]: ...


def bench(name: str) -> Bench:
    return cast(Bench, import_module(f"latentgraph.bench.{name.replace('-', '_')}"))


def run(name: str, out: Path, *, threads: Sequence[int] = (1, 2), quick: bool = False) -> dict[str, Any]:
    """Measure what is missing and write bench-NAME.json and .csv, and figures, to the folder `out`.

    Finished cases of an interrupted run wait in bench-NAME.part.jsonl. They count if machine and versions are the same.
    """
    if not threads or min(threads) < 1:
        raise InputError(f"threads={list(threads)} but every number of threads must be at least 1, such as: 1 2.")
    subject = bench(name)
    stem = f"bench-{name}-quick" if quick else f"bench-{name}"
    done = Results(out / f"{stem}.part.jsonl", key=("case", "machine"))
    here = {"machine": machine(), "packages": all_versions()}
    cases = subject.cases(quick, threads)
    with progress(f"bench {name}", len(cases)) as report, redirect_stdout(sys.stderr):  # KeOps prints
        for number, case in enumerate(cases, 1):
            if not done.column("rows", case=str(case), **here):
                with using_threads(case.threads):
                    rows = subject.measure(case)
                done.add({"case": str(case), "rows": rows, **here})
            report(number, {"threads": case.threads})
    rows = [row for case in cases for row in done.column("rows", case=str(case), **here)[0]]
    result = {
        "bench": name,
        "quick": quick,
        "machine": here["machine"],
        "versions": here["packages"],
        "threads": sorted({case.threads for case in cases}),
        "seed": SEED,
        "left_out": left_out(subject.LIBRARIES),
        "rows": rows,
    }
    write(result, out / stem)
    done.path.unlink()
    return result


def write(report: dict[str, Any], stem: Path) -> None:
    """STEM.json, STEM.csv and, where the benchmark has one, its figure."""
    with replacing(stem.with_name(stem.name + ".json")) as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    columns = list(dict.fromkeys(column for row in report["rows"] for column in row))
    with replacing(stem.with_name(stem.name + ".csv")) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(report["rows"])
    draw = getattr(bench(report["bench"]), "draw", None)
    if draw is not None:
        draw(report["rows"], stem)
