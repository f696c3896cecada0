"""Columns that alone tell the target: a diagnosis written down twice, or a score from which it was made.

A column is cut into at most 32 bins of equal counts (a category: its levels), and one for missing values. Two thirds of
the labelled rows teach each bin what it stands for, and the other third is predicted, three times:

    class:   the class that is most over-represented in the bin, scored by the balanced accuracy
    number:  the mean rank of the target in the bin, or a straight line, whichever is better, scored by R^2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from latentgraph.tables.values import Floats, Values

BINS = 32  # at most
ROWS_OF_A_BIN = 15  # at least
FOLDS = 3
ROWS = 2000  # labelled rows that are looked at
FEWEST = 5 * FOLDS  # rows of a class, or of all for regression, below which chance is too likely
BALANCED_ACCURACY = 0.9
R2 = 0.98


class Suspect(NamedTuple):
    """A column and how well it alone predicts the target of rows that it has not seen."""

    column: str
    measure: str
    score: float


def suspects(columns: dict[str, Values], y: Values, seed: int = 0) -> list[Suspect] | None:
    """Columns that predict y almost perfectly, the best first; None if there are too few labelled rows to tell.

    Parameters
    ----------
    columns : numbers with NaN, or names of categories with None
    y : (n,) class numbers, -1 unknown; or numbers, NaN unknown
    """
    classes = y.dtype.kind == "i"
    groups = _rows(y, np.random.default_rng(seed))
    if groups is None:
        return None
    rows = np.concatenate(groups)
    fold = np.concatenate([np.arange(len(group)) % FOLDS for group in groups])
    y = np.repeat(np.arange(len(groups)), [len(group) for group in groups]) if classes else y[rows]
    measure, least = ("balanced accuracy", BALANCED_ACCURACY) if classes else ("R2", R2)
    found = []
    for name, values in columns.items():
        score = _balanced_accuracy(values[rows], y, fold) if classes else _r2(values[rows], y, fold)
        if score >= least:
            found.append(Suspect(name, measure, float(score)))
    return sorted(found, key=lambda suspect: -suspect.score)


def _rows(y: Values, rng: np.random.Generator) -> list[Values] | None:
    """Labelled rows in random order: one group for each class that has enough of them, one group of numbers."""
    if y.dtype.kind == "i":
        groups = [np.flatnonzero(y == label) for label in np.unique(y[y >= 0])]
    else:
        groups = [np.flatnonzero(~np.isnan(y))]
    groups = [group for group in groups if len(group) >= FEWEST]
    if len(groups) < (2 if y.dtype.kind == "i" else 1):
        return None
    return [rng.permutation(group)[: max(FEWEST, ROWS // len(groups))] for group in groups]


def _bins(values: Values) -> Values:
    if values.dtype == object:
        return pd.factorize(values)[0] + 1  # missing is bin 0
    known = values[~np.isnan(values)]
    number = int(np.clip(len(known) // ROWS_OF_A_BIN, 2, BINS))
    edges = np.unique(np.quantile(known, np.arange(number) / number)) if len(known) else np.empty(0)
    return np.where(np.isnan(values), 0, np.searchsorted(edges, values, side="left") + 1)


def _balanced_accuracy(values: Values, y: Values, fold: Values) -> float:
    bins, classes = _bins(values), int(y.max()) + 1
    counts = np.zeros((FOLDS, int(bins.max()) + 1, classes))
    np.add.at(counts, (fold, bins, y), 1)
    recalls = []
    for tested in counts:
        learned = counts.sum(0) - tested
        answer = (learned / learned.sum(0)).argmax(1)
        right = np.where(answer[:, None] == np.arange(classes), tested, 0)
        recalls.append(right.sum(0) / tested.sum(0))
    return float(np.mean(recalls))


def _r2(values: Values, y: Floats, fold: Values) -> float:
    bins, ranks = _bins(values), pd.Series(y).rank().to_numpy()
    shape = (FOLDS, int(bins.max()) + 1)
    counts, sums = np.zeros(shape), np.zeros(shape)
    np.add.at(counts, (fold, bins), 1)
    np.add.at(sums, (fold, bins), ranks)
    learned = (sums.sum(0) - sums) / np.maximum(counts.sum(0) - counts, 1)
    by_bins = 1 - ((ranks - learned[fold, bins]) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum()
    return float(by_bins) if values.dtype == object else float(max(by_bins, _line_r2(values, y)))


def _line_r2(values: Floats, y: Floats) -> float:
    """R^2 of the straight line through all rows, with the mean where the value is missing."""
    a, b = np.nan_to_num(values - np.nanmean(values)), y - y.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float((a @ b / size) ** 2) if size > 0 else 0.0
