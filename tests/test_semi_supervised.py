"""Unlabelled rows are never scored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from latentgraph import DGMClassifier, InputError
from latentgraph.semi_supervised import LabelledKFold, is_labelled, labelled_scorer, transductive_scores

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["classes", "numbers", "whole numbers"])
def test_folds(shuffle: bool, kind: str) -> None:
    y = {
        "classes": RANDOM.integers(-1, 3, 80),
        "numbers": np.where(RANDOM.random(80) < 0.5, np.nan, RANDOM.normal(size=80)),
        "whole numbers": np.where(RANDOM.random(80) < 0.5, np.nan, np.arange(80.0)),
    }[kind]
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    folds = list(LabelledKFold(4, shuffle=shuffle, random_state=0 if shuffle else None).split(np.zeros((80, 2)), y))
    assert sorted(np.concatenate([test for _, test in folds])) == np.flatnonzero(known).tolist()
    for train, test in folds:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 80
        if kind == "classes":
            assert set(y[test]) == {0, 1, 2}


def test_scores_of_labelled_rows() -> None:
    """Broken: with 70 % of the labels masked, cross-validation says how well -1 is predicted."""
    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    masked = np.where(RANDOM.random(len(y)) < 0.7, -1, y)
    model = DGMClassifier(steps=40, samples=2, random_state=0)
    ours = cross_val_score(model, x, masked, cv=LabelledKFold(3), scoring=labelled_scorer())
    assert ours.mean() > 0.85
    assert transductive_scores(model, x, masked, cv=LabelledKFold(3)).mean() > 0.85
    scorer = labelled_scorer("accuracy")
    fitted = KNeighborsClassifier().fit(x, y)
    assert scorer(fitted, pd.DataFrame(x), masked) == scorer(fitted, x[masked >= 0], y[masked >= 0])


def test_too_few_labels() -> None:
    with pytest.raises(InputError, match="2 of 4 rows have a label; n_splits=3"):
        list(LabelledKFold(3).split(np.zeros((4, 1)), np.array([0, 1, -1, -1])))
    with pytest.raises(InputError, match="none of the 4 rows"):
        labelled_scorer()(None, np.zeros((4, 1)), np.full(4, -1))


def test_minus_one_is_a_number_among_fractions() -> None:
    assert is_labelled(np.array([-1.0, 0.5, 2.0, -1.0])).all()
    assert is_labelled(np.array([-1.0, np.nan, 2.0])).tolist() == [True, False, True]
    assert is_labelled(np.array([-1.0, 0.0, 2.0])).tolist() == [False, True, True]
