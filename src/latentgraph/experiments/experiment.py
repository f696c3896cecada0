"""What an experiment is: the cells of its tables, how one is computed, and how they are shown together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latentgraph.experiments.results import Results
from latentgraph.text_table import Table

UNFINISHED = "unfinished"
Cell = Mapping[str, Any]  # what names a cell: data set, method, seed, ...; strings and whole numbers


@dataclass(frozen=True)
class Experiment:
    """A table, or a few that belong together.

    Attributes
    ----------
    file : name of the results file, without its ending. Tables that have cells in common share one
    key : the columns that name a cell
    seeds : runs of each cell, by default
    cells : (number of seeds, quick, data folder) -> the cells in the order in which they are computed
    compute : (cell, quick, data folder) -> what was measured, such as {"accuracy": 0.8, "steps": 300}; if `in_folder`,
        with a folder of the cell's own as fourth argument
    tables : results -> tables to be shown, of the cells that are there
    protocol : what the numbers mean; kept with each
    in_folder : for cells that take long. What such a cell needs to go on after an interruption it keeps in `UNFINISHED`
        in its folder, which is deleted when its result is written; what else it puts there stays
    pictures : (folder of the results, quick, data folder) -> the pictures that it drew from what cells left in their
        folders
    """

    file: str
    key: tuple[str, ...]
    seeds: int
    cells: Callable[[int, bool, str | None], list[Cell]]
    compute: Callable[..., Mapping[str, Any]]
    tables: Callable[[Results], list[Table]]
    protocol: str
    in_folder: bool = False
    pictures: Callable[[Path, bool, str | None], list[Path]] | None = None


def mean_and_deviation(accuracies: Sequence[float], runs: int | None = None) -> str:
    """Of accuracies between 0 and 1, in percent: "84.6 ± 0.9"; a single one has no deviation.

    If there should be `runs` of them and are not, their number follows in brackets.
    """
    if not accuracies:
        return "-"
    deviation = f" ± {100 * np.std(accuracies):.1f}" if len(accuracies) > 1 else ""
    how_many = f" ({len(accuracies)})" if runs not in (None, len(accuracies)) else ""
    return f"{100 * np.mean(accuracies):.1f}{deviation}{how_many}"


def paired(first: Mapping[Any, float], second: Mapping[Any, float]) -> list[tuple[float, float]]:
    """The runs that both have, by split, fold or seed."""
    return [(first[key], second[key]) for key in sorted(first.keys() & second.keys())]


def difference(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """First minus second of each of two or more pairs: their mean, and its standard error."""
    gains = np.array([first - second for first, second in pairs])
    return float(gains.mean()), float(gains.std(ddof=1)) / math.sqrt(len(gains))


def gain(pairs: Sequence[tuple[float, float]], runs: int) -> str:
    """The difference of accuracies in points: "+0.4 ± 0.2"; their number follows if it is not `runs`."""
    if len(pairs) < 2:
        return "-"
    mean, error = difference(pairs)
    how_many = "" if len(pairs) == runs else f" ({len(pairs)})"
    return f"{100 * mean:+.1f} ± {100 * error:.1f}{how_many}"


def best_first(found: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """Methods by their mean over the data sets on which every method has runs: over others they do not compare.

    `found` has the accuracies on each data set of every method, in the same order.

    >>> best_first({"a": [[0.5, 0.7], [0.9]], "b": [[0.8], []]})
    ['b', 'a']
    """
    common = [number for number, values in enumerate(zip(*found.values(), strict=True)) if all(values)]
    mean = {method: np.mean([np.mean(values[number]) for number in common] or 0) for method, values in found.items()}
    return sorted(found, key=lambda method: -mean[method])


def as_printed(value: Sequence[float | None] | None) -> str:
    """Mean and deviation of a published table, in the same form; the mean alone where no deviation is known."""
    if value is None:
        return "-"
    mean, deviation = value
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"
