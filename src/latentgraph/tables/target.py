"""The column to predict: classes or numbers, and unlabelled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from latentgraph.errors import InputError
from latentgraph.tables.frames import Source, as_frame
from latentgraph.tables.names import near, some
from latentgraph.tables.rules import natural_kind
from latentgraph.tables.values import Values, levels_of, numbers_of

TASKS = ("classification", "regression")
MANY_NUMBERS = 20


@dataclass
class Target:
    """What is predicted.

    Attributes
    ----------
    column : its name
    task : "classification" or "regression"
    classes : names of the classes, in the order of their numbers; empty for regression
    """

    column: str
    task: str
    classes: list[str]

    @classmethod
    def fit(cls, table: Source, column: str, task: str | None = None) -> Target:
        """Learn the classes of a column.

        Without `task`, numbers are regression if one has a fraction or if more than 20 are different. Everything else
        is classification. Rows without a value are unlabelled.
        """
        if task not in (None, *TASKS):
            raise InputError(f"task={task!r}, but it is one of {', '.join(TASKS)}.")
        series = _column(table, column)
        known = series.dropna()
        if known.empty:
            raise InputError(f"the target {column!r} has no value; at least some rows need one to learn from.")
        kind = natural_kind(series)[0]
        if kind == "date":
            raise InputError(f"the target {column!r} is a date; predict a number (days) or a class instead.")
        if task is None:
            task = "regression" if kind == "number" and _is_measured(numbers_of(known)) else "classification"
        if task == "regression":
            if known.nunique() < 2:
                raise InputError(f"the target {column!r} is always {known.iloc[0]}; there is nothing to learn.")
            numbers_of(series)
            return cls(column, task, [])
        classes = sorted(set(levels_of(known)), key=_class_order)
        if len(classes) < 2:
            raise InputError(f"the target {column!r} has one class only, {classes[0]!r}; at least two are needed.")
        if len(classes) > max(2, len(known) / 2):
            hint = "name another column, or task='regression' for numbers"
            raise InputError(f"the target {column!r} has {len(classes)} classes in {len(known)} rows; {hint}.")
        return cls(column, task, classes)

    def encode(self, table: Source) -> Values:
        """(n,) class numbers, -1 for unlabelled rows; or (n,) float64, NaN for unlabelled rows."""
        series = _column(table, self.column)
        if self.task == "regression":
            return numbers_of(series)
        levels = levels_of(series)
        codes = pd.Index(self.classes, dtype=object).get_indexer(levels)
        unknown = (codes < 0) & ~pd.isna(levels)
        if unknown.any():
            row = int(unknown.argmax())
            known = some([repr(name) for name in self.classes])
            raise InputError(
                f"the target {self.column!r}, row {row + 1}: {levels[row]!r} is none of the classes that were learned: "
                f"{known}."
            )
        return codes.astype(np.int64)

    def decode(self, codes: Sequence[int] | Values) -> list[str]:
        """Class names of class numbers."""
        return [self.classes[code] for code in codes]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Target:
        return cls(data["column"], data["task"], list(data["classes"]))


def _column(table: Source, name: str) -> pd.Series:
    frame = as_frame(table)
    if name not in frame.columns:
        raise InputError(f"there is no target column {name!r}. {near(name, frame.columns)}")
    return frame[name]


def _is_measured(values: Values) -> bool:
    return bool((values != np.floor(values)).any() or len(np.unique(values)) > MANY_NUMBERS)


def _class_order(name: str) -> tuple[int, float, str]:
    """Numbers by size, then text by letters."""
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)
