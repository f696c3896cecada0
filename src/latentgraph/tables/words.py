"""Words that stand for a missing value, and for true and false."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MISSING_WORDS = (
    *("", "NA", "N/A", "n.a.", "NaN", "-NaN", "NaT", "null", "(null)", "<NA>", ".", "?"),
    *("#N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"),
)
"""Read as missing in any case of letters. None is a usual answer to a question; only Python's spelling is missing."""

PYTHON_NONE = "None"

TRUE_WORDS = frozenset({"true", "yes", "t", "y"})
FALSE_WORDS = frozenset({"false", "no", "f", "n"})


def clean(
    text: pa.ChunkedArray, missing: Collection[str] | None = None, found: Counter[str] | None = None
) -> pa.ChunkedArray:
    """Without white space at the ends, and null where the text is a word for missing; `found` counts these words."""
    text = pc.utf8_trim_whitespace(text)
    words = _lower(MISSING_WORDS if missing is None else tuple(missing))
    is_word = pc.is_in(pc.utf8_lower(text), value_set=words)
    if missing is None:
        is_word = pc.or_(is_word, pc.fill_null(pc.equal(text, PYTHON_NONE), False))
    if found is not None and pc.any(is_word).as_py():
        for count in pc.value_counts(text.filter(is_word)).to_pylist():
            found[count["values"]] += count["counts"]
    return pc.if_else(is_word, pa.scalar(None, pa.large_string()), text)


@cache
def _lower(words: tuple[str, ...]) -> pa.Array:
    return pa.array({word.lower() for word in words}, pa.large_string())


_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,14})(\.\d+)?")


def level_text(value: object) -> str:
    """The name of a category. 1, 1.0 and "1.0" are the same one, whatever type a file or a frame gave them."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        value = unicodedata.normalize("NFC", value.strip())
        if not _PLAIN_NUMBER.fullmatch(value):
            return value
    number = float(value)  # type: ignore[arg-type]
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
