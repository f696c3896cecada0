"""The forest that tells the network what it thinks: the same as scikit-learn's, and never about what it was told."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from latentgraph.estimators import forest as module
from latentgraph.estimators.forest import SURE, Forest


def test_classes_as_scikit_learn_votes() -> None:
    x, y = load_wine(return_X_y=True)
    known = np.arange(len(y)) % 3 > 0
    forest, opinion = Forest.grow(x, y, known, outputs=3, trees=40, seed=3)
    theirs = RandomForestClassifier(40, max_samples=int(known.sum()), max_depth=24, random_state=3, oob_score=True)
    theirs.fit(x[known], y[known])
    np.testing.assert_allclose(forest(x), np.log(theirs.predict_proba(x).clip(SURE)), atol=1e-12)
    np.testing.assert_allclose(opinion[known], np.log(theirs.oob_decision_function_.clip(SURE)), atol=1e-12)
    np.testing.assert_allclose(opinion[~known], forest(x[~known]), atol=1e-12)
    np.testing.assert_allclose(forest.importance, theirs.feature_importances_)


def test_numbers_as_scikit_learn_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when rows are judged in many small blocks."""
    monkeypatch.setattr(module, "BLOCK", 100)
    x, y = load_diabetes(return_X_y=True)
    known = np.ones(len(y), bool)
    forest, opinion = Forest.grow(x, y, known, outputs=1, trees=30, seed=0)
    theirs = RandomForestRegressor(30, max_samples=len(y), max_depth=24, random_state=0, oob_score=True).fit(x, y)
    np.testing.assert_allclose(forest(x)[:, 0], theirs.predict(x), rtol=1e-12)
    np.testing.assert_allclose(opinion[:, 0], theirs.oob_prediction_, rtol=1e-12)


def test_a_label_does_not_tell_itself() -> None:
    """Labels that are pure chance: in the bag a forest knows them, out of it it must not."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(400, 5)), random.integers(0, 2, 400)
    forest, opinion = Forest.grow(x, y, np.ones(400, bool), outputs=2, trees=100, seed=0)
    assert (forest(x).argmax(1) == y).mean() > 0.95
    assert 0.4 < (opinion.argmax(1) == y).mean() < 0.6


def test_few_labels_and_strange_numbers() -> None:
    """One labelled row, for which no tree is left to ask; a constant table; numbers beyond single precision."""
    x = np.array([[0.0, 1e300], [1.0, -1e300], [2.0, 0.0]])
    forest, opinion = Forest.grow(x, np.array([0, -1, -1]), np.array([True, False, False]), outputs=2, trees=5, seed=0)
    assert np.isfinite(opinion).all()
    assert np.isfinite(forest(x)).all()
    np.testing.assert_array_equal(forest.weights(), [1, 1])  # nothing was learned, nothing is muted


def test_weights_follow_importance() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(300, 6))
    forest, _ = Forest.grow(x, (x[:, 2] > 0).astype(int), np.ones(300, bool), outputs=2, trees=50, seed=0)
    weights = forest.weights()
    assert weights.argmax() == 2
    assert weights[2] > 3 * np.delete(weights, 2).max()
    assert np.isclose(np.square(weights).mean(), 1)


def test_a_class_without_rows_has_no_probability() -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=(60, 3))
    forest, opinion = Forest.grow(x, np.arange(60) % 2 * 2, np.ones(60, bool), outputs=3, trees=10, seed=0)
    np.testing.assert_array_equal(opinion[:, 1], np.log(SURE))
    np.testing.assert_array_equal(forest(x)[:, 1], np.log(SURE))
