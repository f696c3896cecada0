"""The pictures of accuracies show what the tables beside them say."""

from __future__ import annotations

from pathlib import Path

import pytest

from latentgraph.experiments.accuracy_figure import PICTURES, figure
from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.results import Results
from latentgraph.experiments.running import results_file

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("name", PICTURES)
def test_a_dot_is_the_mean_in_the_table(name: str) -> None:
    pytest.importorskip("matplotlib")
    picture = PICTURES[name]
    axes = figure(picture, RESULTS).axes[0]
    found = experiment(picture.experiment)
    table = found.tables(Results(results_file(picture.experiment, RESULTS), found.key))[0]
    shown = [label.get_text() for label in axes.get_xticklabels()]
    rows = {row[0]: dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows}
    assert len(axes.containers) == len(picture.methods)
    for method, bars in zip(picture.methods, axes.containers, strict=True):
        line = bars.lines[0]  # type: ignore[attr-defined]
        dots = zip(line.get_xdata(), line.get_ydata(), strict=True)
        drawn = {shown[round(float(x))]: f"{y:.1f}" for x, y in dots}
        printed = {data: cell.split()[0] for data, cell in rows[method].items() if cell != "-"}
        assert drawn == printed
