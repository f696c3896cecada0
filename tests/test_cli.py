"""The commands, as a user types them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp

from latentgraph.cli import main


def test_demo_writes_a_graph_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "out"), "--steps", "60"]) == 0
    printed = capsys.readouterr().out
    for method in ("logistic regression", "random forest", "kNN label spreading", "latentgraph (dDGM)"):
        assert method in printed
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    scores = summary["accuracy_on_hidden_labels"]
    assert scores["latentgraph (dDGM)"] > 0.9
    graph = sp.load_npz(tmp_path / "out/graph.npz")
    assert graph.shape == (569, 569)
    assert graph.sum(1) == pytest.approx(5)  # k neighbours in every sampled graph, so frequencies add to k
    assert graph.diagonal().sum() == 0
    with (tmp_path / "out/edges.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == graph.nnz
    first = rows[0]
    assert graph[int(first["row"]), int(first["neighbour"])] == pytest.approx(float(first["frequency"]))
    with (tmp_path / "out/nodes.csv").open() as file:
        nodes = list(csv.DictReader(file))
    hidden = [node for node in nodes if node["part"] == "hidden"]
    assert len(nodes) == 569
    right = sum(node["diagnosis"] == node["prediction"] for node in hidden) / len(hidden)
    assert right == pytest.approx(scores["latentgraph (dDGM)"])
    assert not [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


def test_demo_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path), "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 569


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "no-such-table"], ["no-such-table", "tadpole"]),
        (["reproduce", "tadpole", "--data-root", "/no/such/folder"], ["/no/such/folder", "does not exist"]),
        (["demo", "--out", "/proc/nowhere", "--steps", "1"], ["/proc/nowhere"]),
        (["bench", "no-such-bench"], ["no-such-bench", "sampler"]),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # away from finished results
    assert main(arguments) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("latentgraph: ")
    for word in words:
        assert word in message


def test_missing_data_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTGRAPH_DATA", raising=False)
    assert main(["reproduce", "tadpole"]) == 2
    assert "LATENTGRAPH_DATA" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no-such-command"], ["demo", "--steps", "many"], []])
def test_bad_usage_is_status_2(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "latentgraph", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    assert "tadpole" in capsys.readouterr().out
    assert main(["bench", "--list"]) == 0
    assert "sampler" in capsys.readouterr().out
