"""What is said of learned graphs: counts by hand, and only what test rows choose against classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from latentgraph.experiments.learned_graphs import SHARES, compute, crossing, measures
from latentgraph.experiments.results import Results
from latentgraph.experiments.running import run

GRAPH = sp.csr_array(
    np.array(
        [
            [0, 1, 0, 0, 0],
            [1, 0, 0, 0, 0],
            [0, 0.5, 0, 0.5, 0],  # a test row between both classes
            [0, 0, 1, 0, 0],
            [0.75, 0, 0, 0.25, 0],  # a test row that is taken for class 1, among rows of class 0
        ]
    )
)
Y = np.array([0, 0, 1, 1, 0])
PREDICTED = np.array([0, 0, 1, 1, 1])
TEST = np.array([False, False, True, False, True])


def test_counts_by_hand() -> None:
    found = measures(GRAPH, GRAPH, PREDICTED, Y, TEST)
    assert set(found) == set(SHARES)
    assert found["homophily"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["overlap"] == 1.0
    assert 0 < found["overlap by chance"] < 1
    assert found["bridges"] == 0.5  # the last row: 0.75 of its choices; the other has half of them, which is not more
    assert found["errors of bridges"] == 1.0
    assert found["other errors"] == 0.0


def test_choices_of_rows_that_were_learned_from_do_not_count() -> None:
    other = GRAPH.tolil()
    other[0, 1], other[0, 2] = 0, 1
    found, changed = (measures(sp.csr_array(g), GRAPH, PREDICTED, Y, TEST) for g in (GRAPH, other))
    assert found["homophily"] == changed["homophily"]
    assert changed["overlap"] < 1


def test_a_row_without_choices_crosses_nothing() -> None:
    np.testing.assert_allclose(crossing(GRAPH, PREDICTED), [0, 0, 0.5, 0, 0.75])
    assert crossing(sp.csr_array((2, 2)), np.array([0, 1])).tolist() == [0, 0]


def test_quick_run(tmp_path: Path) -> None:
    results: Results = run("learned-graphs", tmp_path, quick=True, show=False)
    assert len(results.rows) == 2
    for row in results.rows:
        assert row["homophily"] > row["by chance"]
        assert row["overlap"] > row["overlap by chance"]


def test_models_do_not_see_test_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from latentgraph.experiments import learned_graphs

    split = learned_graphs._split("wine", 0, None)
    graphs: list[sp.csr_array] = []

    def keep(graph: sp.csr_array, *_: object) -> dict[str, float]:
        graphs.append(graph)
        return {}

    monkeypatch.setattr(learned_graphs, "measures", keep)
    for y_test in (split.y_test, (split.y_test + 1) % 3):
        monkeypatch.setattr(learned_graphs, "_split", lambda *_, y=y_test: split._replace(y_test=y))
        compute({"data": "wine", "seed": 0}, True, None)
    assert (graphs[0] != graphs[1]).nnz == 0
