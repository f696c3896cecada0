"""Accuracies of methods on several data sets: `python -m latentgraph.experiments.accuracy_figure results docs/_static`.

A picture for each page that compares methods on data sets that are not of the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from latentgraph.datasets.heterophilic import FILES
from latentgraph.datasets.tu import NAMES
from latentgraph.experiments import heterophilic, no_graph, no_graph_data
from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.citation_methods import OURS
from latentgraph.experiments.results import Results, published
from latentgraph.experiments.running import results_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Learned graphs in green, given or nearest ones in orange and red, both in purple, none in blues and grey.
NONE, OTHER, FOREST = "#4393c3", "#999999", "#053061"
GIVEN, GIVEN_TOO, BOTH, LEARNED, LEARNED_TOO = "#d6604d", "#f4a582", "#762a83", "#1b7837", "#7fbf7b"


class Picture(NamedTuple):
    """What is drawn: for each data set a column of dots, one for each method."""

    experiment: str
    data: Sequence[str]
    methods: Mapping[str, str]  # name -> colour
    printed: bool = False  # whether numbers that others printed are marked


PICTURES = {
    "heterophilic": Picture(
        "heterophilic",
        tuple(FILES),
        {
            "logistic regression": OTHER,
            "MLP": NONE,
            "GCN": GIVEN,
            "GCN with skip": GIVEN_TOO,
            OURS: LEARNED_TOO,
            heterophilic.WITHOUT: LEARNED,
            heterophilic.BOTH: BOTH,
        },
    ),
    "no_graph": Picture(
        "no-graph",
        no_graph_data.DATA,
        {
            "logistic regression": OTHER,
            "MLP": NONE,
            "random forest": FOREST,
            "kNN-GCN": GIVEN,
            "DGMClassifier as it comes": LEARNED_TOO,
            no_graph.BEST: LEARNED,
        },
        printed=True,
    ),
    "whole_graphs": Picture(
        "whole-graphs",
        NAMES,
        {
            "logistic regression on counts": OTHER,
            "random forest on counts": FOREST,
            "MLP, pooled": NONE,
            "GIN": GIVEN,
            "GCN": GIVEN_TOO,
            "dDGM, weighted edges": LEARNED,
            "dDGM, graph loss": LEARNED_TOO,
            "GIN beside dDGM": BOTH,
        },
    ),
}


def figure(picture: Picture, results: Path) -> Figure:
    """Means with their standard deviations; data sets of which nothing was computed are left out."""
    from matplotlib.figure import Figure

    found = Results(results_file(picture.experiment, results), experiment(picture.experiment).key)
    shown = [data for data in picture.data if any(row["data"] == data for row in found.rows)]
    drawn = Figure(figsize=(8, 4), layout="constrained")
    axes = drawn.add_subplot()
    places = np.linspace(-0.3, 0.3, len(picture.methods))
    for place, (method, color) in zip(places, picture.methods.items(), strict=True):
        values = [100 * np.array(found.column("accuracy", data=data, method=method)) for data in shown]
        there = [x for x, value in enumerate(values) if len(value)]
        axes.errorbar(
            [x + place for x in there],
            [values[x].mean() for x in there],
            yerr=[values[x].std() for x in there],
            fmt="o",
            color=color,
            markersize=4,
            linewidth=1,
            label=method,
        )
    if picture.printed:
        for name, row in published(picture.experiment)["rows"].items():
            there = [x for x, data in enumerate(shown) if data in row]
            heights = [row[shown[x]][0] for x in there]
            axes.hlines(heights, [x - 0.4 for x in there], [x + 0.4 for x in there], "black", "dotted", label=name)
    axes.set_xticks(range(len(shown)), shown)
    axes.set_ylabel("accuracy in %")
    axes.grid(axis="y", alpha=0.3)
    drawn.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return drawn


def main(results: str, out: str) -> None:
    for name, picture in PICTURES.items():
        figure(picture, Path(results)).savefig(Path(out, f"{name}.png"), dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
