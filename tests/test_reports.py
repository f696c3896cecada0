"""What a learned graph says: numbers by hand, chance by enumeration, and the command."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from latentgraph import DiscreteDGM, InputError, edge_frequencies, edge_homophily
from latentgraph.cli import main
from latentgraph.reports import bridges, degrees, differences, homophily, stability

# Row i chose column j: 0 and 1 choose each other, 2 hesitates, 3 is loyal to 2, and 4 is of unknown class.
GRAPH = sp.csr_array(
    [
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.25, 0.5, 0.0, 0.25, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
    ]
)
Y = ["a", "a", "b", "b", None]


def test_homophily_by_hand() -> None:
    """4 edges count: 2 from a to a, 0.75 from b to a, 1.25 from b to b."""
    found = homophily(GRAPH, Y)
    assert found.edges == 4
    assert found.edge == pytest.approx((2 + 1.25) / 4)
    chance = (2 / 4) * (2.75 / 4) + (2 / 4) * (1.25 / 4)
    assert found.chance == pytest.approx(chance)
    assert found.adjusted == pytest.approx((3.25 / 4 - chance) / (1 - chance))
    assert homophily(GRAPH, [0, 0, 1, 1, -1]) == found
    assert homophily(GRAPH, np.array(["a", "a", "b", "b", ""])) == found
    assert homophily(GRAPH, torch.tensor([0, 0, 1, 1, -1])) == found


def test_homophily_of_a_sampled_graph() -> None:
    torch.manual_seed(0)
    graph = DiscreteDGM(nn.Identity(), 3, temperature=1.0, loop=True)(torch.randn(30, 2))
    y = torch.arange(30) % 3 - 1
    assert graph.edge_index is not None
    others = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]  # nobody says anything by choosing itself
    assert homophily(graph, y).edge == pytest.approx(edge_homophily(others, y))
    assert homophily(graph, y) == homophily(edge_frequencies([graph]), y)


def test_homophily_that_is_not_defined() -> None:
    assert np.isnan(homophily(GRAPH, [None] * 5).edge)
    assert homophily(GRAPH, [None] * 5).edges == 0
    one = homophily(GRAPH, ["a"] * 5)
    assert (one.edge, one.chance) == (1, 1)
    assert np.isnan(one.adjusted)


def test_bridges_by_hand() -> None:
    """Edges of either direction: 2 has 0.75 to class a; 1 has 0.5 and 0 has 0.25 to class b."""
    found = bridges(GRAPH, Y)
    assert [(b.node, b.own, b.other, b.crossing) for b in found] == [
        (2, "b", "a", 0.75),
        (1, "a", "b", 0.5),
        (0, "a", "b", 0.25),
    ]
    assert [b.share for b in found] == pytest.approx([0.75 / 2, 0.5 / 2.5, 0.25 / 2.25])
    assert [b.node for b in bridges(GRAPH, Y, k=1)] == [2]
    assert bridges(GRAPH, [None] * 5) == []
    three = bridges(GRAPH, ["a", "c", "b", "b", "b"], k=1)[0]
    assert (three.node, three.other, three.crossing) == (1, "a", 2.5)  # 2 edges to a, 0.5 to b


def test_degrees_by_hand() -> None:
    found = degrees(GRAPH)
    assert (found.nodes, found.edges, found.neighbours) == (5, 7, 1.0)
    assert (found.most, found.hub, found.median, found.never) == (2.0, 2, 1.25, 1)


def test_differences_by_hand() -> None:
    y = [1.0, 2.0, 5.0, 9.0, np.nan]
    found = differences(GRAPH, y)
    assert found.edges == 4
    assert found.edge == pytest.approx((1 + 1 + 0.25 * 4 + 0.5 * 3 + 0.25 * 4 + 4) / 4)
    chose, chosen = np.array([1, 1, 1, 1]) / 4, np.array([1.25, 1.5, 1, 0.25]) / 4
    apart = np.abs(np.subtract.outer(y[:4], y[:4]))
    assert found.chance == pytest.approx(chose @ apart @ chosen)
    assert np.isnan(differences(GRAPH, [np.nan] * 5).edge)


# Overlap


def test_overlap_by_hand() -> None:
    a = sp.csr_array([[0, 1.0, 0], [0.5, 0, 0.5], [0, 1.0, 0]])
    b = sp.csr_array([[0, 0.25, 0.75], [0.5, 0, 0.5], [1.0, 0, 0]])
    found = stability([a, b, a])
    assert found.between == pytest.approx(
        np.array([[1, 1.25 / 4.75, 1], [1.25 / 4.75, 1, 1.25 / 4.75], [1, 1.25 / 4.75, 1]])
    )
    assert found.overlap == pytest.approx((1 + 2 * 1.25 / 4.75) / 3)


def test_chance_by_enumeration() -> None:
    """All orders of a row's frequencies among the other rows, one row after the other."""
    rng = np.random.default_rng(0)
    n = 5
    a, b = (rng.choice([0, 0, 0.25, 0.5, 1], size=(n, n)) * (1 - np.eye(n)) for _ in range(2))
    expected = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        expected += np.mean([np.minimum(a[i, others], b[i, list(order)]).sum() for order in permutations(others)])
    found = stability([sp.csr_array(a), sp.csr_array(b)])
    assert found.chance == pytest.approx(expected / (a.sum() + b.sum() - expected))


def test_chance_of_sampled_graphs() -> None:
    """k of n - 1 candidates each: two sets have k^2 / (n - 1) in common."""
    torch.manual_seed(0)
    n, k = 21, 4
    dgm = DiscreteDGM(nn.Identity(), k, temperature=1e-6)
    graphs = [dgm(torch.randn(n, 2)) for _ in range(8)]
    found = stability(graphs)
    common = k / (n - 1)
    assert found.chance == pytest.approx(common / (2 - common))
    assert found.overlap == pytest.approx(found.chance, abs=0.02)  # nearly uniform: the overlap is that of chance


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (homophily, (GRAPH, ["a"] * 4), "y has shape .4,., but the graph has 5 nodes"),
        (homophily, (GRAPH, [0.5] * 5), "float64 values; classes are names"),
        (homophily, (np.eye(3), [0, 1, 1]), "a ndarray is no graph"),
        (homophily, (sp.csr_array(np.ones((2, 3))), [0, 1]), "must be a square matrix"),
        (homophily, (sp.csr_array(-np.ones((2, 2))), [0, 1]), "negative"),
        (bridges, (GRAPH, Y, 0), "k=0"),
        (differences, (GRAPH, [1.0]), "5 nodes"),
        (stability, ([GRAPH],), "1 graphs; their overlap needs at least two"),
        (stability, ([GRAPH, GRAPH[:3, :3]],), "graphs of 5, 3 nodes"),
        (stability, ([GRAPH, sp.csr_array((5, 5))],), "has no edges"),
    ],
)
def test_what_is_refused(function: Any, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        function(*arguments)


# The command. It reads three files of a run folder; here they are written by hand.


def write_run(folder: Path, graph: sp.csr_array, lines: list[str], task: str = "classification") -> Path:
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps({"target": "kind", "task": task}))
    (folder / "nodes.csv").write_text("\n".join(["row,kind,prediction,p(a)", *lines]) + "\n")
    sp.save_npz(folder / "graph.npz", graph)
    return folder


LINES = ["P0,a,a,1", "P1,a,a,1", "P2,b,b,0", "P3,b,a,0", "P4,,a,1"]


def test_inspect_says_it_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", GRAPH, LINES)
    assert main(["inspect", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "5 rows, each with 1 neighbours. P2 is chosen most often, by 2 rows; 1 rows are chosen by nobody." in printed
    assert "81.2 % of the edges between rows of known kind join the same kind; by chance, it would be 50.0 %" in printed
    assert "a (predicted)" in printed  # P4 chose P2 of class b
    assert main(["inspect", str(run), "--json", "--bridges", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["homophily"]["edge"] == pytest.approx(3.25 / 4)
    assert [(b["row"], b["crossing"], b["labelled"]) for b in found["bridges"]] == [
        ("P2", 1.75, True),
        ("P4", 1, False),
    ]
    assert "stability" not in found


def test_inspect_compares_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of another run may come in another order; they are found by name."""
    run = write_run(tmp_path / "run", GRAPH, LINES)
    turned = write_run(tmp_path / "turned", sp.csr_array(GRAPH[::-1][:, ::-1]), LINES[::-1])
    assert main(["inspect", str(run), str(turned)]) == 0
    assert "The edges of the 2 runs overlap by 100.0 %; by chance, it would be" in capsys.readouterr().out
    loop = sp.csr_array(np.roll(np.eye(5), 1, axis=1))
    other = write_run(tmp_path / "other", loop, LINES)
    assert main(["inspect", str(run), str(turned), str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["stability"]
    assert found["overlap"] == pytest.approx(stability([GRAPH, GRAPH, loop]).overlap)
    assert (found["lowest"], found["highest"]) == (found["between"][0][2], 1)


def test_inspect_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", GRAPH, ["a,1,1", "b,2,2", "c,5,5", "d,9,9", "e,,3"], task="regression")
    assert main(["inspect", str(run)]) == 0
    assert "The kind at the two ends of an edge differs by 2.375 on average" in capsys.readouterr().out


def test_inspect_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", GRAPH, [f"{i},,a" for i in range(5)])
    assert main(["inspect", str(run)]) == 0
    assert "No edge joins two rows whose kind is known." in capsys.readouterr().out


def test_inspect_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", GRAPH, LINES)
    strange = write_run(tmp_path / "strange", GRAPH, [line.replace("P", "Q") for line in LINES])
    short = write_run(tmp_path / "short", GRAPH, LINES[:3])
    damaged = write_run(tmp_path / "damaged", GRAPH, LINES)
    (damaged / "graph.npz").write_bytes(b"no zip file")
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "run.json").write_text('{"finished": false, "threads": 1, "asked": {}}')
    refused: list[tuple[list[Any], str]] = [
        ([tmp_path / "nowhere"], "has no summary.json"),
        ([run, strange], "runs on different rows"),
        ([short], "are damaged"),
        ([damaged], "are damaged"),
        ([begun], "an interrupted run"),
        ([run, "--bridges", "0"], "bridges=0"),
    ]
    for arguments, words in refused:
        assert main(["inspect", *map(str, arguments)]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["inspect"])
    assert end.value.code == 2
