"""The rules by which a column gets its kind. They see the training rows alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import blake2b

import numpy as np
import pandas as pd

from latentgraph.errors import InputError
from latentgraph.tables import dates
from latentgraph.tables.frames import arrow_text
from latentgraph.tables.names import near, some
from latentgraph.tables.numbers import matches, notations
from latentgraph.tables.schema import FEATURE_KINDS, Column, Schema
from latentgraph.tables.values import Values, is_text, levels_of
from latentgraph.tables.words import FALSE_WORDS, TRUE_WORDS

MANY_LEVELS = 50
MANY_LEVELS_SHARE = 0.2
ENOUGH_ROWS = 10  # from here on "all different" and "counts the rows" are no accident

_ID_WORDS = frozenset(
    ("id", "ids", "rid", "pid", "sid", "uid", "uuid", "guid", "mrn", "seqn", "ptid", "index", "key", "nr")
)
_ID_NAMES = ("subject", "patient", "participant", "person", "case", "record", "sample", "row", "number")
_ID_ENDING = re.compile(rf"({'|'.join(_ID_NAMES)})s?(id|nr|no)$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def infer(
    frame: pd.DataFrame,
    roles: Mapping[str, str],
    kinds: Mapping[str, str],
    rare: float,
    positions: Values,
) -> tuple[Schema, dict[str, Values]]:
    """Judge the columns of a tidy frame of training rows.

    Parameters
    ----------
    frame : the training rows
    roles : columns that are no features: target, id or dropped
    kinds : the caller's word on the kind of columns: number, category, boolean or date
    rare : share of the rows below which a category is rare
    positions : the places of the rows in the whole table; a column that counts them is no feature

    Returns
    -------
    the schema, and the values of the feature columns
    """
    _check(frame.columns, [*roles, *kinds], kinds)
    columns = []
    values: dict[str, Values] = {}
    seen: dict[bytes, str] = {}
    for name in frame.columns:
        if name in roles:
            columns.append(_no_feature(frame[name], roles[name]))
            continue
        column, found = _judge(frame[name], kinds.get(name), rare, positions)
        columns.append(column)
        if column.role == "feature":
            first = seen.setdefault(_digest(column.kind, found), name)
            if first == name:
                values[name] = found
            else:
                column.drop("duplicate", f"it repeats column {first!r}")
                column.same_as = first
    return Schema(len(frame), columns), values


def natural_kind(series: pd.Series) -> tuple[str, str | None]:
    """The kind that the values themselves suggest, and the form of dates that are text."""
    if is_text(series):
        words = set(series.dropna().str.lower().unique())
        if words <= TRUE_WORDS | FALSE_WORDS and words & TRUE_WORDS and words & FALSE_WORDS:
            return "boolean", None
        if notations(arrow_text(series)):
            return "number", None
        form = dates.date_format(series)
        return ("category", None) if form in (None, dates.AMBIGUOUS) else ("date", form)
    if pd.api.types.is_bool_dtype(series.dtype):
        return "boolean", None
    if pd.api.types.is_datetime64_dtype(series.dtype):
        return "date", None
    return "number" if pd.api.types.is_numeric_dtype(series.dtype) else "category", None


def named_like_id(name: str) -> bool:
    """patient_id, PatientID, RID, subject, ... : the last word says so, or the name is that of a person or a row."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    alone = len(words) == 1 and words[0] in _ID_NAMES
    return alone or words[-1] in _ID_WORDS or _ID_ENDING.search(name.lower()) is not None


def _check(names: Collection[str], wanted: Collection[str], kinds: Mapping[str, str]) -> None:
    for name in wanted:
        if name not in names:
            raise InputError(f"there is no column {name!r}. {near(name, names)}")
    if wrong := [f"{name}: {kind}" for name, kind in kinds.items() if kind not in FEATURE_KINDS]:
        raise InputError(f"kinds has {some(wrong)}, but a kind is one of {', '.join(FEATURE_KINDS)}.")


def _no_feature(series: pd.Series, role: str) -> Column:
    known = int(series.notna().sum())
    kind = "empty" if not known else "id" if role == "id" else natural_kind(series)[0]
    column = Column(series.name, kind, role, missing=1 - known / len(series), distinct=int(series.nunique()))
    if role == "dropped":
        column.reason = "it was named to be dropped"
    if role == "id" and column.distinct < known:
        column.note = "is the id and has repeated values; keep the rows of one id in one part of a split"
    return column


def _judge(series: pd.Series, forced: str | None, rare: float, positions: Values) -> tuple[Column, Values]:
    known = series.notna().to_numpy()
    column = Column(series.name, "empty", missing=float(1 - known.mean()))
    if not known.any():
        column.drop("empty", "it has no value")
        return column, known
    column.kind, column.date_format = _forced_kind(series, forced) if forced else natural_kind(series)
    values = column.values(series)
    column.distinct = len(pd.unique(values[known]))
    if column.distinct == 1 and known.all():
        column.drop("constant", f"all its values are {str(series.iloc[0])[:40]!r}")
    elif column.distinct == 1 and column.kind != "category":
        column.kind, values = "category", levels_of(series)  # there or not there is all that it can say
    if forced is None and column.kind == "number":
        _look_for_id(column, values, positions)
    if forced is None and column.kind == "category":
        _look_at_levels(column, values[known], rare)
        _look_at_text(column, series)
    return column, values


def _forced_kind(series: pd.Series, kind: str) -> tuple[str, str | None]:
    if kind != "date" or not is_text(series):
        return kind, None
    form = dates.date_format(series)
    if form in (None, dates.AMBIGUOUS):
        raise InputError(f"column {series.name!r} is to be a date, but its text can not be read as dates in one way.")
    return kind, form


def _look_for_id(column: Column, values: Values, positions: Values) -> None:
    if column.missing or (values != np.floor(values)).any():
        return
    all_different, enough = column.distinct == len(values), len(values) >= ENOUGH_ROWS
    if named_like_id(column.name):
        if all_different:
            column.drop("id", "probably an id: whole numbers, all different, under the name of an id")
        else:
            column.note = "is named like an id but repeats its values; it is used as a number"
    elif enough and np.ptp(values - positions) == 0:
        column.drop("id", "probably an id: it counts the rows")
    elif enough and (np.diff(values) > 0).all():
        column.note = "grows from row to row; if it is an id, drop it"


def _look_at_levels(column: Column, known: Values, rare: float) -> None:
    if column.distinct == len(known) and (len(known) >= ENOUGH_ROWS or named_like_id(column.name)):
        column.drop("id", "probably an id: text that is different in every row")
    elif column.distinct > max(MANY_LEVELS, MANY_LEVELS_SHARE * len(known)):
        column.drop("text", f"text with {column.distinct} different values")
    elif pd.Series(known).value_counts().iloc[0] < rare * len(known):
        column.drop("text", f"text with {column.distinct} different values, all of them rare")


def _look_at_text(column: Column, series: pd.Series) -> None:
    """Say if text is text only because of a few values, or because its dates cannot be read in one way."""
    if not is_text(series):
        return
    text = series.dropna()
    is_number = matches(arrow_text(text), ".").to_pandas().to_numpy(bool)
    if 0.5 <= is_number.mean() < 1:
        example = text[~is_number].iloc[0]
        column.note = f"has numbers, but also {example!r} ({(~is_number).sum()} such values); it is read as text"
    elif dates.date_format(text) == dates.AMBIGUOUS:
        column.note = f"has dates such as {text.iloc[0]} whose day and month cannot be told apart; write 2020-12-31"


def _digest(kind: str, values: Values) -> bytes:
    data = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
    return blake2b(data, key=kind.encode()).digest()
