"""Features that do not fit into memory: a table's numbers as an array on the disk, read and written in row groups."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentgraph.errors import InputError

ROWS = 1 << 16  # read at a time

Array = NDArray[Any]


def array_from_parquet(table: str | Path, out: str | Path, columns: Sequence[str] | None = None) -> Array:
    """Write columns of numbers of a parquet file to `out`, a .npy file of float32, and return it memory-mapped.

    The table is read some 65,536 rows at a time, and never held as a whole. The array can be indexed like any other, by
    `RandomRows` and `ClosedBatches`, too; only the rows that are asked for are read from the disk. A missing value
    becomes NaN: fill the gaps before training.

    Parameters
    ----------
    table : a parquet file
    out : where to write; it appears under its name when it is complete
    columns : default: all columns, which must be numbers or booleans

    Returns
    -------
    (n, columns) float32, read-only

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.5]}).to_parquet(folder / "t.parquet")
    >>> array_from_parquet(folder / "t.parquet", folder / "t.npy").tolist()
    [[1.0, 0.5], [2.0, nan], [3.0, 2.5]]
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = Path(out)
    try:
        file = pq.ParquetFile(table)
    except pa.ArrowException as error:
        raise InputError(f"{table} is not a parquet file ({str(error).splitlines()[0]}).") from None
    with file:
        schema = file.schema_arrow
        names = list(schema.names if columns is None else columns)
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise InputError(f"{table} has no column {missing[0]!r}; it has: {', '.join(schema.names)}.")
        kinds = {name: schema.field(name).type for name in names}
        for name, kind in kinds.items():
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise InputError(
                    f"column {name!r} of {table} is {kind}, not a number. Name the columns of numbers: columns=[...]."
                )
        temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
        try:
            shape = (file.metadata.num_rows, len(names))
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
            start = 0
            for part in file.iter_batches(ROWS, columns=names):
                for place, name in enumerate(names):
                    column = part.column(name).cast(pa.float32(), safe=False)
                    array[start : start + len(part), place] = column.to_numpy(zero_copy_only=False)
                start += len(part)
            array.flush()
            del array
            os.replace(temporary, out)
        finally:
            temporary.unlink(missing_ok=True)
    return np.load(out, mmap_mode="r")
