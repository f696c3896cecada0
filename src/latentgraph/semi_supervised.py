"""Cross-validation where some labels are unknown: scikit-learn would score -1 as a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import indexable

from latentgraph.errors import InputError

Array = NDArray[Any]


def is_labelled(y: ArrayLike) -> Array:
    """(n,) bool: neither -1 nor NaN; but -1 is a number like others where targets are NaN or have fractions."""
    y = np.asarray(y)
    if y.dtype.kind == "f" and (y != np.round(y)).any():  # NaN is no whole number, either
        return ~np.isnan(y)
    return np.ones(len(y), bool) if y.dtype.kind in "OUSb" else y != -1


class LabelledKFold:
    """Folds over the labelled rows; unlabelled rows are in every training part and in no test part.

    Classes are spread evenly over the folds; floating-point targets are no classes. For `cv=` of scikit-learn.

    >>> y = np.array([0, -1, 1, 0, -1, 1])
    >>> for train, test in LabelledKFold(2).split(np.zeros((6, 1)), y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 1 2 4] [3 5]
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: int | None = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.n_splits

    def split(self, X: Any, y: ArrayLike, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Row numbers of each training and test part."""
        X, y = indexable(X, y)
        labels = np.asarray(y)
        known = is_labelled(labels)
        rows, others = np.flatnonzero(known), np.flatnonzero(~known)
        if len(rows) < self.n_splits:
            raise InputError(f"{len(rows)} of {len(labels)} rows have a label; n_splits={self.n_splits} needs as many.")
        kind = KFold if labels.dtype.kind == "f" else StratifiedKFold
        folds = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        for train, test in folds.split(rows, labels[rows]):
            yield np.sort(np.concatenate([rows[train], others])), rows[test]


def labelled_scorer(scoring: str | Callable[..., float] = "accuracy") -> Callable[[Any, Any, ArrayLike], float]:
    """A scorer that leaves unlabelled rows out, for `scoring=` of scikit-learn's functions."""
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring

    def score(estimator: Any, X: Any, y: ArrayLike) -> float:
        known = np.flatnonzero(is_labelled(y))
        if not len(known):
            raise InputError(f"none of the {len(np.asarray(y))} rows to be scored has a label. Use LabelledKFold.")
        rows = X.iloc[known] if hasattr(X, "iloc") else X[known]
        return float(scorer(estimator, rows, np.asarray(y)[known]))

    return score


def transductive_scores(estimator: Any, X: Any, y: ArrayLike, *, cv: Any = None) -> Array:
    """Share of hidden labels that are found, for each fold: test rows stay in the population without their label.

    For classifiers with -1 as the unknown label; `cv` defaults to five folds over the labelled rows.
    """
    labels = np.asarray(y)
    scores = []
    for _, test in (cv or LabelledKFold(5)).split(X, labels):
        hidden = labels.copy()
        hidden[test] = -1
        found = clone(estimator).fit(X, hidden).transduction_
        scores.append((found[test] == labels[test]).mean())
    return np.array(scores)
