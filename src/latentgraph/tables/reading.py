"""A file to a data frame, and a record of what was assumed on the way."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from latentgraph.errors import InputError
from latentgraph.tables.decoding import GZIP, decode, unpack
from latentgraph.tables.delimited import parse
from latentgraph.tables.frames import READING, as_frame, tidy_text
from latentgraph.tables.names import near, some, tidy_names


@dataclass
class Reading:
    """How a file was read: everything that was assumed and not said by the caller.

    Attributes
    ----------
    path : the file
    format : "text", "parquet" or "feather"
    encoding : of a text file
    delimiter : of a text file
    decimal : "," if any column of numbers has a decimal comma, else "."
    notes : plain sentences about what was left out, renamed or assumed
    """

    path: str
    format: str
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    notes: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """The record in words."""
        if self.format != "text":
            return [f"Read {self.path} as {self.format}.", *self.notes]
        how = f"encoding {self.encoding}, delimiter {self.delimiter!r}, decimal mark {self.decimal!r}"
        return [f"Read {self.path} as text: {how}.", *self.notes]


def read_table(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    missing: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read a table of rows with a line of column names: text with delimiters, parquet or feather, also in gzip.

    The content decides the format, not the name of the file. `reading_of` tells what was assumed.

    Parameters
    ----------
    path : the file
    encoding : default: the byte order mark decides, else UTF-8, else Windows-1252 with a note
    delimiter : default: found among comma, semicolon, tab and bar
    decimal : "." or ",", for columns that fit both notations; default: the other columns decide, or it is an error
    missing : words of a text file that are read as missing, in any case; default: the usual ones, such as NA, n/a, ?

    Returns
    -------
    columns of int64, float64, or text with NaN for missing; of parquet and feather also boolean, datetime64, category
    """
    file = Path(path)
    data = _bytes(file)
    if data.startswith(b"PAR1"):
        return _arrow(data, file, "parquet")
    if data.startswith(b"ARROW1"):
        return _arrow(data, file, "feather")
    text, encoding, notes = decode(data, file, encoding)
    cells = parse(text, file, delimiter)
    columns = dict(zip(cells.names, cells.columns, strict=True))
    frame, found, marks = tidy_text(columns, str(file), cells.delimiter, decimal, missing)
    words = [f"{word!r} ({count} cells)" for word, count in found.most_common() if word]
    if words:
        notes.append(f"Read as missing: {some(words)}.")
    comma = [repr(name) for name, mark in marks.items() if mark == ","]
    if comma:
        notes.append(f"{len(comma)} of {len(marks)} columns of numbers have a decimal comma: {some(comma)}.")
    reading = Reading(str(file), "text", encoding, cells.delimiter, "," if comma else ".", [*notes, *cells.notes])
    frame.attrs[READING] = json.dumps(asdict(reading))
    return frame


def reading_of(frame: pd.DataFrame) -> Reading | None:
    """How the file of this frame was read; None if it did not come from `read_table`."""
    record = frame.attrs.get(READING)
    return None if record is None else Reading(**json.loads(record))


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"{path} does not exist. {near(path.name, beside) if beside else 'Look at the folder.'}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not data:
        raise InputError(f"{path} is empty. A table has a line of column names and a line for each row.")
    return unpack(data, path) if data.startswith(GZIP) else data


def _arrow(data: bytes, path: Path, kind: str) -> pd.DataFrame:
    buffer = pa.BufferReader(data)
    try:
        table = pa.parquet.ParquetFile(buffer).read() if kind == "parquet" else pa.ipc.open_file(buffer).read_all()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is a damaged {kind} file ({str(error).splitlines()[0]}). Write it again.") from None
    tidy_names(table.column_names, str(path))  # here the message can name the file
    if table.num_rows == 0:
        raise InputError(f"{path} has column names but no rows.")
    frame = as_frame(table)
    frame.attrs[READING] = json.dumps(asdict(Reading(str(path), kind)))
    return frame
