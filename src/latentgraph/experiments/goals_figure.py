"""All goals in one picture: `python -m latentgraph.experiments.goals_figure results docs/_static`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from latentgraph.experiments.experiment import difference
from latentgraph.experiments.goals import ENOUGH, GOALS, by_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETTER, LEVEL, WORSE = "#1b7837", "#777777", "#b2182b"


def figure(results: Path) -> Figure:
    """A line for each goal of which two pairs or more are there: the difference, and two of its standard errors."""
    from matplotlib.figure import Figure

    found = by_table(results)
    lines = [(goal, pairs) for goal in GOALS if len(pairs := goal.pairs(found[goal.table])) > 1]
    drawn = Figure(figsize=(8, 0.25 * len(lines) + 1), layout="constrained")
    axes = drawn.add_subplot()
    for y, (_, pairs) in enumerate(lines):
        mean, error = (100 * number for number in difference(pairs))
        color = BETTER if mean > ENOUGH * error else WORSE if -mean > ENOUGH * error else LEVEL
        axes.errorbar(mean, y, xerr=ENOUGH * error, fmt="o", color=color, markersize=4, capsize=2)
    names = [
        f"{goal.shown}: {goal.to_beat}" + (f" ({len(pairs)} of {goal.wanted})" if len(pairs) < goal.wanted else "")
        for goal, pairs in lines
    ]
    axes.set_yticks(range(len(lines)), names, fontsize=8)
    axes.set_ylim(len(lines), -1)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("points of accuracy gained by the learned graph, ± two standard errors", fontsize=8)
    return drawn


def main(results: str, out: str) -> None:
    figure(Path(results)).savefig(Path(out, "goals.png"), dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
