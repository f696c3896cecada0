"""Labels that spread over alike rows: what arrives where, and that no row is told of its own label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from latentgraph.estimators import DGMClassifier
from latentgraph.estimators.spreading import DOUBT, GIVEN, ROUNDS, Spread, _normalised

x, y = make_blobs(80, 4, centers=3, cluster_std=3.0, random_state=0)
known = np.arange(80) % 8 == 0
QUICK: dict[str, Any] = {"steps": 5, "trees": 5, "random_state": 0}


def test_labels_arrive_as_the_series_says() -> None:
    s = _normalised(x).toarray()
    assert np.allclose(s, s.T)
    assert np.linalg.eigvalsh(s).max() == pytest.approx(1.0)
    start = np.zeros((80, 3))
    start[known, y[known]] = 1.0
    start /= start.sum(0)
    wanted = sum(np.linalg.matrix_power(GIVEN * s, power) @ start for power in range(ROUNDS + 1))
    spread, _ = Spread.over(x, np.where(known, y, -1), known, 3)
    np.testing.assert_allclose(spread.mass, wanted, rtol=1e-10)
    np.testing.assert_allclose(spread.prior, np.bincount(y[known]) / known.sum())


def test_a_row_is_judged_without_its_own_label() -> None:
    """As if its label had not been there at all: the order of the classes, and how far they are apart."""
    _, opinion = Spread.over(x, np.where(known, y, -1), known, 3)
    for row in np.flatnonzero(known):
        others = known & (np.arange(80) != row)
        without, _ = Spread.over(x, np.where(others, y, -1), others, 3)
        share = without.mass[row] / without.mass[row].sum()
        prior = np.bincount(y[known]) / known.sum()
        np.testing.assert_allclose(np.exp(opinion[row]), (1 - DOUBT) * share + DOUBT * prior, rtol=1e-8)


def test_other_labels_say_nothing_of_random_ones() -> None:
    random = np.random.default_rng(0)
    rows, classes = random.normal(size=(400, 3)), random.integers(0, 2, 400)
    _, opinion = Spread.over(rows, classes, np.ones(400, bool), 2)
    assert 0.4 < (opinion.argmax(1) == classes).mean() < 0.6


def test_opinions_are_probabilities() -> None:
    spread, opinion = Spread.over(x, np.where(known, y, -1), known, 3)
    np.testing.assert_allclose(np.exp(opinion).sum(1), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.exp(spread(x + 0.1, x)).sum(1), 1.0, atol=1e-6)


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_few_rows_and_a_class_of_one(rows: int) -> None:
    labels = np.full(rows, -1)
    labels[:2] = 0, 1
    spread, opinion = Spread.over(x[:rows], labels, labels >= 0, 2)
    assert np.isfinite(opinion).all()
    assert np.isfinite(spread(x[:5], x[:rows])).all()


def test_where_nothing_arrives_the_prior_is_said() -> None:
    far = np.concatenate([x, x + 1e6])
    labels = np.concatenate([np.where(known, y, -1), np.full(80, -1)])
    spread, opinion = Spread.over(far, labels, labels >= 0, 3)
    np.testing.assert_allclose(np.exp(opinion[80:]), np.broadcast_to(spread.prior, (80, 3)), rtol=1e-6)


def test_equal_rows() -> None:
    _, opinion = Spread.over(np.zeros((30, 2)), np.arange(30) % 2, np.ones(30, bool), 2)
    assert np.isfinite(opinion).all()


def test_few_labels_are_spread_and_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DGMClassifier(**QUICK).fit(x, y).spread_ is not None
    assert DGMClassifier(**QUICK, spread=False).fit(x, y).spread_ is None
    assert DGMClassifier(**QUICK).fit(x, y, edge_index=np.array([[0, 1], [1, 0]])).spread_ is None
    monkeypatch.setattr("latentgraph.estimators.classifier.FEW_LABELS", 80)
    assert DGMClassifier(**QUICK).fit(x, y).spread_ is None
    assert DGMClassifier(**QUICK).fit(x, np.where(known, y, -1)).spread_ is not None


@pytest.mark.parametrize("trees", [0, 5])
def test_saved_and_loaded(trees: int, tmp_path: Path) -> None:
    model = DGMClassifier(**{**QUICK, "trees": trees}).fit(x, np.where(known, y, -1))
    model.save(tmp_path)
    again = DGMClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(x + 0.1), model.predict_proba(x + 0.1))
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)


def test_a_new_row_is_answered_the_same_in_any_company() -> None:
    model = DGMClassifier(**QUICK).fit(x, np.where(known, y, -1))
    together = model.predict_proba(x[:9] + 0.2)
    alone = np.concatenate([model.predict_proba(row[None] + 0.2) for row in x[:9]])
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_rows_without_a_label_help() -> None:
    """Digits with five labels a class: far better than the forest in it, or than without spreading."""
    pixels, digit = load_digits(return_X_y=True)
    labels = np.full(len(digit), -1)
    for c in range(10):
        labels[np.flatnonzero(digit == c)[:5]] = c
    hidden = labels < 0
    right = {
        spread: (DGMClassifier(steps=30, random_state=0, spread=spread).fit(pixels, labels).transduction_ == digit)
        for spread in (True, False)
    }
    assert right[True][hidden].mean() > right[False][hidden].mean() + 0.02
