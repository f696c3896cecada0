"""What a table is: one record for each column, which can be written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from latentgraph.tables.values import Values, booleans_of, dates_of, levels_of, numbers_of

FEATURE_KINDS = ("number", "category", "boolean", "date")


@dataclass
class Column:
    """One column of the training table.

    Attributes
    ----------
    name : as in the table
    kind : number, category, boolean, date, id, text, constant, empty, or duplicate
    role : feature, target, id, or dropped
    reason : why it is dropped
    note : what a reader should look at
    missing : share of the training rows without a value
    distinct : number of different values
    date_format : of dates that are text
    same_as : the column that a duplicate repeats
    """

    name: str
    kind: str
    role: str = "feature"
    reason: str = ""
    note: str = ""
    missing: float = 0.0
    distinct: int = 0
    date_format: str | None = None
    same_as: str | None = None

    def values(self, series: pd.Series) -> Values:
        """The column as values of its kind; raises where a value is not of this kind."""
        if self.kind == "number":
            return numbers_of(series)
        if self.kind == "boolean":
            return booleans_of(series)
        if self.kind == "date":
            return dates_of(series, self.date_format)
        return levels_of(series)

    def drop(self, kind: str, reason: str) -> None:
        self.kind, self.role, self.reason = kind, "dropped", reason


@dataclass
class Schema:
    """All columns of the training table."""

    rows: int
    columns: list[Column]

    def with_role(self, role: str) -> list[Column]:
        """The columns that are feature, target, id, or dropped."""
        return [column for column in self.columns if column.role == role]

    def notes(self) -> list[str]:
        """Plain sentences about what a reader should look at."""
        return [f"Column {column.name!r} {column.note}." for column in self.columns if column.note]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        return cls(data["rows"], [Column(**column) for column in data["columns"]])
