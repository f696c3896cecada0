"""How good predictions are, beside what one would try first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def of_classes(y: Array, probability: Array) -> dict[str, float]:
    """Scores of class probabilities (n, c) for class numbers (n,)."""
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

    found = probability.argmax(1)
    scores = {
        "accuracy": float((found == y).mean()),
        "balanced accuracy": float(balanced_accuracy_score(y, found)),
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
