"""Dates: the forms that can be read in one way only, and days as numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

ISO = "ISO8601"
AMBIGUOUS = "ambiguous"
YEAR = 365.2425  # days

_TIME = r"([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
_FORMS = (
    (rf"\d{{4}}-\d\d-\d\d{_TIME}", (ISO,)),
    (r"\d{4}/\d\d?/\d\d?", ("%Y/%m/%d",)),
    (r"\d\d?\.\d\d?\.\d{4}", ("%d.%m.%Y",)),
    (r"\d\d?\.\d\d?\.\d{4} \d\d?:\d\d", ("%d.%m.%Y %H:%M",)),
    (r"\d\d?\.\d\d?\.\d{4} \d\d?:\d\d:\d\d", ("%d.%m.%Y %H:%M:%S",)),
    (r"\d\d?-[A-Za-z]{3}-\d{4}", ("%d-%b-%Y",)),
    (r"\d\d?[A-Za-z]{3}\d{4}", ("%d%b%Y",)),
    (r"\d\d? [A-Za-z]{3} \d{4}", ("%d %b %Y",)),
    (r"\d\d?/\d\d?/\d{4}", ("%d/%m/%Y", "%m/%d/%Y")),
)


def date_format(text: pd.Series) -> str | None:
    """The form of a column of text in which all values are dates; None if there is none.

    Dates with slashes are read only if a day above 12 tells the day from the month; otherwise they are `AMBIGUOUS`.
    """
    values = pd.Series(text.dropna().unique(), dtype="str")
    if values.empty:
        return None
    for pattern, formats in _FORMS:
        if re.fullmatch(pattern, values.iloc[0]) and values.str.fullmatch(pattern).all():
            fitting = [form for form in formats if parse(values, form).notna().all()]
            return AMBIGUOUS if len(fitting) > 1 else next(iter(fitting), None)
    return None


def parse(text: pd.Series, form: str) -> pd.Series:
    """Dates, NaT where a value does not have the form. Times with a zone become times in UTC."""
    return pd.to_datetime(text, format=form, errors="coerce", utc=True).dt.tz_localize(None)


def days(dates: pd.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Days since 1970-01-01, with fractions; NaN for missing."""
    return ((dates - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)).to_numpy("float64")


def iso(day: float) -> str:
    """The date of a day number."""
    return (pd.Timestamp("1970-01-01") + pd.Timedelta(days=day)).date().isoformat()
