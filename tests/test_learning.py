"""How long an estimator learns: from few labels by asking them in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from latentgraph import DGMClassifier, DGMRegressor
from latentgraph.estimators.learning import FOLDS, best_step, parts_of

QUICK: dict[str, Any] = {"steps": 40, "samples": 2, "trees": 20, "random_state": 0}


def thresholds(rows: int = 120, labels: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A class that a tree sees at once, two thresholds in one column of twelve; few rows have a label."""
    random = np.random.RandomState(0)
    x = random.randn(rows, 12)
    y = (np.abs(x[:, 0]) > 0.7).astype(int)
    return x, y, np.where(np.arange(rows) < labels, y, -1)


def test_every_label_is_asked_once_and_classes_evenly() -> None:
    y = torch.tensor([0] * 7 + [1] * 5 + [-1] * 4 + [2])
    known = y >= 0
    parts = parts_of(y, known, seed=3)
    assert len(parts) == FOLDS
    assert torch.equal(torch.stack(parts).sum(0), known.long())
    for c in range(3):
        counts = [int((y[part] == c).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1
    assert not all(torch.equal(a, b) for a, b in zip(parts, parts_of(y, known, seed=4), strict=True))


def test_numbers_are_dealt_evenly() -> None:
    y = torch.linspace(0, 1, 11)
    assert sorted(int(part.sum()) for part in parts_of(y, torch.ones(11, dtype=torch.bool), seed=0)) == [3, 4, 4]


def test_the_best_step_is_the_first_of_the_best_that_all_have() -> None:
    assert best_step([{0: 1.0, 10: 0.5}, {0: 1.0, 10: 1.5}]) == 0
    assert best_step([{0: 1.0, 10: 0.9}, {0: 1.0, 10: 0.9, 20: 0.0}]) == 10


@pytest.mark.parametrize("gradient", ["softmax", "reinforce"])
def test_asking_leaves_no_trace(gradient: str) -> None:
    """The trainings that only ask must not move the network: the last one is that of so many steps, bit for bit."""
    x, _, seen = thresholds()
    asked = DGMClassifier(**QUICK, gradient=gradient).fit(x, seen)
    assert asked.n_iter_ < QUICK["steps"]
    plain = DGMClassifier(**{**QUICK, "steps": asked.n_iter_}, gradient=gradient, validation_fraction=0.0).fit(x, seen)
    assert np.array_equal(asked.label_distributions_, plain.label_distributions_)
    assert (asked.graph_ != plain.graph_).nnz == 0


def test_noise_is_not_learned_and_what_trees_do_not_see_is() -> None:
    """Labels without a meaning: any step makes it worse. A sum of columns: the network is better than its forest."""
    random = np.random.RandomState(1)
    x = random.randn(200, 12)
    steps = {}
    for name, y in {"noise": random.randint(0, 2, 200), "sum": (x.sum(1) > 0).astype(int)}.items():
        seen = np.where(np.arange(200) < 120, y, -1)
        steps[name] = DGMClassifier(**{**QUICK, "steps": 100}).fit(x, seen).n_iter_
    assert steps["noise"] <= 10 < steps["sum"]


def test_weighted_labels_are_not_asked() -> None:
    """Likelihood does not know of weights: it would stop before they have an effect."""
    x, _, seen = thresholds()
    assert DGMClassifier(**QUICK, class_weight="balanced").fit(x, seen).n_iter_ == QUICK["steps"]


def test_without_a_validation_part_all_steps_are_made() -> None:
    x, _, seen = thresholds()
    assert DGMClassifier(**QUICK, validation_fraction=0.0).fit(x, seen).n_iter_ == QUICK["steps"]


def test_a_handful_is_not_asked() -> None:
    """Fewer than two labels for each part tell nothing: all steps, as before."""
    x, _, seen = thresholds(labels=5)
    assert DGMClassifier(**QUICK).fit(x, seen).n_iter_ == QUICK["steps"]


def test_regressors_ask_too() -> None:
    x, _, _ = thresholds()
    y = np.where(np.arange(len(x)) < 30, x[:, 0] ** 2, np.nan)
    model = DGMRegressor(**QUICK).fit(x, y)
    assert 1 <= model.n_iter_ <= QUICK["steps"]
    assert np.isfinite(model.transduction_).all()
