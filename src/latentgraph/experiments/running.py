"""Compute what is missing of an experiment, cell by cell, in one process or in several."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from latentgraph.errors import InputError
from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.experiment import UNFINISHED, Cell
from latentgraph.experiments.results import Results
from latentgraph.processes import side_by_side
from latentgraph.progress import progress


def run(
    name: str,
    out: Path,
    *,
    seeds: int | None = None,
    jobs: int = 1,
    only: Sequence[str] = (),
    quick: bool = False,
    data_root: str | None = None,
    show: bool = True,
) -> Results:
    """Compute the missing cells of experiment `name` into its results file in the folder `out`.

    Parameters
    ----------
    seeds : runs of each cell, default the experiment's
    jobs : processes at work; each computes whole cells with one thread, so their number changes no result
    only : values that a cell must all have ("Cora", "dDGM, k=10", "fold=0", ...), default all cells
    """
    found = experiment(name)
    if jobs < 1 or (seeds is not None and seeds < 1):
        raise InputError(f"jobs={jobs}, seeds={seeds}; each must be at least 1.")
    results = Results(results_file(name, out, quick=quick), found.key)
    runs = (1 if quick else found.seeds) if seeds is None else seeds
    everything = found.cells(runs, quick, data_root)
    cells = [cell for cell in everything if set(only) <= _words(cell)]
    if not cells:
        values = sorted({str(value) for cell in everything for value in cell.values()})
        raise InputError(
            f"{name} has no cell with all of {', '.join(map(repr, only))}. There is: {', '.join(map(repr, values))}."
        )
    missing = [cell for cell in cells if not results.has(**cell)]
    with progress(name, len(cells), show) as report:
        done = len(cells) - len(missing)
        work = partial(_compute, name, quick=quick, data_root=data_root, out=out)
        for cell, measured in side_by_side(work, [(_in_words(cell), cell) for cell in missing], jobs):
            results.add({**cell, **measured, "protocol": found.protocol})
            shutil.rmtree(cell_folder(name, out, cell, quick=quick) / UNFINISHED, ignore_errors=True)
            done += 1
            report(done, {key: value for key, value in measured.items() if isinstance(value, float)})
    return results


def _words(cell: Cell) -> set[str]:
    """What a cell can be called by: its values, and where one could mean two columns, the column before it."""
    return {str(value) for value in cell.values()} | {f"{column}={value}" for column, value in cell.items()}


def pictures(name: str, out: Path, *, quick: bool = False, data_root: str | None = None) -> list[Path]:
    """Draw the pictures of an experiment that has some, from what its cells left in `out`."""
    draw = experiment(name).pictures
    return [] if draw is None else draw(out, quick, data_root)


def results_file(name: str, out: Path, *, quick: bool = False) -> Path:
    return out / f"{experiment(name).file}{'-quick' if quick else ''}.jsonl"


def cell_folder(name: str, out: Path, cell: Cell, *, quick: bool = False) -> Path:
    """Where a cell of an experiment with `in_folder` keeps things: a folder beside the results file."""
    words = "-".join(re.sub(r"\W+", "_", str(cell[column])) for column in experiment(name).key)
    return results_file(name, out, quick=quick).with_suffix("") / words


def _in_words(cell: Cell) -> str:
    return ", ".join(f"{key} {value}" for key, value in cell.items())


def _compute(name: str, cell: Cell, quick: bool, data_root: str | None, out: Path) -> dict[str, Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small problems: a second thread gains little, and another cell more
    try:
        start = time.perf_counter()
        found = experiment(name)
        own = (cell_folder(name, out, cell, quick=quick),) if found.in_folder else ()
        with threadpool_limits(1):  # BLAS's as well: another number may round differently
            measured = dict(found.compute(cell, quick, data_root, *own))
        return {**measured, "seconds": round(time.perf_counter() - start, 2)}
    finally:
        torch.set_num_threads(threads)
