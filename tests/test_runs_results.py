"""The numbers and the pictures of a run, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latentgraph.runs import plots
from latentgraph.runs.card import fold_rows
from latentgraph.runs.scores import calibration, confusion
from latentgraph.runs.testing import mean_scores
from latentgraph.tables import Target

Y = np.array([0, 0, 1, 1, 1])
P = np.array([[0.95, 0.05], [0.35, 0.65], [0.31, 0.69], [0.0, 1.0], [0.55, 0.45]])
KINDS = Target("kind", "classification", ["ill", "well"])
HISTORY: list[dict[str, float]] = [
    {"step": 1, "loss": 1.0, "homophily": 0.5},
    {"step": 2, "loss": 0.5, "homophily": 0.7, "validation": 0.6, "accuracy": 0.8},
]


def lines(axes: Any) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in axes.lines}


def test_confusion_by_hand() -> None:
    """Broken: true and predicted are exchanged."""
    assert confusion(Y, P).tolist() == [[1, 1], [1, 2]]


def test_calibration_by_hand() -> None:
    """Broken: a row is in another bin, or certainty 1 in none."""
    found = calibration(Y, P)
    assert found.counts == [0, 0, 0, 0, 0, 1, 2, 0, 0, 2]
    assert found.right[5:7] == [0.0, 0.5]
    assert found.right[9] == 1.0
    assert found.probability[6] == pytest.approx(0.67)
    assert found.probability[0] is None
    assert found.error == pytest.approx((0.55 + 2 * 0.17 + 2 * 0.025) / 5)


def test_scores_over_parts() -> None:
    """Broken: a score that one part does not have (AUC, with one class) fails, or counts as zero."""
    parts = [{"latentgraph": {"accuracy": 0.5, "AUC": 0.7}}, {"latentgraph": {"accuracy": 1.0}}]
    assert mean_scores(parts) == {"latentgraph": {"accuracy": (0.75, 0.25), "AUC": (0.7, 0.0)}}
    assert fold_rows(parts) == [["1", "0.5000", "0.7000"], ["2", "1.0000", ""]]
    assert mean_scores([]) == {}


def test_mean_difference_is_over_all_pairs() -> None:
    values = np.array([3.0, -1.0, 2.5, 2.5])
    pairs = [abs(a - b) for i, a in enumerate(values) for b in values[:i]]
    assert plots._mean_difference(values) == pytest.approx(np.mean(pairs))


def test_edges_beside_chance() -> None:
    """Broken: the curve is not that of the history, or the line of chance that of other classes."""
    (axes,) = plots.edges(HISTORY, 2, KINDS, np.array([0, 0, 0, 1])).axes
    drawn = lines(axes)
    assert drawn["sampled edges between rows learned from"].tolist() == [[1, 50], [2, 70]]
    assert drawn["pairs drawn by chance"][0, 1] == pytest.approx(62.5)
    low, high = axes.get_ylim()
    assert low == 0
    assert high >= 70


def test_learning_curves() -> None:
    """Broken: a value that only some steps have is drawn at other steps; a run without validation fails."""
    top, bottom = plots.learning(HISTORY, 2, KINDS).axes
    assert lines(top)["training, one sampled graph"].tolist() == [[1, 1.0], [2, 0.5]]
    assert lines(top)["validation, mean of several graphs"].tolist() == [[2, 0.6]]
    assert lines(bottom)["validation"].tolist() == [[2, 80]]
    assert len(plots.learning(HISTORY[:1], 1, KINDS).axes) == 1


def test_matrix_and_reliability() -> None:
    """Broken: numbers in the cells are not the counts; bars are not the counts; points are off."""
    matrix, _ = plots.confusion_matrix(Y, P, KINDS).axes
    assert [text.get_text() for text in matrix.texts] == ["1", "1", "1", "2"]
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["ill", "well"]
    top, bottom = plots.reliability(Y, P, KINDS).axes
    np.testing.assert_allclose(lines(top)["latentgraph"], np.array([[55, 0], [67, 50], [97.5, 100]]))
    bars: Any = bottom.patches
    assert [bar.get_height() for bar in bars] == calibration(Y, P).counts


def test_many_classes_are_drawn_without_numbers() -> None:
    classes = [f"class number {i:03} with a long name" for i in range(90)]
    y = np.arange(90)
    matrix, _ = plots.confusion_matrix(y, np.eye(90), Target("kind", "classification", classes)).axes
    assert len(matrix.texts) == 0
    assert len(matrix.get_xticklabels()) <= 40
