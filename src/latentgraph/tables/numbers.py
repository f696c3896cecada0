"""Text to numbers: decimal point or comma, separators of thousands, and codes that only look like numbers.

A column is numeric when every value is. Two notations are known:

    point:  1234.5   1,234.5   1 234.5   1'234.5   1.2e-3
    comma:  1234,5   1.234,5   1 234,5   1'234,5   1,2e-3

A value such as 1,234 fits both. The other columns of the table decide then, or the caller; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from latentgraph.errors import InputError

_WHOLE = r"(?:\d+|[1-9]\d{0,2}(?:THOUSANDS\d{3})+)"
_VALUE = rf"(?i)^[+-]?(?:(?:{_WHOLE}(?:DECIMAL\d*)?|DECIMAL\d+)(?:e[+-]?\d+)?|inf(?:inity)?)$"
_NOTATION = {
    ".": _VALUE.replace("DECIMAL", r"\.").replace("THOUSANDS", ","),
    ",": _VALUE.replace("DECIMAL", ",").replace("THOUSANDS", r"\."),
}
_BLANK = "[ \u00a0\u202f'\u2019]"  # spaces and apostrophes between thousands
_UNUSUAL = "[ \u00a0\u202f'\u2019\u2212]"
_BLANK_GROUPS = rf"^[+-]?[1-9]\d{{0,2}}(?:{_BLANK}\d{{3}})+(?:[.,]\d+)?$"
_START = re.compile(r"[-+\u2212.,\di]", re.IGNORECASE)
_CODE = r"^0\d+$|^[+-]?\d{16,}$"  # 007, or more digits than a float64 keeps: a code, whose digits must not change


def notations(text: pa.ChunkedArray) -> str:
    """The decimal marks under which every value is a number: "", ".", "," or ".,"."""
    values = text.drop_null()
    if len(values) == 0 or not _START.match(values[0].as_py()) or _any(values, _CODE):
        return ""
    plain = _cast(values, pa.float64()) is not None  # the usual case, and far faster than a pattern
    values = values if plain else _joined(values)
    return ("." if plain or _all(values, _NOTATION["."]) else "") + ("," if _all(values, _NOTATION[","]) else "")


def decimal_marks(
    columns: Mapping[str, pa.ChunkedArray], where: str, delimiter: str | None = None, decimal: str | None = None
) -> dict[str, str]:
    """The decimal mark of each numeric column; `decimal` is the caller's word where a column alone does not tell."""
    if decimal not in (None, ".", ","):
        raise InputError(f"decimal={decimal!r}, but it is '.' or ','.")
    fitting = {name: marks for name, text in columns.items() if (marks := notations(text))}
    clear = set(fitting.values()) & {".", ","}
    result: dict[str, str] = {}
    for name, marks in fitting.items():
        if len(marks) == 1:
            result[name] = marks
            continue
        comma, point = _has(columns[name], ","), _has(columns[name], ".")
        if not comma and not point:
            result[name] = "."  # whole numbers are the same in both notations
        elif decimal is not None:
            result[name] = decimal
        elif comma and not point and clear == {","}:
            result[name] = ","
        elif comma and not point and delimiter == "," and "," not in clear:
            result[name] = "."  # a quoted 1,234 between commas has thousands
        elif point and not comma and "," not in clear:
            result[name] = "."
        else:
            example = columns[name].filter(pc.match_substring_regex(columns[name], "[.,]"))[0].as_py()
            raise InputError(
                f"{where}, column {name!r}: {example} may have a decimal mark or a separator of thousands, and the "
                "other columns do not tell. Say decimal='.' or decimal=','."
            )
    return result


def to_numbers(text: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """int64 if all values are whole and none is missing, else float64. The text must be in the notation."""
    numbers = _cast(text, pa.float64()) if decimal == "." else None
    if numbers is None:
        text = pc.replace_substring(_joined(text), "." if decimal == "," else ",", "")
        text = pc.replace_substring(text, ",", ".")
        numbers = pc.cast(text, pa.float64())
    whole = _cast(text, pa.int64()) if numbers.null_count == 0 else None
    return numbers if whole is None else whole


def matches(text: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """For each value, whether it is a number in this notation; null where it is missing."""
    return pc.match_substring_regex(_joined(text), _NOTATION[decimal])


def _joined(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """The typographic minus as a hyphen; 1 234 and 1'234 as 1234 if the groups are those of thousands."""
    if not _any(text, _UNUSUAL):
        return text
    text = pc.replace_substring(text, "\u2212", "-")
    return pc.if_else(pc.match_substring_regex(text, _BLANK_GROUPS), pc.replace_substring_regex(text, _BLANK, ""), text)


def _any(text: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, pattern)).as_py())


def _all(text: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


def _has(text: pa.ChunkedArray, part: str) -> bool:
    return bool(pc.any(pc.match_substring(text, part)).as_py())


def _cast(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None
