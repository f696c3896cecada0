"""Tuning on patients: the same number of settings for all, chosen without a look at the test fold."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from latentgraph.datasets.tadpole import NUM_FOLDS, Fold
from latentgraph.estimators import DGMClassifier
from latentgraph.experiments import tadpole_tuned
from latentgraph.experiments.tadpole_tuned import METHODS, SPACES, answers, cells, compute, validated
from latentgraph.experiments.tuning import drawn


@pytest.fixture(scope="module")
def patients() -> Fold:
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = random.normal(size=(90, 4)) + y[:, None] * [2.0, -1.0, 0.0, 0.0]
    train = np.arange(90) < 72
    return Fold(x, y, np.flatnonzero(train), np.flatnonzero(~train))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, tadpole_tuned.OURS, partial(DGMClassifier, steps=3, trees=5))
    monkeypatch.setitem(METHODS, "random forest", partial(RandomForestClassifier, 5))


def test_every_method_has_every_fold() -> None:
    every = cells(1, False)
    assert len(every) == 2 * NUM_FOLDS * len(METHODS)
    assert list(METHODS) == list(SPACES)


@pytest.mark.parametrize("method", METHODS)
def test_methods_learn_and_take_their_settings(method: str, patients: Fold) -> None:
    known = np.full(90, -1)
    known[patients.train] = patients.y[patients.train]
    found = answers(METHODS[method](random_state=0, **drawn(SPACES, method, 1)), patients.x, known)
    assert (found == patients.y)[patients.test].mean() > 0.5


@pytest.mark.parametrize("method", METHODS)
def test_the_choice_does_not_look_at_the_test_fold(
    method: str, patients: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = patients.y.copy()
    wrong[patients.test] = (wrong[patients.test] + 1) % 3
    found = []
    for y in (patients.y, wrong):
        monkeypatch.setattr(tadpole_tuned, "tadpole", lambda *_, y=y: patients._replace(y=y))
        found.append(compute({"columns": "all", "method": method, "fold": 0}, True, None))
    assert found[0]["settings"] == found[1]["settings"]
    assert found[0]["validation"] == found[1]["validation"]
    assert found[0]["accuracy"] != found[1]["accuracy"]


def test_inner_folds_hide_what_they_score(patients: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training row is unknown in exactly one inner fold, in which it is scored; test rows are unknown in all."""
    seen: list[np.ndarray[Any, Any]] = []

    def spy(model: object, x: object, y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(y.copy())
        return patients.y

    monkeypatch.setattr(tadpole_tuned, "answers", spy)
    known = np.full(90, -1)
    known[patients.train] = patients.y[patients.train]
    assert validated("logistic regression", 0, patients.x, known, patients.train, 0) == 1.0
    hidden = np.stack(seen) < 0
    assert (hidden[:, patients.train].sum(0) == 1).all()
    assert hidden[:, patients.test].all()
