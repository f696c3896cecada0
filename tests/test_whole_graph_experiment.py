"""Molecules and proteins: the loader, the folds, what methods may see, and the table end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from latentgraph.cli import main
from latentgraph.datasets.tu import read_graphs, tu
from latentgraph.errors import InputError
from latentgraph.experiments import whole_graphs
from latentgraph.experiments.whole_graph_methods import METHODS, statistics
from latentgraph.graph_sets import GraphSet

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "tu").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with tu/",
)
TWO = "2\n3 7\n5 2 1 2\n5 1 0\n9 1 0\n1 4\n9 0\n"  # a path 1 - 0 - 2 of class 7, and a single node of class 4


def written(folder: Path, text: str = TWO) -> Path:
    path = folder / "tu" / "MUTAG.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_reading_a_small_file(tmp_path: Path) -> None:
    graphs = read_graphs(written(tmp_path))
    assert graphs.tag.tolist() == [0, 0, 1, 1]
    assert graphs.y.tolist() == [1, 0]
    assert graphs.batch.tolist() == [0, 0, 0, 1]
    assert graphs.edge_index.tolist() == [[1, 2, 0, 0], [0, 0, 1, 2]]  # source above target


def test_features_are_tag_and_degree(tmp_path: Path) -> None:
    written(tmp_path)
    graphs = tu("MUTAG", tmp_path)
    assert graphs.x.shape == (4, 2 + 11)
    assert graphs.x[:, :2].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert graphs.x[:, 2:].argmax(1).tolist() == [2, 1, 1, 0]


@pytest.mark.parametrize(
    "text",
    ["1\n2 0\n1 1 1\n", "1\n2 0\n1 1 5\n1 1 0\n", "1\n2 0\n1 2 1\n1 1 0\n", "2\n1 0\n1 0\n", "1\n0 1\n"],
    ids=["a node is missing", "no such neighbour", "degree and neighbours differ", "a graph is missing", "no nodes"],
)
def test_broken_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="tag degree neighbours"):
        read_graphs(written(tmp_path, text))


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is: MUTAG, PROTEINS, ENZYMES"):
        tu("IMDB", tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        tu("ENZYMES", tmp_path)


def test_counts_by_hand(tmp_path: Path) -> None:
    written(tmp_path)
    found = statistics(tu("MUTAG", tmp_path))
    assert found.shape == (2, 2 * 13 + 2)
    assert found[0, :5].tolist() == [2, 1, 0, 2, 1]  # tags, then nodes with 0, 1, 2 neighbours
    assert found[0, 13] == pytest.approx(2 / 3)
    assert found[:, -2:].tolist() == [[3, 2], [1, 0]]  # nodes and links


def test_folds_do_not_overlap_and_keep_proportions() -> None:
    y = torch.tensor([0] * 60 + [1] * 120)
    tested = torch.zeros(len(y))
    for fold in range(whole_graphs.FOLDS):
        train, stop, test = whole_graphs.split(y, fold)
        assert torch.equal(train.long() + stop.long() + test.long(), torch.ones(len(y), dtype=torch.long))
        assert y[test].bincount().tolist() == [6, 12]
        assert y[stop].bincount().tolist() == [6, 12]
        tested += test
    assert (tested == 1).all()


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "links", "classes"),
    [("MUTAG", 188, 3371, 7442, 2), ("PROTEINS", 1113, 43471, 162088, 2), ("ENZYMES", 600, 19580, 74564, 6)],
)
def test_the_real_files(name: str, graphs: int, nodes: int, links: int, classes: int) -> None:
    found = tu(name)
    assert (len(found), len(found.x), int(found.y.max()) + 1) == (graphs, nodes, classes)
    assert found.edge_index is not None
    assert found.edge_index.shape == (2, links)
    assert torch.equal(found.graph_of_node[found.edge_index[0]], found.graph_of_node[found.edge_index[1]])


@pytest.mark.data
@needs_data
def test_no_method_sees_the_class_of_a_test_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def spy(graphs: GraphSet, stop: torch.Tensor, seed: int, steps: int) -> torch.Tensor:
        seen.append((graphs.y, stop))
        return torch.zeros(len(graphs), dtype=torch.long)

    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    monkeypatch.setitem(METHODS, "spy", spy)
    whole_graphs.compute({"data": "MUTAG", "method": "spy", "fold": 3}, True, None)
    _, stop, test = whole_graphs.split(tu("MUTAG").y, 3)
    assert (seen[0][0][test] == -1).all()
    assert (seen[0][0][~test] >= 0).all()
    assert torch.equal(seen[0][1], stop)


@pytest.mark.data
@needs_data
def test_table_runs_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "whole-graphs", "--quick", "--out", str(tmp_path), "--only", "MUTAG"]
    for method in ("random forest on counts", "dDGM, graph loss", "GIN beside dDGM"):
        assert main([*command, method]) == 0
    rows = [json.loads(line) for line in (tmp_path / "whole-graphs-quick.jsonl").read_text().splitlines()]
    assert min(row["accuracy"] for row in rows) > 0.6
    assert "ENZYMES" in capsys.readouterr().out
