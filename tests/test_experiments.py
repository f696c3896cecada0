"""The suite of tables end to end, its loaders, and the results file."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from latentgraph.cli import main
from latentgraph.datasets.brainage import brainage
from latentgraph.datasets.news import news
from latentgraph.datasets.nhanes import DIABETES, diabetes
from latentgraph.experiments import docs, suite
from latentgraph.experiments.catalogue import CATALOGUE, IN_FULL, experiment
from latentgraph.experiments.experiment import best_first
from latentgraph.experiments.results import Results, versions
from latentgraph.experiments.running import _words, results_file
from latentgraph.experiments.suite_data import TABLES

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "tadpole").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with tadpole/",
)


def test_results_survive_reopening(tmp_path: Path) -> None:
    path = tmp_path / "deep/results.jsonl"
    results = Results(path, key=("method",))
    results.add({"method": "a", "accuracy": 0.5})
    again = Results(path, key=("method",))
    assert again.has(method="a")
    assert not again.has(method="b")
    assert again.column("accuracy", method="a") == [0.5]
    assert "torch" in again.rows[0]["versions"]


def test_a_cell_that_two_processes_computed_counts_once(tmp_path: Path) -> None:
    for accuracy in (0.5, 0.6):
        Results(tmp_path / "r.jsonl", key=("method",)).add({"method": "a", "accuracy": accuracy})
    path = tmp_path / "r.jsonl"
    assert len(path.read_text().splitlines()) == 2
    assert Results(path, key=("method",)).column("accuracy", method="a") == [0.6]


@pytest.mark.parametrize("name", CATALOGUE)
def test_tables_of_nothing(name: str, tmp_path: Path) -> None:
    """Before anything is computed there is nothing to show, and no error."""
    found = experiment(name)
    for table in found.tables(Results(tmp_path / "none.jsonl", found.key)):
        assert all(len(row) == len(table.header) for row in table.rows)


def test_suite_of_tables_runs_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "tables", "--quick", "--out", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "with 5 % of the training labels" in printed
    assert "mean rank" in printed
    path = tmp_path / "tables-quick.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 2 * 2 * len(suite.METHODS)
    ours = [row["accuracy"] for row in rows if row["method"] == suite.OURS]
    assert min(ours) > 0.85
    first = path.read_text()
    assert main(command) == 0
    assert path.read_text() == first


def test_few_labels_are_kept_in_every_class() -> None:
    split = TABLES["wine"](0, None)
    few = split.with_few_labels(0)
    assert np.bincount(few.y[few.y >= 0]).tolist() == [round(0.05 * n) for n in np.bincount(split.y)]
    assert (few.y == split.y)[few.y >= 0].all()


def test_mean_rank_and_daggers(tmp_path: Path) -> None:
    """Ours 0.9, one method 0.95, the others 0.5: rank 2; within a standard error only if the seeds differ enough."""
    results = Results(tmp_path / "x.jsonl", key=suite.KEY)
    for seed, noise in enumerate((-0.2, 0.2)):
        for method in suite.METHODS:
            accuracy = {suite.OURS: 0.9, "kNN": 0.95}.get(method, 0.5)
            row = {"table": "wine", "labels": "all", "seed": seed, "method": method, "accuracy": accuracy + noise}
            results.add(row)
    rows = {row[0]: row for row in suite.table(results, "all")}
    assert rows[suite.OURS] == [suite.OURS, "90.0 ± 20.0†", "2.00"]
    assert rows["kNN"][2] == "1.00"
    assert not rows["MLP"][1].endswith("†")


@pytest.mark.data
@needs_data
def test_tables_of_the_suite() -> None:
    """Sizes, no person twice, nothing that gives diabetes away, groups that all occur."""
    people = brainage()
    assert people.x.shape == (1714, 71)
    assert np.isfinite(people.x).all()
    adults = diabetes()
    assert len(adults) == 5098
    assert adults["AgeInYearsAtScreening"].astype(float).min() >= 20
    assert not [name for name in adults if "iabet" in name and name != DIABETES]
    texts, groups = news()
    assert len(texts) == len(groups) == 18846
    assert len(set(groups)) == 20


def test_a_cell_is_named_by_values_or_columns() -> None:
    """Where a number could be a seed or a fold, the column tells."""
    words = _words({"method": "dDGM", "fold": 0, "seed": 3})
    assert {"dDGM", "0", "3", "fold=0", "seed=3", "method=dDGM"} == words


def test_results_tell_the_commit() -> None:
    """In a checkout; and there is none where there is no repository."""
    checkout = Path(__file__).parents[1]
    assert ("commit" in versions()) == ((checkout / ".git").exists() and shutil.which("git") is not None)
    assert {"python", "latentgraph", "torch"} <= versions().keys()


def test_methods_are_ordered_by_what_all_have() -> None:
    """A method is not first because the hard data sets are missing."""
    found = {"easy alone": [[0.9], []], "both": [[0.95, 0.97], [0.3]], "worse": [[0.7], [0.8]]}
    assert best_first(found) == ["both", "easy alone", "worse"]
    assert best_first({"b": [[]], "a": [[]]}) == ["b", "a"]  # nothing in common: as they came


def test_published_tables_say_where_they_are_from() -> None:
    text = (Path(docs.__file__).parent / "published.json").read_text(encoding="utf-8")
    assert all(table["label"] and table["rows"] for table in json.loads(text).values())


def test_pages_show_the_results_files() -> None:
    """Every table of the catalogue is on a page, once, as its results file has it: `make results` renews the pages."""
    root = Path(__file__).parents[1]
    shown = []
    for path in (root / "docs").glob("*.md"):
        page = path.read_text(encoding="utf-8")
        shown += [place["name"] for place in docs.PLACE.finditer(page)]
        assert docs.render(page, root / "results") == page, path.name
    assert sorted(shown) == sorted(set(CATALOGUE) - set(IN_FULL.values()))


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in IN_FULL.values()])
def test_committed_cells_are_of_the_experiment(name: str) -> None:
    """No cell is there twice, or belongs to no table, and each says how it was computed."""
    root = Path(__file__).parents[1]
    found = experiment(name)
    results = Results(results_file(name, root / "results"), found.key)
    named = [tuple(row[column] for column in found.key) for row in results.rows]
    assert len(set(named)) == len(named)
    assert {"protocol", "seconds", "versions"} <= set.intersection(*(set(row) for row in results.rows))
    wanted = {tuple(cell[column] for column in found.key) for cell in found.cells(found.seeds, False, None)}
    assert wanted & set(named)
