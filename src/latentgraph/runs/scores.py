"""How good predictions are, beside what one would try first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def known(y: Array) -> Array:
    """(n,) bool: which targets are there. Class numbers have -1 for unknown ones, numbers NaN."""
    found: Array = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return found


def of_classes(y: Array, probability: Array) -> dict[str, float]:
    """Scores of class probabilities (n, c) for class numbers (n,)."""
    from sklearn.metrics import log_loss, roc_auc_score

    right = probability.argmax(1) == y
    scores = {
        "accuracy": float(right.mean()),
        "balanced accuracy": float(np.mean([right[y == c].mean() for c in np.unique(y)])),
        "log loss": float(log_loss(y, probability, labels=np.arange(probability.shape[1]))),
    }
    if probability.shape[1] == 2 and len(np.unique(y)) == 2:
        scores["AUC"] = float(roc_auc_score(y, probability[:, 1]))
    return scores


def of_numbers(y: Array, prediction: Array) -> dict[str, float]:
    """Scores of predicted numbers."""
    error = prediction - y
    return {
        "R2": 1.0 - float((error**2).sum() / max(((y - y.mean()) ** 2).sum(), np.finfo(float).tiny)),
        "MAE": float(np.abs(error).mean()),
        "RMSE": float(np.sqrt((error**2).mean())),
    }


def confusion(y: Array, probability: Array) -> Array:
    """(c, c) how many rows of each class (down) were predicted as each class (across)."""
    counts = np.zeros((probability.shape[1],) * 2, np.int64)
    np.add.at(counts, (y, probability.argmax(1)), 1)
    return counts


class Calibration(NamedTuple):
    """Rows in ten bins by the probability of their predicted class.

    Attributes
    ----------
    edges : 11 ends of the bins
    counts : rows in each
    probability, right : its mean, and the share of right predictions, in each bin that has rows; else None
    error : expected calibration error, the mean of |right - probability| over rows
    """

    edges: list[float]
    counts: list[int]
    probability: list[float | None]
    right: list[float | None]
    error: float


def calibration(y: Array, probability: Array, bins: int = 10) -> Calibration:
    """Does it happen as often as the model says? For class numbers (n,) and probabilities (n, c)."""
    sure, right = probability.max(1), probability.argmax(1) == y
    place = np.minimum((sure * bins).astype(int), bins - 1)
    members = [place == b for b in range(bins)]
    said = [float(sure[rows].mean()) if rows.any() else None for rows in members]
    true = [float(right[rows].mean()) if rows.any() else None for rows in members]
    counts = [int(rows.sum()) for rows in members]
    error = sum(n * abs(s - t) for n, s, t in zip(counts, said, true, strict=True) if s is not None and t is not None)
    return Calibration(np.linspace(0, 1, bins + 1).tolist(), counts, said, true, error / max(len(y), 1))


FOREST_ROWS = 1 << 15  # above, a tree of the forest is grown on so many rows: grown on all, they fill the memory


def for_rows(methods: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The methods as they can learn from so many rows; the name of one that sees fewer says so."""
    found = dict(methods)
    if rows > FOREST_ROWS and "random forest" in found:
        forest = found.pop("random forest").set_params(max_samples=FOREST_ROWS)
        found[f"random forest, {FOREST_ROWS:,} rows a tree"] = forest
    return found


def baselines(task: str, seed: int) -> dict[str, Any]:
    """What one would try first; all see the labelled rows only."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if task == "classification":
        return {
            "majority": DummyClassifier(),
            "logistic regression": LogisticRegression(max_iter=2000),
            "random forest": RandomForestClassifier(300, random_state=seed),
        }
    return {
        "mean": DummyRegressor(),
        "ridge": RidgeCV(np.logspace(-3, 3, 13)),
        "random forest": RandomForestRegressor(300, random_state=seed),
    }
