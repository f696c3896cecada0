"""fit, predict and export on the command line."""

from __future__ import annotations

import csv
import inspect
import json
import re
import sys
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
    assert left_out == {"random_state", "standardize", "verbose"}


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
    assert history["homophily"].iloc[-1] > history["homophily"].iloc[0]
    metrics = json.loads((wine / "run" / "metrics.json").read_text())
    assert [row["loss"] for row in metrics["steps"]] == history["loss"].tolist()
    assert metrics["scores"] == summary["scores"]
    tested = pd.read_csv(wine / "run" / "tested.csv")
    assert len(tested) == 15  # a fifth of 74
    assert metrics["mean"]["latentgraph"]["accuracy"] == pytest.approx((tested["prediction"] == tested["kind"]).mean())
    assert np.trace(metrics["confusion"]) == (tested["prediction"] == tested["kind"]).sum()
    assert sum(metrics["calibration"]["counts"]) == len(tested)


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
    card = (tmp_path / "run" / "card.md").read_text()
    for number, part in enumerate(summary["scores"], 1):  # fold by fold, on the screen and in the card
        assert re.search(rf"│ {number} +│ {part['latentgraph']['R2']:.4f}", shown)
        assert f"| {number} | {part['latentgraph']['R2']:.4f} |" in card
    tested = pd.read_csv(tmp_path / "run" / "tested.csv")
    assert sorted(tested["row"]) == list(range(1, len(frame) + 1))  # every row once
    assert np.corrcoef(tested["prediction"], tested["target"])[0, 1] > 0.5
    assert pd.read_csv(tmp_path / "run" / "history.csv")["edge_difference"].iloc[-1] < 1.1
    assert {path.name for path in (tmp_path / "run" / "plots").iterdir()} == {
        "edges.png",
        "learning.png",
        "predictions.png",
    }
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
        (["fit", "{wine}/old.csv", "--target", "kind", "--device", "cuda:77"], "device='cuda:77'"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--decimal", "x"], "decimal='x'"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--class_weight", "heavy"], "'class_weight' parameter"),
        (["fit", "{wine}/old.csv", "--target", "alcohol", "--class_weight", "balanced"], "'alcohol' is a number"),
        (["fit", "{wine}/old.csv", "--target", "kind", "--seed", "-1"], "seed=-1"),
        (["fit", "{wine}/old.csv"], "--target"),
        (["predict", "{wine}", "{wine}/new.csv"], "holds no run"),
        (["predict", "{wine}/run", "{wine}/new.csv", "--neighbours", "0"], "neighbours=0"),
        (["predict", "{wine}/run", "{wine}/new.csv", "--out", "{wine}"], "is a folder"),
        (["export", "{wine}/run", "--out", "{wine}/absent/graph.graphml"], "there is no folder"),
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


def test_predictions_of_an_interrupted_run(wine: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = json.loads((wine / "run" / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "run.json").write_text(json.dumps(record | {"finished": False}), encoding="utf-8")
    assert main(["predict", str(tmp_path), str(wine / "new.csv")]) == 2
    assert "--resume" in capsys.readouterr().err


def test_a_missing_column_is_named(wine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.read_csv(wine / "new.csv").drop(columns="alcohol").to_csv(wine / "less.csv", index=False)
    assert main(["predict", str(wine / "run"), str(wine / "less.csv"), "--out", str(wine / "x.csv")]) == 2
    assert "'alcohol'" in capsys.readouterr().err
    assert not (wine / "x.csv").exists()


def test_what_is_in_the_run_folder(wine: Path) -> None:
    """Broken: docs/commands.md names a file that is not there, or does not name one."""
    page = (Path(__file__).parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
    page = page.partition("## The run folder")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([\w.]+)` \|", page, flags=re.MULTILINE))
    pictures = {path.name for path in (wine / "run" / "plots").iterdir()}
    assert pictures | {"predictions.png"} == {name for name in named if name.endswith(".png")}
    assert {path.name for path in (wine / "run").iterdir()} == named - pictures - {"predictions.png"}
    card = (wine / "run" / "card.md").read_text()
    for name in pictures:
        assert f"(plots/{name})" in card
        assert (wine / "run" / "plots" / name).read_bytes().startswith(b"\x89PNG")


def test_a_run_again_from_its_own_configuration(wine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: config.yaml, or what --print_config writes, is not what the run was made with."""
    config, again = wine / "run" / "config.yaml", wine / "again"
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["fit", "--config", str(config), "--out", str(again), "--print_config"])
    (wine / "printed.yaml").write_text(capsys.readouterr().out)
    assert main(["fit", "--config", str(wine / "printed.yaml")]) == 0
    assert config.read_text() == (again / "config.yaml").read_text()
    first, second = ((folder / "nodes.csv").read_bytes() for folder in (wine / "run", again))
    assert first == second


def test_without_matplotlib(
    wine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Broken: a run fails for want of pictures, or is silent about it, or leaves those of the run before."""
    run = tmp_path / "run"
    (run / "plots").mkdir(parents=True)
    (run / "plots" / "old.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["fit", str(wine / "old.csv"), "--target", "kind", "--test_fraction", "0", "--out", str(run)]
    assert main([*arguments, "--steps", "2", "--overwrite"]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "matplotlib" in line] == [
        'No plots: matplotlib is not installed. Add it with: pip install "latentgraph[plots]"'
    ]
    assert not list((run / "plots").iterdir())
    assert "plots/" not in (run / "card.md").read_text()


def test_the_decimal_mark_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: 1,234 is a fraction in training, and a refusal or more than a thousand in a new table."""
    rng = np.random.default_rng(0)
    x = rng.normal(2, 0.5, (40, 2)).round(3)
    lines = [f"{a:.3f};{b:.2f};{'high' if a > 2 else 'low'}".replace(".", ",") for a, b in x]
    (tmp_path / "old.csv").write_text("\n".join(["a;b;kind", *lines]))
    run, out = str(tmp_path / "run"), str(tmp_path / "out.csv")
    assert main(["fit", str(tmp_path / "old.csv"), "--target", "kind", "--out", run, "--steps", "20"]) == 0
    (tmp_path / "new.csv").write_text("a;b\n1,234;2\n2,987;2")
    assert main(["predict", run, str(tmp_path / "new.csv"), "--out", out]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == ["low", "high"]
    (tmp_path / "new.csv").write_text("a;b\n1.234;2\n2.987;2")
    capsys.readouterr()
    assert main(["predict", run, str(tmp_path / "new.csv"), "--out", out]) == 2
    assert "--decimal . or --decimal ," in capsys.readouterr().err
    assert main(["predict", run, str(tmp_path / "new.csv"), "--out", out, "--decimal", "."]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == ["low", "high"]
