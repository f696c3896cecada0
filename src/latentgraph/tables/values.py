"""A column as values of a known kind, or an error that names the column, the row and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from latentgraph.errors import InputError
from latentgraph.tables import dates
from latentgraph.tables.frames import arrow_text
from latentgraph.tables.numbers import matches, to_numbers
from latentgraph.tables.words import FALSE_WORDS, TRUE_WORDS, level_text

Floats = np.ndarray[Any, np.dtype[np.float64]]
Levels = np.ndarray[Any, np.dtype[np.object_]]
Values = np.ndarray[Any, Any]

LARGEST = 1e100  # squares and sums stay finite


def is_text(series: pd.Series) -> bool:
    return isinstance(series.dtype, pd.StringDtype)


def numbers_of(series: pd.Series) -> Floats:
    """Numbers; NaN for missing. Infinite numbers are an error."""
    if is_text(series):
        text = arrow_text(series)
        for decimal in (".", ","):
            fits = matches(text, decimal).to_pandas().fillna(True).to_numpy(bool)
            if fits.all():
                values = to_numbers(text, decimal).to_pandas().to_numpy("float64")
                break
        else:
            raise _wrong(series, ~matches(text, ".").to_pandas().fillna(True).to_numpy(bool), "a number")
    elif pd.api.types.is_numeric_dtype(series.dtype):
        values = series.to_numpy("float64", na_value=np.nan)
    else:
        raise _wrong(series, series.notna().to_numpy(), "a number")
    if (large := np.abs(values) > LARGEST).any():
        raise _wrong(series, large, f"a finite number below {LARGEST:.0e} in size")
    return values


def booleans_of(series: pd.Series) -> Floats:
    """1 for true and 0 for false, from words or numbers; NaN for missing."""
    if is_text(series):
        words = series.str.lower()
        values = np.where(words.isin(TRUE_WORDS), 1.0, np.where(words.isin(FALSE_WORDS), 0.0, np.nan))
    elif pd.api.types.is_numeric_dtype(series.dtype):
        values = series.to_numpy("float64", na_value=np.nan, copy=True)
        values[(values != 0) & (values != 1)] = np.nan
    else:
        values = np.full(len(series), np.nan)
    bad = np.isnan(values) & series.notna().to_numpy()
    if bad.any():
        raise _wrong(series, bad, "true or false, yes or no, t or f, y or n, 1 or 0")
    return values


def dates_of(series: pd.Series, form: str | None) -> Floats:
    """Days since 1970-01-01; NaN for missing."""
    if pd.api.types.is_datetime64_dtype(series.dtype):
        return dates.days(series)
    known = series.notna().to_numpy()
    if not is_text(series):
        if known.any():
            raise _wrong(series, known, "a date")
        return np.full(len(series), np.nan)
    parsed = dates.parse(series, form or dates.ISO)
    bad = known & parsed.isna().to_numpy()
    if bad.any():
        raise _wrong(series, bad, f"a date of the form {form or dates.ISO}")
    return dates.days(parsed)


def levels_of(series: pd.Series) -> Levels:
    """Names of categories; None for missing."""
    codes, unique = pd.factorize(series.astype(object))
    names = np.array([*map(level_text, unique), None], dtype=object)
    return names[codes]  # missing has the code -1


def _wrong(series: pd.Series, bad: np.ndarray[Any, np.dtype[np.bool_]], expected: str) -> InputError:
    row = int(bad.argmax())
    more = f" ({bad.sum()} such values)" if bad.sum() > 1 else ""
    return InputError(
        f"column {series.name!r}, row {row + 1}: {_shown(series.iloc[row])} is not {expected}{more}. "
        "Correct it, or leave the cell empty if the value is not known."
    )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
