"""TADPOLE: the loader, its score-like columns, and the three tables end to end."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from latentgraph.cli import main
from latentgraph.datasets.tadpole import Fold, score_columns, tadpole
from latentgraph.diffusion import GCN, EdgeConv
from latentgraph.errors import InputError
from latentgraph.experiments import medical, running
from latentgraph.experiments import tadpole as table
from latentgraph.experiments.catalogue import CATALOGUE, experiment
from latentgraph.experiments.dgm_method import DGM
from latentgraph.experiments.results import Results, published
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.loss import MovingAverageBaseline

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "tadpole").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with tadpole/",
)
NAMES = ("tadpole-architectures", "tadpole", "tadpole-inductive")


def _made_up_fold(seed: int = 0) -> Fold:
    """60 patients, 6 columns; the first tells the class, the fourth is its copy."""
    random = np.random.RandomState(seed)
    y = np.arange(60) % 3
    x = random.rand(60, 6)
    x[:, 0] = y / 2 + 0.02 * random.rand(60)
    x[:, 3] = 1 - x[:, 0] + 0.02 * random.rand(60)
    rows = random.permutation(60)
    return Fold(x, y, np.sort(rows[:48]), np.sort(rows[48:]))


@pytest.mark.data
@needs_data
def test_folds_are_disjoint_and_complete() -> None:
    """Each patient is tested once, never in the fold that trained on them; 30 columns, not their copies."""
    tested: list[int] = []
    for number in range(10):
        fold = tadpole(number)
        assert fold.x.shape == (564, 30)
        assert not set(fold.train) & set(fold.test)
        tested.extend(fold.test)
    assert sorted(tested) == list(range(564))
    assert np.bincount(fold.y).tolist() == [160, 320, 84]


@pytest.mark.data
@needs_data
def test_score_columns_of_each_fold() -> None:
    """Column 0 and its copy, nothing else, and far from the threshold on both sides."""
    for number in range(10):
        fold = tadpole(number)
        copy = {3: 4, 4: 4, 6: 4, 7: 4}.get(number, 3)
        assert score_columns(fold.x).tolist() == [0, copy]
        left = fold.without_scores()
        assert left.x.shape == (564, 28)
        others = [abs(np.corrcoef(fold.x[:, 0], column)[0, 1]) for column in left.x.T]
        assert max(others) < 0.85
        assert abs(np.corrcoef(fold.x[:, 0], fold.x[:, copy])[0, 1]) > 0.99


def test_score_columns_may_have_the_opposite_sign() -> None:
    fold = _made_up_fold()
    assert score_columns(fold.x).tolist() == [0, 3]
    np.testing.assert_array_equal(fold.without_scores().x, fold.x[:, [1, 2, 4, 5]])


def test_loader_runs_no_code_from_a_pickle(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "gotcha"),)

    (tmp_path / "tadpole").mkdir()
    (tmp_path / "tadpole/tadpole_data.pickle").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(InputError, match="only numpy arrays"):
        tadpole(0, tmp_path)
    assert not (tmp_path / "gotcha").exists()


def test_fold_out_of_range() -> None:
    with pytest.raises(InputError, match="fold=10"):
        tadpole(10)


def test_inner_split_is_a_part_of_the_training_rows() -> None:
    """The rows to stop by are training rows; a test row has no class, neither to learn from nor to stop by."""
    fold = _made_up_fold()
    for seed in range(3):
        seen = medical.population(fold.x, fold.y, fold.train, 3, seed=seed)
        assert seen.stop is not None
        stop = seen.stop.nonzero()[:, 0].tolist()
        assert set(stop) <= set(fold.train)
        assert len(stop) == round(0.15 * len(fold.train) + 0.5)
        assert not (seen.learn & seen.stop).any()
        assert seen.known.nonzero()[:, 0].tolist() == fold.train.tolist()
        assert (seen.y[torch.tensor(fold.test)] == -1).all()


@pytest.mark.parametrize("setting", medical.SETTINGS)
@pytest.mark.parametrize("name", [table.COLUMN_0, "kNN-GCN", "dDGM"])
def test_no_test_label_is_ever_seen(name: str, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nonsense for the classes of the test fold every answer is the same; only its score changes."""
    fold = _made_up_fold()
    nonsense = fold.y.copy()
    nonsense[fold.test] = (nonsense[fold.test] + 1) % 3
    given: list[Any] = []
    ask = medical.answers

    def listen(*arguments: Any) -> Any:
        given.append(ask(*arguments))
        return given[-1]

    monkeypatch.setattr(medical, "answers", listen)
    cell = {"setting": setting, "columns": "all", "method": name, "fold": 0, "seed": 0}
    scores = []
    for y in (fold.y, nonsense):
        monkeypatch.setattr(table, "tadpole", lambda number, root, y=y: fold._replace(y=y))
        scores.append(table.compute(cell, True, None)["accuracy"])
    np.testing.assert_array_equal(given[0], given[1])
    assert scores[0] + scores[1] <= 1
    if name == table.COLUMN_0:
        assert scores == [1, 0]


def test_inductive_methods_are_fitted_on_the_training_rows_alone() -> None:
    fold = _made_up_fold()
    sizes = []

    class Watching(DGM):
        def graph(self, population: Any) -> None:
            sizes.append(len(population.x))

    seen = medical.population(fold.x, fold.y, fold.train, 3, seed=0)
    for setting in medical.SETTINGS:
        method = Watching(medical.architecture("dDGM", "GC + EC"), steps=1)
        assert len(medical.answers(method, seen, setting)) == 60
    assert sizes == [60, 60, 48, 60]  # fit and predict


@pytest.mark.parametrize("kind", medical.LEARNED)
@pytest.mark.parametrize("words", table.F_AND_G)
def test_networks_of_the_paper(kind: str, words: str) -> None:
    """The first f is a perceptron, the second as named; only sampled graphs have the graph loss."""
    fold = _made_up_fold()
    seen = medical.population(fold.x, fold.y, fold.train, 3, seed=0)
    method = DGM(medical.architecture(kind, words), steps=2)
    assert set(method.fit(seen).predict(seen).tolist()) <= {0, 1, 2}
    modules = list(method.net.modules())
    graphs = [module for module in modules if isinstance(module, DiscreteDGM | ContinuousDGM)]
    assert [type(module) for module in graphs] == [DiscreteDGM if kind == "dDGM" else ContinuousDGM] * 2
    f = [any(isinstance(part, GCN) for part in module.modules()) for module in graphs]
    assert f == [False, words.startswith("GC")]
    g = [module for module in modules if isinstance(module, EdgeConv)]
    assert [module.aggr for module in g] == ["max" if kind == "dDGM" else "mean"] * (2 if words.endswith("EC") else 0)
    more = method.training(seen)
    assert isinstance(more["baseline"], MovingAverageBaseline) if kind == "dDGM" else more == {}


def test_tables_share_their_cells() -> None:
    """What is in two tables has one name in the results file; ten folds, no inductive LDS, no column 0 without it."""
    named = {name: {tuple(cell.values()) for cell in experiment(name).cells(1, False, None)} for name in NAMES}
    for name in NAMES:
        assert experiment(name).file == "tadpole"
        assert len(named[name]) == len(experiment(name).cells(1, False, None))
        assert {cell[3] for cell in named[name]} == set(range(10))
        assert {cell[1] for cell in named[name]} == set(table.COLUMNS)
    assert {cell[2] for cell in named["tadpole-architectures"] & named["tadpole"]} == {*table.BESIDE, *medical.LEARNED}
    assert not [cell for cell in named["tadpole-inductive"] if cell[2] == "LDS"]
    assert not [cell for cell in set.union(*named.values()) if cell[1:3] == (table.WITHOUT, table.COLUMN_0)]
    assert set(published("tadpole")["rows"]) <= set(table.METHODS)


def test_rows_of_the_tables(tmp_path: Path) -> None:
    """The best first; the paper beside; a dash for what is not there."""
    results = Results(tmp_path / "tadpole.jsonl", table.KEY)
    for setting, columns, method, accuracy in (
        ("transductive", "all", "dDGM", (0.9, 0.8)),
        ("transductive", "without scores", "dDGM", (0.7, 0.7)),
        ("transductive", "all", "random forest", (0.95, 0.95)),
        ("inductive", "all", "dDGM", (0.6, 0.8)),
    ):
        for fold, value in enumerate(accuracy):
            cell = {"setting": setting, "columns": columns, "method": method, "fold": fold, "seed": 0}
            results.add({**cell, "accuracy": value})
    first, second = experiment("tadpole").tables(results)[0].rows[:2]
    assert first == ["random forest", "-", "95.0 ± 0.0", "-"]
    assert second == ["dDGM", "94.1 ± 2.1", "85.0 ± 5.0", "70.0 ± 0.0"]
    rows = {row[0]: row for row in experiment("tadpole-inductive").tables(results)[0].rows}
    assert rows["dDGM"] == ["dDGM", "92.2 ± 3.6", "85.0 ± 5.0", "70.0 ± 10.0", "70.0 ± 0.0", "-"]
    rows = {row[0]: row for row in experiment("tadpole-architectures").tables(results)[0].rows}
    assert len(rows) == 10
    assert rows["dDGM, GC + EC"] == ["dDGM, GC + EC", "94.1 ± 2.1", "85.0 ± 5.0", "70.0 ± 0.0"]
    assert rows["random forest"][2] == "95.0 ± 0.0"
    assert rows["cDGM, MLP + GC"] == ["cDGM, MLP + GC", "92.4 ± 3.8", "-", "-"]


@pytest.mark.data
@needs_data
def test_runs_end_to_end_and_goes_on_after_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All methods; what was finished is not computed again; a damaged line is named."""
    monkeypatch.setattr(table, "QUICK_FOLDS", 1)
    monkeypatch.setattr(table, "QUICK_STEPS", 10)
    monkeypatch.setattr(table, "QUICK_FEWER", {"LDS": 2})
    command = ["reproduce", "tadpole", "--quick", "--out", str(tmp_path)]
    path = tmp_path / "tadpole-quick.jsonl"
    compute = running._compute
    calls: list[Any] = []

    def interrupted(*arguments: Any, **options: Any) -> dict[str, Any]:
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(arguments)
        return compute(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(running, "_compute", interrupted)
        assert main(command) == 130
    assert "goes on" in capsys.readouterr().err
    begun = path.read_text()
    assert len(begun.splitlines()) == 4
    assert main(command) == 0
    assert "94.1 ± 2.1" in capsys.readouterr().out  # the paper's dDGM
    finished = path.read_text()
    assert finished.startswith(begun)
    rows = [json.loads(line) for line in finished.splitlines()]
    assert len(rows) == 2 * len(table.METHODS) - 1
    assert {row["method"] for row in rows} == set(table.METHODS)
    for row in rows:
        assert 0 < row["accuracy"] <= 1, row
        assert {"seed", "protocol", "steps", "seconds", "versions"} <= row.keys()
        assert row["steps"] == {"LDS": 2, **dict.fromkeys(table.SIMPLE, 0)}.get(row["method"], 10)
    best = {row["method"]: row["accuracy"] for row in rows if row["columns"] == "all"}
    assert min(best["random forest"], best[table.COLUMN_0]) > 0.9
    assert main(command) == 0
    assert path.read_text() == finished
    path.write_text(finished + '{"method": "dDGM"')
    assert main(command) == 2
    assert f"line {len(rows) + 1}" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_unknown_words_are_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any data are read, with the words that there are."""
    assert main(["reproduce", name, "--out", str(tmp_path), "--only", "dDGMM"]) == 2
    error = capsys.readouterr().err
    assert "'dDGMM'" in error
    assert "'dDGM'" in error
    assert not list(tmp_path.iterdir())


def test_catalogue_has_all_of_them() -> None:
    assert {name for name, (module, _) in CATALOGUE.items() if module == "tadpole"} == set(table.EXPERIMENTS)
