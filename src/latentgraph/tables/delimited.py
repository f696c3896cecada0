"""Text with delimiters to columns of text. Every row must have the cells that the header promises."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from latentgraph.errors import InputError
from latentgraph.tables.names import numbered, tidy_names

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 200  # records that are looked at to find the delimiter
CELLS_AT_ONCE = 1_000_000  # cells that are Python strings at the same time; columns are far smaller

_SEP_LINE = re.compile(r'"?sep=(.)"?[,;\t|]*\n', re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE)


class Cells(NamedTuple):
    """Names and columns of text, the delimiter, and what should be told."""

    names: list[str]
    columns: list[pa.ChunkedArray]
    delimiter: str
    notes: list[str]


def parse(text: str, path: Path, delimiter: str | None = None) -> Cells:
    """Split a text into columns; quotes may protect delimiters and line breaks."""
    skipped = 0
    if match := _SEP_LINE.match(text):  # Excel's own way to name the delimiter
        delimiter = delimiter or match[1]
        text, skipped = text[match.end() :], 1
    if delimiter is None:
        delimiter = find_delimiter(text)
    elif len(delimiter) != 1 or delimiter in '"\r\n':
        raise InputError(f"delimiter={delimiter!r}, but a delimiter is one character such as ',' or ';'.")
    records = _records(text, delimiter, path, skipped)
    line, header = next((line, row) for line, row in records if row)
    names, narrow = _header(header, path, line)
    columns, notes = _columns(records, len(names), narrow, delimiter, path, line)
    return _without_unnamed(Cells(names, columns, delimiter, notes), path)


def find_delimiter(text: str) -> str:
    """The delimiter under which most rows fit the header; among equals, the one that gives most columns.

    A delimiter counts only if it splits the header and half of the rows fit; the rows that do not are reported later.
    The text is one column if no delimiter counts.
    """
    samples = {delimiter: rows for delimiter in DELIMITERS if (rows := _sample(text, delimiter))}
    scores = {delimiter: (_share_that_fits(rows), len(rows[0])) for delimiter, rows in samples.items()}
    possible = [delimiter for delimiter, (share, columns) in scores.items() if columns > 1 and share >= 0.5]
    if possible:
        return max(possible, key=scores.__getitem__)
    header = text.lstrip("\n").split("\n", 1)[0]
    if any(delimiter in header for delimiter in DELIMITERS):  # broken quotes, or few rows fit: reported later
        return max(DELIMITERS, key=header.count)
    return max(scores, key=scores.__getitem__, default=",")  # one column; 3,14 must not be split


def _sample(text: str, delimiter: str) -> list[list[str]] | None:
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, strict=True)
    try:
        return list(islice((row for row in reader if any(row)), SAMPLE))
    except csv.Error:
        return None


def _share_that_fits(rows: list[list[str]]) -> float:
    header, *others = rows
    fit = [len(row) >= _filled(header) and _filled(row) <= len(header) for row in others]
    return sum(fit) / len(fit) if fit else 1.0


def _filled(row: list[str]) -> int:
    """The number of cells without the empty ones at the end, at least one."""
    width = len(row)
    while width > 1 and not row[width - 1].strip():
        width -= 1
    return width


def _records(text: str, delimiter: str, path: Path, skipped: int) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it starts in."""
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1 + skipped
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}, line {line}: a quoted cell that starts here is not closed properly, or too long ({error}). "
                'Close it, write "" for a quote inside a quoted cell, or name the right delimiter: delimiter=...'
            ) from None


def _header(header: list[str], path: Path, line: int) -> tuple[list[str], int]:
    """The column names, and the number of cells that every row must have at least."""
    cells = [cell.strip() for cell in header]
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        consecutive = len(cells) > 1 and all(cell.isdigit() for cell in cells)
        if not consecutive or [int(cell) for cell in cells] != [int(cells[0]) + i for i in range(len(cells))]:
            shown = ", ".join(cells[:5])
            raise InputError(f"{path}, line {line}: the first line must name the columns, but it holds {shown}.")
    return tidy_names(header, str(path)), _filled(header)


def _columns(
    records: Iterator[tuple[int, list[str]]], wide: int, narrow: int, delimiter: str, path: Path, header_line: int
) -> tuple[list[pa.ChunkedArray], list[str]]:
    chunks: list[list[pa.Array]] = [[] for _ in range(wide)]
    rows: list[list[str]] = []
    waiting: list[list[str]] = []  # rows without any value: kept only if another row follows
    notes: list[str] = []
    blank = 0
    for line, row in records:
        if len(row) < 2 and wide > 1 and not "".join(row).strip():
            blank += 1
            continue
        row = row or [""]  # in a table of one column, an empty line is a missing value
        if len(row) != wide:
            if len(row) < narrow or _filled(row) > wide:
                raise _ragged(row, line, wide, delimiter, path, header_line)
            row = (row + [""] * (wide - len(row)))[:wide]
        if not any(row):
            waiting.append(row)
            continue
        rows += waiting
        waiting = []
        rows.append(row)
        if len(rows) * wide > CELLS_AT_ONCE:
            _store(rows, chunks)
            rows = []
    _store(rows, chunks)
    if not chunks[0]:
        raise InputError(f"{path} has column names but no rows.")
    if blank:
        notes.append(f"{blank} blank lines were left out.")
    if waiting and wide > 1:
        notes.append(f"{len(waiting)} rows without any value at the end were left out.")
    return [pa.chunked_array(column, type=pa.large_string()) for column in chunks], notes


def _store(rows: list[list[str]], chunks: list[list[pa.Array]]) -> None:
    for chunk, cells in zip(chunks, zip(*rows, strict=True), strict=False):
        chunk.append(pa.array(cells, type=pa.large_string()))


def _ragged(row: list[str], line: int, wide: int, delimiter: str, path: Path, header_line: int) -> InputError:
    hint = "Complete or correct that line."
    if delimiter == "," and len(row) > wide:
        hint += " If it has numbers with a decimal comma, separate the cells with ';' or quote the numbers."
    return InputError(
        f"{path}, line {line}: {len(row)} cells, but {wide} column names in line {header_line} (delimiter "
        f"{delimiter!r}). The line starts with {delimiter.join(row)[:40]!r}. {hint}"
    )


def _without_unnamed(cells: Cells, path: Path) -> Cells:
    """Columns without a name and without a value come from delimiters at the end of lines."""
    keep, notes = [], list(cells.notes)
    for i, (name, column) in enumerate(zip(cells.names, cells.columns, strict=True)):
        if name != numbered(i):
            keep.append(i)
        elif any(cell.as_py().strip() for cell in column):
            keep.append(i)
            notes.append(f"The column at position {i + 1} has no name and is called {name!r}.")
    if not keep:
        raise InputError(f"{path} has no column with a name or a value.")
    return Cells([cells.names[i] for i in keep], [cells.columns[i] for i in keep], cells.delimiter, notes)
