"""Any table in memory to a data frame whose columns are int64, float64, boolean, datetime64, text or category."""

from __future__ import annotations

import datetime
import numbers as abstract
from collections import Counter
from collections.abc import Collection, Mapping
from decimal import Decimal
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from latentgraph.errors import InputError
from latentgraph.tables.names import tidy_names
from latentgraph.tables.numbers import decimal_marks, to_numbers
from latentgraph.tables.words import clean, level_text

READING = "latentgraph.reading"
"""Under this name `attrs` of a frame tells, as JSON, how its file was read. Text of such a frame is clean already."""

_READY = (np.dtype("int64"), np.dtype("float64"))

Source = Any  # a path or one of the objects that `as_frame` lists


def as_frame(table: Source) -> pd.DataFrame:
    """A data frame with tidy columns from a path, pandas, polars, pyarrow, AnnData, numpy, or a dict of columns.

    Of AnnData, the columns of `obs` and then those of `X` are taken. Columns of a numpy array are named x0, x1, ...
    Row labels of pandas are kept as they are and are not a column.
    """
    if isinstance(table, str | PathLike):
        from latentgraph.tables.reading import read_table

        return read_table(table)
    frame = _to_pandas(table)
    if isinstance(frame.columns, pd.MultiIndex):
        raise InputError("the data frame has several levels of column names; one level is needed.")
    names = tidy_names(frame.columns, "the data frame")
    if not names:
        raise InputError("the table has no columns.")
    frame = frame.set_axis(names, axis=1)
    if READING in frame.attrs and all(dtype in _READY or isinstance(dtype, pd.StringDtype) for dtype in frame.dtypes):
        return frame  # it is tidy, and there may be 10,000 columns
    columns = {name: _physical(frame[name]) for name in names}
    if READING not in frame.attrs:
        text = {
            name: arrow_text(column) for name, column in columns.items() if isinstance(column.dtype, pd.StringDtype)
        }
        columns |= {name: column.set_axis(frame.index) for name, column in tidy_text(text, "the data frame")[0].items()}
    result = pd.DataFrame(columns, index=frame.index)
    result.attrs = dict(frame.attrs)
    return result


def tidy_text(
    columns: Mapping[str, pa.ChunkedArray],
    where: str,
    delimiter: str | None = None,
    decimal: str | None = None,
    missing: Collection[str] | None = None,
) -> tuple[pd.DataFrame, Counter[str], dict[str, str]]:
    """Columns of text to a frame of numbers and text; the words read as missing; the decimal mark of the numbers."""
    found: Counter[str] = Counter()
    text = {name: clean(_in_one(column), missing, found) for name, column in columns.items()}
    marks = decimal_marks(text, where, delimiter, decimal)
    tidy = {name: to_numbers(column, marks[name]) if name in marks else column for name, column in text.items()}
    # All columns at once: far faster than one by one.
    frame = pa.table(tidy).to_pandas(types_mapper={pa.large_string(): pd.StringDtype(na_value=np.nan)}.get)
    return frame, found, marks


def arrow_text(series: pd.Series) -> pa.ChunkedArray:
    """A column of text as pyarrow has it."""
    array = pa.array(series, type=pa.large_string(), from_pandas=True)
    return _in_one(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))


def _in_one(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in one chunk: every step on it costs a little for each chunk."""
    return column if column.num_chunks == 1 else pa.chunked_array([column.combine_chunks()])


def _to_pandas(table: Source) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    if type(table).__module__.startswith("polars"):  # named, not imported: polars is optional
        table = (table.collect() if hasattr(table, "collect") else table).to_arrow()
    if isinstance(table, pa.Table):
        table = table.rename_columns(tidy_names(table.column_names, "the table"))
        return table.to_pandas(ignore_metadata=True)  # what pandas wrote as row labels is a column
    if all(hasattr(table, name) for name in ("obs", "X", "var_names")):
        if table.X is None:
            return table.obs
        x = table.X.toarray() if hasattr(table.X, "toarray") else np.asarray(table.X)
        return pd.concat([table.obs, pd.DataFrame(x, index=table.obs.index, columns=list(table.var_names))], axis=1)
    if isinstance(table, np.ndarray):
        if table.dtype.names is None and table.ndim != 2:
            raise InputError(f"an array of shape {table.shape}; a table is an (n, d) array, one row for each sample.")
        return pd.DataFrame(table, columns=table.dtype.names or [f"x{i}" for i in range(table.shape[1])])
    if isinstance(table, Mapping):
        try:
            return pd.DataFrame(dict(table))
        except ValueError as error:
            raise InputError(f"the columns do not make a table: {error}.") from None
    raise InputError(
        f"a table of type {type(table).__name__}; allowed are a path, a data frame of pandas or polars, a "
        "pyarrow.Table, an AnnData object, an (n, d) numpy array, and a dict of columns."
    )


def _physical(series: pd.Series) -> pd.Series:
    """The column in one of the types of a tidy frame."""
    dtype, types = series.dtype, pd.api.types
    if dtype in _READY:
        return series
    if isinstance(dtype, pd.CategoricalDtype):
        return series.astype(object).map(level_text, na_action="ignore").astype("category")
    if isinstance(dtype, pd.PeriodDtype):
        series = series.dt.to_timestamp()
    if types.is_bool_dtype(dtype) and not types.is_object_dtype(dtype):
        return series.astype("boolean")
    if types.is_complex_dtype(dtype):
        raise InputError(f"column {series.name!r} holds complex numbers; give two columns of real numbers.")
    if types.is_numeric_dtype(dtype):
        whole = types.is_integer_dtype(dtype) and not series.isna().any() and series.max() < 2**63
        return series.astype("int64" if whole and len(series) else "float64")
    if types.is_timedelta64_dtype(dtype):
        return series / pd.Timedelta(days=1)
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        return series.dt.tz_convert("UTC").dt.tz_localize(None)
    if types.is_datetime64_dtype(series.dtype):
        return series
    return _objects(series) if types.is_object_dtype(dtype) else series.astype("str")


def _objects(series: pd.Series) -> pd.Series:
    """Python objects to one type: all of a kind as that kind, a mixture of simple values as text."""
    values = series[series.notna().to_numpy()]
    for value, row in zip(values, np.flatnonzero(series.notna()), strict=True):
        if not isinstance(value, str | abstract.Real | Decimal | datetime.date | np.bool_):
            raise InputError(
                f"column {series.name!r}, row {row + 1}: a value of type {type(value).__name__}; allowed are numbers, "
                "text, dates, true and false. Make columns of its parts, or remove the column."
            )
    if all(isinstance(value, bool | np.bool_) for value in values):
        return series.astype("boolean" if len(values) else "float64")
    if all(isinstance(value, abstract.Real | Decimal) for value in values):
        return series.astype("float64")
    if all(isinstance(value, datetime.date) for value in values):
        return pd.to_datetime(series, utc=True).dt.tz_localize(None)
    return series.map(level_text, na_action="ignore").astype("str")
