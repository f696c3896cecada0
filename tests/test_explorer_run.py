"""The explorer on the command line: from a run folder to a page and a picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_wine

from browser import chromium, needs_browser, needs_front_end, visit
from latentgraph import DGMClassifier, DGMRegressor, InputError
from latentgraph.cli import main
from latentgraph.explorer import from_run, keep_table, run_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on 60 bottles of wine, some of unknown kind, with its table kept."""
    folder = tmp_path_factory.mktemp("explorer")
    frame = load_wine(as_frame=True).frame.iloc[::3].reset_index(drop=True)
    frame["kind"] = frame.pop("target").map({0: "<b>barolo</b>", 1: "grignolino", 2: "barbera"})
    frame.insert(0, "bottle", [f"B{i}" for i in range(len(frame))])
    frame.loc[::6, "kind"] = None
    frame.to_csv(folder / "wine.csv", index=False)
    arguments = ["fit", str(folder / "wine.csv"), "--target", "kind", "--id", "bottle", "--out", str(folder / "run")]
    assert main([*arguments, "--steps", "15", "--samples", "4"]) == 0
    keep_table(frame, folder / "run")
    return folder / "run"


def test_what_a_run_tells(run: Path) -> None:
    page = from_run(run)
    nodes = pd.read_csv(run / "nodes.csv", keep_default_na=False)
    assert page.names == nodes["row"].tolist()
    assert page.title == "kind · wine.csv"
    classes, label, found = page.answers.classes, page.answers.label, page.answers.prediction
    assert classes == ["<b>barolo</b>", "barbera", "grignolino"]
    assert label is not None
    assert found is not None
    assert [classes[c] if c >= 0 else "" for c in label] == nodes["kind"].tolist()
    assert abs(page.graphs[0].edges - sp.load_npz(run / "graph.npz")).max() == 0
    assert page.split is not None
    tested = pd.read_csv(run / "tested.csv").set_index("row")["prediction"]
    assert {name for name, part in zip(page.names, page.split, strict=True) if part == "tested on"} == set(tested.index)
    assert (np.array(page.split) == "unlabelled").sum() == 10
    honest = nodes.set_index("row")["prediction"].to_dict() | tested.to_dict()  # tested rows: as they were kept away
    assert {name: classes[c] for name, c in zip(page.names, found, strict=True)} == honest
    p = pd.read_csv(run / "tested.csv").iloc[0]
    assert page.answers.probability is not None
    assert page.answers.probability[page.names.index(p["row"])].tolist() == p.iloc[-3:].tolist()
    assert page.table is not None
    assert page.table["alcohol"].tolist() == load_wine().data[::3, 0].tolist()
    known = from_run(run, label=["barbera"] * 60, split=["new"] * 60)
    assert known.answers.label is not None
    assert set(known.answers.label) == {1}
    assert known.split is None  # one part is no split


def test_a_run_that_predicts_numbers(tmp_path: Path) -> None:
    frame = load_diabetes(as_frame=True).frame[:70]
    frame.loc[frame.index[::7], "target"] = np.nan
    frame.to_csv(tmp_path / "diabetes.csv", index=False)
    arguments = ["fit", str(tmp_path / "diabetes.csv"), "--target", "target", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--steps", "5", "--samples", "2"]) == 0
    page = from_run(tmp_path / "run")
    assert page.answers.classes == []
    np.testing.assert_array_equal(page.answers.label, frame["target"])
    found = page.answers.prediction
    assert found is not None
    model = DGMRegressor.load(tmp_path / "run" / "model")
    away = np.array(page.split) == "tested on"
    np.testing.assert_allclose(found[~away], model.transduction_[~away])
    tested = pd.read_csv(tmp_path / "run" / "tested.csv").sort_values("row")
    np.testing.assert_array_equal(np.sort(found[away]), np.sort(tested["prediction"]))


@needs_front_end
@needs_browser
def test_explore_writes_a_page_that_shows_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", str(run)]) == 0
    assert f"60 nodes, {sp.load_npz(run / 'graph.npz').nnz} edges" in capsys.readouterr().out
    model = DGMClassifier.load(run / "model")
    with chromium() as browser, visit(browser, run / "explorer.html") as seen:
        seen.tab.fill("#search", "B17")
        seen.tab.keyboard.press("Enter")
        line = model.graph_[[17]].tocoo()
        order = np.lexsort((line.col, -line.data))
        expected = [(f"B{line.col[i]}", f"{line.data[i]:.3f}") for i in order]
        assert [(name, p) for name, _, p in seen.neighbours("Chose")][: len(expected)] == expected[:20]
        assert "share of 4 sampled graphs" in seen.text(".meaning")
        p = pd.read_csv(run / "nodes.csv").iloc[17].filter(like="p(").to_numpy(float)
        np.testing.assert_allclose(p, model.label_distributions_[17], atol=1e-6)
        shown = ["<0.001" if 0 < value < 0.0005 else f"{value:.3f}" for value in p]
        rows = [f"{from_run(run).answers.classes[c]}\n{shown[c]}" for c in np.argsort(-p, kind="stable")]
        assert seen.texts(".probabilities li") == rows


def test_explore_draws_a_picture(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "explorer.html").unlink(missing_ok=True)
    assert main(["explore", str(run), "--png", str(tmp_path / "graph.png")]) == 0
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert not (run / "explorer.html").exists()  # a picture was asked for, not a page
    assert main(["explore", str(run), "--png", str(tmp_path / "graph.word")]) == 2
    assert ".png, .svg or .pdf" in capsys.readouterr().err


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", str(tmp_path / "absent")]) == 2
    error = capsys.readouterr().err
    assert "no nodes.csv and no graph.npz" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("name", ["nodes.csv", "graph.npz", "table.parquet", "tested.csv", "summary.json"])
def test_a_damaged_run(run: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / name).write_bytes(b"{ what")
    assert main(["explore", str(folder)]) == 2
    assert f"{name} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["row", "prediction"])
def test_a_target_of_any_name(target: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    words = np.where(x[:, 0] > 0, "ill", "well")
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], target: words}).to_csv(tmp_path / "t.csv", index=False)
    arguments = ["fit", str(tmp_path / "t.csv"), "--target", target, "--out", str(tmp_path / "run")]
    assert main([*arguments, "--steps", "2", "--samples", "2"]) == 0
    page = from_run(tmp_path / "run")
    assert page.answers.target == target
    assert page.answers.label is not None
    assert [page.answers.classes[c] for c in page.answers.label] == words.tolist()
    assert page.split is not None
    assert "tested on" in page.split


def test_tables_of_any_kind_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {1: [1, 2], "mixed": [{"a": 1}, None], "text": ["<b>", None], "flag": [True, False]}, index=[5, 6]
    )
    keep_table(frame, tmp_path)
    again = pd.read_parquet(tmp_path / "table.parquet")
    assert again.columns.tolist() == ["1", "mixed", "text", "flag"]
    assert again["mixed"].tolist()[0] == "{'a': 1}"
    assert again["mixed"].isna().tolist() == [False, True]


def test_an_estimator_explores_itself(run: Path) -> None:
    model = DGMClassifier.load(run / "model")
    page = model.explore(y=np.zeros(60, int))
    assert abs(page.graphs[0].edges - model.graph_).max() == 0
    with pytest.raises(InputError, match="table has 2 rows"):
        model.explore(table=pd.DataFrame({"a": [1, 2]}))


def test_a_part_of_a_large_graph(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a page of a million rows, or one whose rows, edges and answers do not belong together."""
    whole = from_run(run)
    monkeypatch.setattr(run_folder, "SHOWN", 30)
    monkeypatch.setattr(run_folder, "NEIGHBOURS", 3)
    page = from_run(run)
    assert page.title == f"kind · wine.csv · {len(page.names)} of 60 rows"
    assert 20 < len(page.names) <= 30
    at = [whole.names.index(name) for name in page.names]
    assert at == sorted(at)
    assert abs(page.graphs[0].edges - whole.graphs[0].edges[at][:, at]).max() == 0
    for part, all_of_it in (
        (page.answers.label, whole.answers.label),
        (page.answers.prediction, whole.answers.prediction),
        (page.split, whole.split),
    ):
        assert part is not None
        assert all_of_it is not None
        assert list(part) == [all_of_it[row] for row in at]
    assert page.table is not None
    assert whole.table is not None
    assert page.table["alcohol"].tolist() == whole.table["alcohol"].iloc[at].tolist()
    label = ["barbera" if row in at else "grignolino" for row in range(60)]
    assert set(np.array(from_run(run, label=label, split=["x"] * 60).answers.label)) == {1}


def test_neighbours_are_shown_together() -> None:
    """Broken: random rows alone are picked, which do not know each other."""
    n, rng = 2000, np.random.default_rng(0)
    target = np.repeat(np.arange(n), 8)
    edges = sp.csr_array((rng.random(8 * n), (target, rng.integers(0, n, 8 * n))), shape=(n, n))
    rows = run_folder.shown_rows(edges, 400)
    assert len(rows) == len(set(rows)) <= 400
    assert (np.diff(rows) > 0).all()
    kept = edges[rows][:, rows].sum() / edges[rows].sum()
    assert kept > 1.3 * 400 / n, "little more than random rows would have"
