"""The tables of the suite, each cut by a seed into rows to learn from and rows to test on.

Whatever is fitted to prepare a table (categories, missing values, words) is fitted on the rows to learn from. All
methods get the same numbers; those that want them scaled do it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from latentgraph.datasets.brainage import brainage
from latentgraph.datasets.news import news
from latentgraph.datasets.nhanes import DIABETES, diabetes
from latentgraph.datasets.tadpole import tadpole
from latentgraph.tables import TablePreprocessor

TEST = 0.2  # part of the rows
KEPT = 0.05  # part of the labels, where they are few
MESSAGES = 3000  # of the newsgroups, another choice for every seed: boosting 20 classes on all of them takes hours
WORDS = 1000  # the most frequent ones, without English stop words
AGES = (30, 50)  # limits of the three groups of the brain-age table, in years

Array = NDArray[Any]


class Split(NamedTuple):
    """Rows to learn from, some of them perhaps with the label -1 (unknown), and rows to test on."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array

    def with_few_labels(self, seed: int) -> Split:
        """Hide all but 5 % of the labels of each class, but at least one."""
        random = np.random.RandomState(seed)
        y = np.full_like(self.y, -1)
        for c in np.unique(self.y):
            rows = random.permutation(np.flatnonzero(self.y == c))
            y[rows[: max(1, round(KEPT * len(rows)))]] = c
        return self._replace(y=y)


def _numbers(x: Array, y: Array, seed: int) -> Split:
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=TEST, stratify=y, random_state=seed)
    return Split(x_train, y_train, x_test, y_test)


def _breast_cancer(seed: int, root: str | None) -> Split:
    x, y = load_breast_cancer(return_X_y=True)
    return _numbers(x, y, seed)


def _wine(seed: int, root: str | None) -> Split:
    x, y = load_wine(return_X_y=True)
    return _numbers(x, y, seed)


def _digits(seed: int, root: str | None) -> Split:
    x, y = load_digits(return_X_y=True)
    return _numbers(x, y, seed)


def _tadpole(seed: int, root: str | None) -> Split:
    """A fold has features of its own, so its own test rows are taken."""
    fold = tadpole(seed % 10, root)
    return Split(fold.x[fold.train], fold.y[fold.train], fold.x[fold.test], fold.y[fold.test])


def _brain_age(seed: int, root: str | None) -> Split:
    people = brainage(root)
    return _numbers(people.x, np.digitize(people.age, AGES), seed)


def _nhanes(seed: int, root: str | None) -> Split:
    people = diabetes(root)
    y = people[DIABETES].astype("string").to_numpy().astype(int)
    train, test = train_test_split(np.arange(len(y)), test_size=TEST, stratify=y, random_state=seed)
    preprocessor = TablePreprocessor(target=DIABETES, scale="none").fit(people, rows=train.tolist())
    x = preprocessor.transform(people)
    return Split(x[train], y[train], x[test], y[test])


def _news(seed: int, root: str | None) -> Split:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, groups = news(root)
    y = np.unique(groups, return_inverse=True)[1]
    rows, _ = train_test_split(np.arange(len(y)), train_size=MESSAGES, stratify=y, random_state=seed)
    train, test = train_test_split(rows, test_size=TEST, stratify=y[rows], random_state=seed)
    words = TfidfVectorizer(max_features=WORDS, stop_words="english", sublinear_tf=True)
    x = words.fit_transform([texts[i] for i in train]).toarray()
    return Split(x, y[train], words.transform([texts[i] for i in test]).toarray(), y[test])


TABLES: dict[str, Callable[[int, str | None], Split]] = {
    "breast cancer": _breast_cancer,
    "wine": _wine,
    "digits": _digits,
    "TADPOLE": _tadpole,
    "brain age": _brain_age,
    "NHANES diabetes": _nhanes,
    "20 newsgroups": _news,
}
