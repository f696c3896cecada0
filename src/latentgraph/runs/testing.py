"""How good the plan is, on rows that are kept away from training: one part of them, or all of them in folds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from latentgraph import store
from latentgraph.errors import InputError
from latentgraph.runs import scores
from latentgraph.runs.plan import Plan
from latentgraph.semi_supervised import LabelledKFold
from latentgraph.store.manifest import MANIFEST
from latentgraph.tables import Target

Array = NDArray[Any]
OURS = "latentgraph"


@dataclass(frozen=True)
class Tested:
    """The result on one part.

    Attributes
    ----------
    rows : (m,) the rows that were tested on
    found : (m, c) their class probabilities, or (m,) their predicted numbers, by latentgraph
    scores : of every method
    """

    rows: Array
    found: Array
    scores: dict[str, dict[str, float]]

    def save(self, folder: Path) -> None:
        tensors = {"rows": torch.as_tensor(self.rows), "found": torch.as_tensor(self.found)}
        store.save(folder, {"scores.json": self.scores, "predictions.safetensors": tensors})

    @classmethod
    def load(cls, folder: Path) -> Tested | None:
        """What was saved; None if the test did not come to its end."""
        if not (folder / MANIFEST).is_file():
            return None
        parts = store.load(folder)
        tensors = parts.tensors("predictions.safetensors")
        return cls(tensors["rows"].numpy(), tensors["found"].numpy(), parts.json("scores.json"))


def splits(plan: Plan, y: Array) -> list[tuple[Array, Array]]:
    """Rows to learn from and rows to test on; only labelled rows are tested on."""
    rows = np.flatnonzero(scores.known(y))
    if plan.folds:
        most = np.bincount(y[rows]).max() if y.dtype.kind == "i" else len(rows)
        if most < plan.folds:
            raise InputError(f"folds={plan.folds}, but at most {most} rows share a class or have a target; use fewer.")
        with warnings.catch_warnings():  # a class with fewer rows than folds is tested in some of them
            warnings.filterwarnings("ignore", "The least populated class")
            found = list(LabelledKFold(plan.folds, shuffle=True, random_state=plan.seed).split(y, y))
    elif plan.test_fraction and len(rows) >= 10:
        found = [_one_part(plan, y, rows)]
    else:
        return []
    if y.dtype.kind == "i" and any(len(np.unique(y[np.intersect1d(train, rows)])) < 2 for train, _ in found):
        asked = f"folds={plan.folds}" if plan.folds else f"test_fraction={plan.test_fraction}"
        raise InputError(f"{asked} leaves one class only to learn from. Test on fewer rows, or say test_fraction=0.")
    return found


def _one_part(plan: Plan, y: Array, rows: Array) -> tuple[Array, Array]:
    """A class with one row is learned from; the others are spread evenly, if the test part has room for all."""
    classes = y[rows] if y.dtype.kind == "i" else None
    if classes is not None:
        rows = rows[np.bincount(classes)[classes] > 1]
        classes = y[rows]
    count = math.ceil(plan.test_fraction * len(rows))
    if count >= len(rows):
        raise InputError(f"test_fraction={plan.test_fraction} of {len(rows)} rows leaves none to learn from.")
    if classes is not None and min(count, len(rows) - count) < len(np.unique(classes)):
        classes = None
    _, test = train_test_split(rows, test_size=count, stratify=classes, random_state=plan.seed)
    return np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def tested(plan: Plan, frame: Any, target: Target, y: Array, split: tuple[Array, Array], checkpoint: Path) -> Tested:
    """Every method on rows which nothing was fitted on, neither it nor the preprocessing."""
    train, test = split
    x, ours = predicted(plan, frame, target, y, split, checkpoint)
    learn = train[scores.known(y)[train]]
    found = {OURS: ours}
    for name, method in scores.for_rows(scores.baselines(target.task, plan.seed), len(learn)).items():
        found[name] = _found(method.fit(x[learn], y[learn]), target, x[test])
    score = scores.of_numbers if target.task == "regression" else scores.of_classes
    return Tested(test, ours, {name: score(y[test], value) for name, value in found.items()})


def predicted(
    plan: Plan, frame: Any, target: Target, y: Array, split: tuple[Array, Array], checkpoint: Path | None = None
) -> tuple[Array, Array]:
    """All rows as the preprocessing of the rows to learn from sees them, and latentgraph's answers for the others."""
    train, test = split
    x = plan.preprocessor().fit(frame, rows=train.tolist()).transform(frame)
    model = plan.estimator(target.task, checkpoint).fit(x[train], y[train])
    return x, _found(model, target, x[test])


def _found(method: Any, target: Target, x: Array) -> Array:
    if target.task == "regression":
        numbers: Array = method.predict(x)
        return numbers
    probability = np.zeros((len(x), len(target.classes)))
    probability[:, method.classes_] = method.predict_proba(x)
    return probability


def mean_scores(tested: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation over the parts, for each method and score."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for method in tested[0] if tested else ():
        for score in tested[0][method]:
            values = [part[method][score] for part in tested if score in part[method]]
            found.setdefault(method, {})[score] = float(np.mean(values)), float(np.std(values))
    return found
