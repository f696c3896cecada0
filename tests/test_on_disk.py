"""Features on the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from latentgraph import on_disk
from latentgraph.errors import InputError
from latentgraph.minibatch import RandomRows
from latentgraph.on_disk import array_from_parquet


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1000, 3)), columns=list("abc"))
    frame["count"], frame["yes"], frame["word"] = np.arange(1000), rng.random(1000) < 0.5, "w"
    frame.loc[5, "b"] = np.nan
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=300)
    return tmp_path / "table.parquet"


def test_the_table_is_there_row_by_row(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: rows at the borders of blocks or row groups are lost or swapped, or the array is held in memory."""
    monkeypatch.setattr(on_disk, "ROWS", 128)
    columns = ["count", "b", "yes"]
    found = array_from_parquet(table, table.with_suffix(".npy"), columns)
    whole = pd.read_parquet(table)[columns].astype(np.float32).to_numpy()
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, whole)
    assert [path.name for path in table.parent.iterdir() if path.suffix == ".tmp"] == []
    nodes = RandomRows(found, torch.zeros(1000, dtype=torch.long), 50)(1, torch.Generator().manual_seed(0))
    assert nodes.node_id is not None
    np.testing.assert_array_equal(nodes.x.numpy(), whole[nodes.node_id])


def test_what_is_no_number(table: Path) -> None:
    """Broken: words become numbers, or a wrong name is a traceback."""
    out = table.with_suffix(".npy")
    for columns, words in {
        None: "column 'word' of .* is .*string, not a number",
        ("a", "d"): "has no column 'd'; it has: a, b, c",
    }.items():
        with pytest.raises(InputError, match=words):
            array_from_parquet(table, out, columns)
    other = table.with_name("other")
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not a parquet file"):
        array_from_parquet(other, out)
    assert not out.exists()
