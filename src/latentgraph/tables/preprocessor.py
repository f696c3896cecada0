"""A table to a matrix: fitted on the training rows, applied to any table with the same columns, kept as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from latentgraph.errors import InputError
from latentgraph.tables import encoding
from latentgraph.tables.dates import YEAR
from latentgraph.tables.encoding import SCALES, Encoder, Feature
from latentgraph.tables.frames import Source, as_frame
from latentgraph.tables.names import near, some
from latentgraph.tables.rules import infer
from latentgraph.tables.schema import FEATURE_KINDS, Column, Schema
from latentgraph.tables.values import Floats, Values
from latentgraph.tables.words import level_text

FORMAT = "latentgraph.tables"
VERSION = 1
FARTHEST = 1e9  # networks compute in single precision, with fourth powers of features


class Prepared(NamedTuple):
    """The matrix, a name for each row, and plain sentences about what differed from training."""

    x: Floats
    ids: list[str]
    notes: list[str]


class TablePreprocessor:
    """Learns from training rows how each column becomes features.

    Parameters
    ----------
    target : column that is never a feature
    id : column that names the rows in the output and is never a feature
    scale : of numbers: "standard" (mean 0, variance 1), "robust" (median 0, quartiles 1 apart), "quantile" (ranks; for
        heavy tails) or "none"
    rare : categories with a smaller share of the known values are put together
    kinds : your word on the kind of columns: number, category, boolean or date; such columns are kept as features
    drop : columns that are not to be used
    """

    def __init__(
        self,
        *,
        target: str | None = None,
        id: str | None = None,  # noqa: A002
        scale: str = "standard",
        rare: float = 0.01,
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
    ) -> None:
        if scale not in SCALES:
            raise InputError(f"scale={scale!r}, but it is one of {', '.join(SCALES)}.")
        if not 0 <= rare < 1:
            raise InputError(f"rare={rare}, but it is a share of the rows: at least 0, below 1.")
        roles = [name for name in (target, id, *drop) if name is not None]
        if twice := [name for name in roles if roles.count(name) > 1]:
            raise InputError(f"column {twice[0]!r} has two roles; target, id and drop must name different columns.")
        self.target, self.id, self.scale, self.rare = target, id, scale, rare
        self.kinds, self.drop = dict(kinds or {}), list(drop)
        self._schema: Schema | None = None
        self._encoders: list[Encoder] = []
        self._features: list[Feature] = []

    @property
    def schema(self) -> Schema:
        """What each column is."""
        if self._schema is None:
            raise InputError("this TablePreprocessor is not fitted; call fit(table) first.")
        return self._schema

    def fit(self, table: Source, rows: Collection[int] | Collection[bool] | None = None) -> TablePreprocessor:
        """Learn from some rows of a table, by default all: numbers or a mask of the training rows."""
        frame = as_frame(table)
        positions = _positions(rows, len(frame))
        if len(positions) < 2:
            raise InputError(f"{len(positions)} training rows; at least 2 are needed to learn from.")
        roles = dict.fromkeys(self.drop, "dropped")
        roles |= {name: role for name, role in ((self.id, "id"), (self.target, "target")) if name is not None}
        learn = frame.iloc[positions]
        schema, values = infer(learn, roles, self.kinds, self.rare, positions)
        if other := self._other_kinds(schema, frame):
            schema, values = infer(learn, roles, {**self.kinds, **other}, self.rare, positions)
        if not values:
            dropped = [f"{column.name!r} ({column.reason})" for column in schema.with_role("dropped")]
            raise InputError(f"no column is left to learn from. Dropped: {some(dropped) or 'none'}.")
        self._schema = schema
        self._set_encoders(self._fit_encoders(schema.with_role("feature"), values))
        return self

    def _other_kinds(self, schema: Schema, frame: pd.DataFrame) -> dict[str, str]:
        """Columns that are, in the whole table, not of the kind they seem to be in the training rows.

        A column of numbers with a single "don't know" is a category; whether that cell is a training row is chance.
        """
        found = {}
        for column in schema.with_role("feature"):
            try:
                column.values(frame[column.name])
            except InputError:
                if column.name not in self.kinds:
                    whole = infer(frame[[column.name]], {}, {}, self.rare, np.arange(len(frame)))[0].columns[0]
                    if whole.kind in FEATURE_KINDS:
                        found[column.name] = whole.kind
        return found

    def transform(self, table: Source) -> Floats:
        """(n, p) features of a table: no missing values, float64."""
        return self.prepare(table).x

    def prepare(self, table: Source) -> Prepared:
        """The features with the row names and with notes about what differs from training.

        A column that is missing, or has values of another kind, is an error. The order of the columns and further
        columns do not matter. Categories that were not seen in training become zeros, and are noted.
        """
        columns = self.schema.with_role("feature")
        frame = as_frame(table)
        if frame.empty:
            raise InputError("the table has no rows.")
        notes = self._compare(list(frame.columns), columns)
        x = np.empty((len(frame), len(self._features)))
        start = 0
        for column, encoder in zip(columns, self._encoders, strict=True):
            part, remarks = encoder.apply(column.values(frame[column.name]))
            if (far := np.abs(part).max(1) > FARTHEST).any():
                raise self._too_far(frame[column.name], int(far.argmax()))
            x[:, start : start + part.shape[1]] = part
            start += part.shape[1]
            notes += remarks
        return Prepared(x, self._row_names(frame), notes)

    def _too_far(self, series: pd.Series, row: int) -> InputError:
        return InputError(
            f"column {series.name!r}, row {row + 1}: {series.iloc[row]} is above {FARTHEST:.0e} in size after "
            f"scale={self.scale!r}, too far from the training rows to compute with. Correct it, leave the cell empty, "
            "or fit with scale='quantile'."
        )

    def feature_names_out(self) -> list[str]:
        """The names of the columns of the matrix."""
        return [feature.name for feature in self._features]

    def features(self) -> list[Feature]:
        """For each column of the matrix: its name, the table's column it comes from, and what it says."""
        return list(self._features)

    def explain(self, feature: str) -> str:
        """One sentence about a feature."""
        for name, column, meaning in self._features:
            if name == feature:
                return f"{name!r} comes from column {column!r}: {meaning}."
        raise InputError(f"there is no feature {feature!r}. {near(feature, self.feature_names_out())}")

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON types. `from_json` gives a preprocessor with exactly the same results."""
        options = {name: getattr(self, name) for name in ("target", "id", "scale", "rare", "kinds", "drop")}
        encoders = [encoding.encoder_to_json(encoder) for encoder in self._encoders]
        parts = {"options": options, "schema": self.schema.to_json(), "encoders": encoders}
        return {"format": FORMAT, "version": VERSION, **parts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TablePreprocessor:
        """The preprocessor that `to_json` wrote."""
        if data.get("format") != FORMAT or data.get("version") != VERSION:
            found = f"format {data.get('format')!r}, version {data.get('version')!r}"
            raise InputError(f"{found} is no saved preprocessing; {FORMAT!r}, version {VERSION} can be read.")
        try:
            preprocessor = cls(**data["options"])
            preprocessor._schema = Schema.from_json(data["schema"])
            preprocessor._set_encoders([encoding.encoder_from_json(encoder) for encoder in data["encoders"]])
        except (KeyError, TypeError) as error:
            raise InputError(f"the saved preprocessing is damaged ({error}). Fit it again.") from None
        return preprocessor

    def _fit_encoders(self, columns: list[Column], values: Mapping[str, Values]) -> list[Encoder]:
        origins = {column.name: float(np.nanmin(values[column.name])) for column in columns if column.kind == "date"}
        numbers = {
            column.name: values[column.name] - origins.get(column.name, 0.0)
            for column in columns
            if column.kind in ("number", "date")
        }
        scaled = {number.column: number for number in encoding.fit_numbers(numbers, self.scale)}
        encoders: list[Encoder] = []
        for column in columns:
            name, own = column.name, values[column.name]
            if column.kind == "number":
                encoders.append(scaled[name])
            elif column.kind == "date":
                season = bool(np.nanmax(numbers[name]) > YEAR)
                encoders.append(encoding.Date(name, origins[name], season, scaled[name]))
            elif column.kind == "boolean":
                encoders.append(encoding.fit_boolean(name, own))
            else:
                encoders.append(encoding.fit_category(name, own, self.rare))
        return encoders

    def _set_encoders(self, encoders: list[Encoder]) -> None:
        self._encoders = encoders
        taken: set[str] = set()
        self._features = []
        for feature in (feature for encoder in encoders for feature in encoder.features()):
            name, number = feature.name, 1
            while name in taken:  # a column may bear the name that another one's feature gets
                number += 1
                name = f"{feature.name} #{number}"
            taken.add(name)
            self._features.append(feature._replace(name=name))

    def _compare(self, names: list[str], columns: list[Column]) -> list[str]:
        present = set(names)
        absent = [column.name for column in columns if column.name not in present]
        if absent:
            unused = [name for name in names if name not in {column.name for column in self.schema.columns}]
            hints = {name: near(name, unused) for name in absent if unused}
            close = " ".join(f"For {name!r}: {hint}" for name, hint in hints.items() if hint.startswith("Did you"))
            shown = some([repr(name) for name in absent])
            raise InputError(f"columns of the training table are missing: {shown}. {close or 'Add them.'}")
        known = {column.name for column in self.schema.columns}
        extra = [repr(name) for name in names if name not in known]
        notes = [f"Columns that training did not have are not used: {some(extra)}."] if extra else []
        if self.id is not None and self.id not in present:
            notes.append(f"The id column {self.id!r} is missing; rows are numbered instead.")
        return notes

    def _row_names(self, frame: pd.DataFrame) -> list[str]:
        numbers = [str(row + 1) for row in range(len(frame))]
        if self.id is None or self.id not in frame.columns:
            return numbers
        ids = frame[self.id]
        return [row if pd.isna(value) else level_text(value) for row, value in zip(numbers, ids, strict=True)]


def _positions(rows: Collection[int] | Collection[bool] | None, count: int) -> Values:
    if rows is None:
        return np.arange(count)
    given = np.asarray(rows)
    if given.dtype == bool:
        if given.shape != (count,):
            raise InputError(f"a mask of shape {given.shape} for a table of {count} rows; give one value for each row.")
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= count)):
        raise InputError(f"rows must be a mask, or row numbers from 0 to {count - 1}.")
    return given.astype(np.int64)
