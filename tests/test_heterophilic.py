"""Graphs whose neighbours mostly differ: the loader, and the table end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from latentgraph.cli import main
from latentgraph.datasets.heterophilic import FILES, SPLITS, heterophilic
from latentgraph.errors import InputError
from latentgraph.graph import edge_homophily

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "heterophilic").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with heterophilic/",
)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", FILES)
def test_graphs_and_splits(name: str) -> None:
    """Links in both directions, parts that do not overlap, ten different splits, and neighbours that mostly differ."""
    tests = set()
    for split in range(SPLITS):
        nodes = heterophilic(name, split=split)
        parts = nodes.train.long() + nodes.validation.long() + nodes.test.long()
        assert int(parts.max()) == 1
        tests.add(tuple(nodes.test.nonzero()[:, 0].tolist()))
    assert len(tests) == SPLITS
    links = {(int(a), int(b)) for a, b in nodes.edge_index.T}
    assert all((b, a) in links for a, b in links)
    assert edge_homophily(nodes.edge_index, nodes.y) < 0.4


@pytest.mark.data
@needs_data
def test_table_runs_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "heterophilic", "--quick", "--out", str(tmp_path), "--only", "Texas"]
    assert main([*command, "dDGM, best, f without the given graph"]) == 0
    assert main([*command, "logistic regression"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "heterophilic-quick.jsonl").read_text().splitlines()]
    assert min(row["accuracy"] for row in rows) > 0.5
    assert "Squirrel" in capsys.readouterr().out


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="Texas"):
        heterophilic("Utah")
    with pytest.raises(InputError, match="0 to 9"):
        heterophilic("Texas", split=10)
