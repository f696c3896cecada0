"""Bytes to text: unpack gzip, choose the encoding by a fixed rule, refuse what is no text."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from latentgraph.errors import InputError

GZIP = b"\x1f\x8b"

_BYTE_ORDER_MARKS = (  # UTF-32 before UTF-16, whose mark is the beginning of the other's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_NO_TABLES = {
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"\x93NUMPY": "a numpy array",
    b"\x80\x02": "a Python pickle",
    b"\x80\x03": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
    b"BZh91AY": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
}

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")


class Text(NamedTuple):
    """The text with plain line ends, the name of the encoding, and what should be told about it."""

    text: str
    encoding: str
    notes: list[str]


def unpack(data: bytes, path: Path) -> bytes:
    """The content of a gzip file."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged gzip file ({error}). Copy or download it again.") from None


def decode(data: bytes, path: Path, encoding: str | None = None) -> Text:
    """A byte order mark decides; without one UTF-8; where that fails, Windows-1252, which is noted."""
    for start, what in _NO_TABLES.items():
        if data.startswith(start):
            raise InputError(f"{path} is {what}, not a text table. Save the table as CSV (UTF-8) or parquet.")
    notes: list[str] = []
    mark = next((name for start, name in _BYTE_ORDER_MARKS if data.startswith(start)), None)
    if encoding is None and mark is None:
        _refuse_binary(data, path)
        encoding = "utf-8"
        if (broken := _first_error(data, encoding)) is not None:
            where = f"line {_line(data, broken)}: the byte 0x{data[broken]:02x} is no UTF-8"
            encoding = "cp1252"
            if (unknown := _first_error(data, encoding)) is not None:
                raise InputError(
                    f"{path}, {where}, and line {_line(data, unknown)}: the byte 0x{data[unknown]:02x} is not in "
                    "Windows-1252 either. Save the table as UTF-8, or name the encoding: encoding='...'."
                )
            notes.append(f"{where}, so the file was read as Windows-1252; look at letters with accents.")
    encoding = encoding or mark or "utf-8"
    try:
        text = data.decode(encoding)
    except LookupError:
        raise InputError(f"there is no encoding {encoding!r}; there are utf-8, utf-16, cp1252, latin-1, ...") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {_line(data, error.start)}: not valid {encoding} ({error.reason}). "
            "Save the table as UTF-8, or name another encoding: encoding='...'."
        ) from None
    text = text.removeprefix("\ufeff").rstrip("\x1a").replace("\r\n", "\n").replace("\r", "\n")
    if "\x00" in text:
        raise InputError(f"{path}, line {text[: text.index(chr(0))].count(chr(10)) + 1}: a zero byte; this is no text.")
    if not text.strip():
        raise InputError(f"{path} is empty. A table has a line of column names and a line for each row.")
    if text.lstrip().startswith(("<!", "<html", "<?xml", "<table", "<HTML")):
        raise InputError(f"{path} is HTML or XML, not a text table. Save the table as CSV (UTF-8).")
    return Text(text, encoding, notes)


def _refuse_binary(data: bytes, path: Path) -> None:
    match = _CONTROL.search(data)
    if match is None:
        return
    odd, even = data[1::2].count(0), data[::2].count(0)
    if max(odd, even) > 0.3 * len(data) / 2 > 10 * min(odd, even):
        guess = "utf-16-le" if odd > even else "utf-16-be"
        raise InputError(f"{path} looks like UTF-16 without a byte order mark. Say so: encoding={guess!r}.")
    raise InputError(
        f"{path} is no text: the byte 0x{match[0][0]:02x} in line {_line(data, match.start())}. "
        "Save the table as CSV (UTF-8) or parquet."
    )


def _first_error(data: bytes, encoding: str) -> int | None:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return None


def _line(data: bytes, position: int) -> int:
    before = data[:position]
    return before.count(b"\n") + 1 if b"\n" in data else before.count(b"\r") + 1
