"""fit, predict and export on the command line."""

from __future__ import annotations

import csv
import inspect
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_wine

from latentgraph import DGMClassifier
from latentgraph.cli import main
from latentgraph.runs.options import OPTIONS

QUICK = ["--steps", "40", "--samples", "2"]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, some labels missing, a table without labels, and a run."""
    folder = tmp_path_factory.mktemp("wine")
    frame = load_wine(as_frame=True).frame
    frame["kind"] = frame.pop("target").map({0: "barolo", 1: "grignolino", 2: "barbera"})
    frame.insert(0, "bottle", [f"B{i}" for i in range(len(frame))])
    frame["cellar"] = ["north" if i % 3 else None for i in range(len(frame))]
    old, new = frame[::2].copy(), frame[1::2]
    old.loc[old.index[::6], "kind"] = None
    old.to_csv(folder / "old.csv", index=False)
    new.drop(columns="kind").to_csv(folder / "new.csv", index=False)
    new.to_csv(folder / "answers.csv", index=False)
    arguments = ["fit", str(folder / "old.csv"), "--target", "kind", "--id", "bottle", "--out", str(folder / "run")]
    assert main([*arguments, *QUICK]) == 0
    return folder


def test_the_command_line_knows_the_defaults_of_the_estimator() -> None:
    signature = inspect.signature(DGMClassifier).parameters
    for option in OPTIONS:
        assert signature[option.name].default == option.default, option.name
    left_out = set(signature) - {option.name for option in OPTIONS}
    assert left_out == {"class_weight", "joint", "random_state", "standardize", "verbose"}


def test_what_fit_leaves(wine: Path) -> None:
    summary = json.loads((wine / "run" / "summary.json").read_text())
    assert summary["classes"] == ["barbera", "barolo", "grignolino"]
    assert summary["rows"] == 89
    assert summary["labelled"] == 74
    assert set(summary["scores"][0]) == {"latentgraph", "majority", "logistic regression", "random forest"}
    assert summary["scores"][0]["latentgraph"]["accuracy"] > 0.8
    with (wine / "run" / "nodes.csv").open() as file:
        nodes = list(csv.DictReader(file))
    assert [row["row"] for row in nodes][:2] == ["B0", "B2"]
    assert nodes[0]["kind"] == ""
    assert nodes[0]["prediction"] == "barolo"
    assert sp.load_npz(wine / "run" / "graph.npz").shape == (89, 89)
    assert "| latentgraph |" in (wine / "run" / "card.md").read_text()
    history = pd.read_csv(wine / "run" / "history.csv")
    assert history["loss"].iloc[-1] < history["loss"].iloc[0]


def test_predictions(wine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = wine / "predictions.csv"
    assert main(["predict", str(wine / "run"), str(wine / "new.csv"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 89
    found, answers = pd.read_csv(out), pd.read_csv(wine / "answers.csv")
    assert found["row"].tolist() == answers["bottle"].tolist()
    assert (found["prediction"] == answers["kind"]).mean() > 0.85
    np.testing.assert_allclose(found[["p(barbera)", "p(barolo)", "p(grignolino)"]].sum(axis=1), 1.0, atol=1e-5)
    old = set(pd.read_csv(wine / "old.csv")["bottle"])
    assert set(found["neighbour 1"]) <= old
    assert (found["neighbour 1 p"] >= found["neighbour 2 p"]).all()
    # A row alone gets the same answer, whatever the order of the columns.
    answers.iloc[[5], ::-1].to_csv(wine / "one.csv", index=False)
    assert main(["predict", str(wine / "run"), str(wine / "one.csv"), "--out", str(wine / "one-out.csv")]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(wine / "one-out.csv"), found.iloc[[5]].reset_index(drop=True))


@pytest.mark.parametrize("kind", ["graphml", "gexf", "npz", "csv"])
def test_exports(wine: Path, kind: str) -> None:
    out = wine / f"graph.{kind}"
    assert main(["export", str(wine / "run"), "--format", kind, "--out", str(out)]) == 0
    graph = sp.load_npz(wine / "run" / "graph.npz")
    if kind == "npz":
        assert (sp.load_npz(out) != graph).nnz == 0
    elif kind == "csv":
        assert len(pd.read_csv(out)) == graph.nnz
    else:
        read = nx.read_graphml(out) if kind == "graphml" else nx.read_gexf(out)
        assert read.number_of_edges() == graph.nnz
        assert read.nodes["0"]["prediction"] == "barolo"


def test_folds_and_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = load_diabetes(as_frame=True).frame
    frame.to_parquet(tmp_path / "table.parquet")
    arguments = ["fit", str(tmp_path / "table.parquet"), "--target", "target", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--folds", "3", *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "R2" in shown
    assert "±" in shown
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(summary["scores"]) == 3
    assert all(part["latentgraph"]["R2"] > part["mean"]["R2"] for part in summary["scores"])
    frame.drop(columns="target").to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    out = tmp_path / "out.csv"
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "new.tsv"), "--out", str(out)]) == 0
    assert np.corrcoef(pd.read_csv(out)["prediction"], frame["target"])[0, 1] > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{wine}/old.csv", "--target", "kinds"], "'kind'"),
        (["fit", "{wine}/absent.csv", "--target", "kind"], "absent.csv"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--folds", "1"], "folds=1"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--test_fraction", "2"], "test_fraction=2"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--task", "guess"], "task='guess'"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--k", "0"], "'k' parameter"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--geometry", "cube"], "'geometry' parameter"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--device", "toaster"], "toaster"),
        (["predict", "{wine}", "{wine}/new.csv"], "holds no run"),
        (["predict", "{wine}/run", "{wine}/graphs.csv"], "graphs.csv"),
        (["export", "{wine}/run", "--format", "pdf"], "--format pdf"),
    ],
)
def test_bad_usage(
    wine: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = [argument.format(wine=wine) for argument in arguments]
    if given[0] == "fit":
        given += ["--out", str(tmp_path / "run")]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_missing_column_is_named(wine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.read_csv(wine / "new.csv").drop(columns="alcohol").to_csv(wine / "less.csv", index=False)
    assert main(["predict", str(wine / "run"), str(wine / "less.csv"), "--out", str(wine / "x.csv")]) == 2
    assert "'alcohol'" in capsys.readouterr().err
    assert not (wine / "x.csv").exists()
