"""`latentgraph tune`: what it may see, what it promises, and that nothing of a search is lost."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from latentgraph.cli import main
from latentgraph.errors import InputError
from latentgraph.runs import folder, scores, study, testing, tuning
from latentgraph.runs.options import DEFAULTS
from latentgraph.runs.plan import Plan
from latentgraph.runs.search_space import SPACE, Choice, Range, searched
from latentgraph.runs.tuning import Search
from latentgraph.tables import Target
from test_resume import tiny_table

QUICK = {"steps": 3, "samples": 1, "trees": 5, "k": 3}


@pytest.fixture
def search(tmp_path: Path) -> Search:
    plan = Plan(tiny_table(tmp_path / "table.csv"), "kind", options=DEFAULTS | QUICK)
    return Search(plan, ["k", "dropout", "learning_rate"], folds=2, trials=3)


def lines(out: Path) -> list[dict[str, str]]:
    with open(out / tuning.TRIALS, newline="") as file:
        return list(csv.DictReader(file))


def options_in(path: Path) -> dict[str, Any]:
    """A file for `--config`: every line has a name and, in JSON, its value."""
    pairs = (line.split(": ", 1) for line in path.read_text().splitlines())
    return {name: json.loads(value) for name, value in pairs}


def test_where_is_searched() -> None:
    """Broken: a given value is not in its own range, so that the first trial is another; or nonsense is searched."""
    assert searched([], DEFAULTS) == SPACE, "the defaults are inside"
    assert set(SPACE) <= set(DEFAULTS)
    found = searched(["k", "trees", "dropout"], {"k": 99, "trees": 7, "dropout": 0.7})
    assert found == {"k": Range(3, 99, log=True), "trees": Choice((0, 100, 200, 400, 7)), "dropout": Range(0.0, 0.7)}
    with pytest.raises(InputError, match=r"search=seed: that is not searched\. There is: k, hidden"):
        searched(["seed"], DEFAULTS)
    with pytest.raises(InputError, match="weight_decay=0, but it is searched on a logarithmic scale"):
        searched(["weight_decay"], {"weight_decay": 0})


def test_test_rows_are_not_seen(search: Search, tmp_path: Path) -> None:
    """Broken: what `fit` tests on with the same seed has an influence on a search."""
    frame = search.plan.read()
    target = Target.fit(frame, "kind")
    ((train, test),) = testing.splits(search.plan, target.encode(frame))
    rows = tuning.rows_to_learn_from(search)
    assert len(rows.y) == len(train)
    assert rows.frame["a"].tolist() == frame["a"].iloc[train].tolist()
    assert not set(rows.frame["a"]) & set(frame["a"].iloc[test])

    tuning.run(search, tmp_path / "one")
    other = pd.read_csv(search.plan.table)
    other.loc[test, list("abcd")] = 1e6  # absurd values, which would change scale, forest and graph
    other.to_csv(tmp_path / "other.csv", index=False)
    tuning.run(replace(search, plan=replace(search.plan, table=tmp_path / "other.csv")), tmp_path / "two")
    assert lines(tmp_path / "one") == lines(tmp_path / "two")


def test_what_a_score_is(search: Search) -> None:
    """Broken: folds are scored on rows they learned from, or a number is not what the documentation says it is."""
    rows, seen = tuning.rows_to_learn_from(search), []
    found = tuning.validated(search.plan, rows, lambda so_far: seen.append(len(so_far)))
    assert seen == [1, 2]
    for score, split in zip(found, rows.splits, strict=True):
        assert not set(split[0]) & set(split[1])
        _, probability = testing.predicted(search.plan, rows.frame, rows.target, rows.y, split)
        own = probability[np.arange(len(split[1])), rows.y[split[1]]]
        assert score == pytest.approx(-np.log(own).mean())


def test_from_the_command_to_fit(
    search: Search, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: the given options are not tried first, the best is not the best, or `fit` does not take what is left."""
    monkeypatch.setattr(scores, "baselines", lambda task, seed: {})
    out = tmp_path / "tuned"
    options = [f"--{name}={value}" for name, value in QUICK.items()]
    command = ["tune", str(search.plan.table), "--target", "kind", *options, "--out", str(out), "--trials", "3"]
    command += ["--folds", "2", "--search", "[k, dropout, learning_rate]"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    table = lines(out)
    assert [line["trial"] for line in table] == ["0", "1", "2"]
    assert (table[0]["k"], table[0]["dropout"], table[0]["learning_rate"]) == ("3", "0.3", "0.01")
    best = min(table, key=lambda line: float(line["score"]))
    assert summary["best"] == float(best["score"]) <= summary["given"] == float(table[0]["score"])
    tuned = options_in(out / tuning.TUNED)
    assert tuned["k"] == int(best["k"])
    assert tuned["dropout"] == float(best["dropout"])
    assert tuned["hidden"] == DEFAULTS["hidden"]

    assert main(command) == 0  # there are as many trials as were asked for
    said = capsys.readouterr()
    assert "0, as given" in said.out
    assert f"latentgraph fit --config {out}/tuned.yaml" in said.out
    assert lines(out) == table
    assert main(["fit", "--config", str(out / tuning.TUNED), "--out", str(tmp_path / "run")]) == 0
    assert options_in(tmp_path / "run" / folder.CONFIG) == tuned
    capsys.readouterr()

    for more, words in {
        ("--seed", "1"): "begun differently: seed was 0, now 1. ",
        ("--search", "[k]"): "search was ['k', 'dropout', 'learning_rate'], now ['k']",
        ("--folds", "1"): "folds=1, trials=3, jobs=1; they must be at least 2, 1 and 1",
        ("--time-limit", "-1"): "time_limit=-1.0",
        ("--out", str(search.plan.table)): "is a file",
    }.items():
        assert main([*command, *more]) == 2
        assert words in capsys.readouterr().err


def test_a_killed_search_goes_on(search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: finished trials are lost or repeated, or the given options are forgotten if they were interrupted."""
    calls: list[dict[str, Any]] = []
    stop_at = {1, 3}
    validated = tuning.validated

    def until_ctrl_c(plan: Plan, rows: Any, report: Any) -> list[float]:
        calls.append(dict(plan.options))
        if len(calls) in stop_at:
            raise KeyboardInterrupt
        return validated(plan, rows, report)

    monkeypatch.setattr(tuning, "validated", until_ctrl_c)
    for finished in (0, 1):
        with pytest.raises(KeyboardInterrupt):
            tuning.run(search, tmp_path / "out")
        assert len(study.finished(tmp_path / "out" / tuning.JOURNAL)) == finished
    summary = tuning.run(search, tmp_path / "out")
    assert calls[0] == calls[1] == search.plan.options, "the given options come first, again if need be"
    assert calls[2] == calls[3], "an interrupted trial is made again"
    assert len(calls) == 5
    assert [trial["given"] for trial in sorted(summary["trials"], key=lambda t: t["number"])] == [True, False, False]
    assert summary["best"] <= summary["given"]
    more = tuning.run(replace(search, trials=4), tmp_path / "out")
    assert len(more["trials"]) == 4
    assert len(calls) == 6


Objective = Callable[[dict[str, Any], Callable[[list[float]], None]], list[float]]


def test_bad_trials_end_early(tmp_path: Path) -> None:
    """Broken: every trial goes through all folds, or the given options are ended early, or a fault blocks the study."""
    journal, space = tmp_path / "journal", {"k": Range(1, 9)}

    def objective(level: float) -> Objective:
        def of(options: dict[str, Any], report: Callable[[list[float]], None]) -> list[float]:
            found: list[float] = []
            for fold in range(3):
                found.append(level + fold)
                report(found)
            return found

        return of

    def made(level: float) -> study.Trial:
        trial = study.try_next(journal, space, objective(level), trials=99, seed=0)
        assert trial is not None
        return trial

    study.prepare(journal, {"k": 4}, alone=True)
    first = made(50.0)
    assert (first.given, first.options, first.score) == (True, {"k": 4}, 51.0)
    assert all(made(10.0 + i).score for i in range(study.FIRST - 1))
    bad, good = made(40.0), made(1.0)
    assert (bad.state, bad.scores, bad.score) == ("ended early", [40.0], None)
    assert good.score == 2.0
    assert tuning.ranked(study.finished(journal))[0] == good
    with pytest.raises(ZeroDivisionError):
        study.try_next(journal, space, lambda options, report: [1 / 0], trials=99, seed=0)
    assert len(study.finished(journal)) == study.FIRST + 2
    assert study.try_next(journal, space, objective(0.0), trials=study.FIRST + 2, seed=0) is None


def test_several_processes_share_a_search(search: Search, tmp_path: Path) -> None:
    """Broken: trials are made twice, or another process's trial is taken for one that was interrupted."""
    summary = tuning.run(search, tmp_path / "out", jobs=2)
    assert sorted(trial["number"] for trial in summary["trials"]) == [0, 1, 2]
    assert sum(trial["given"] for trial in summary["trials"]) == 1
    assert len(lines(tmp_path / "out")) == 3
    with folder.sharing(tmp_path / "out") as alone:
        assert alone
        with folder.sharing(tmp_path / "out") as both:
            assert both is (sys.platform == "win32")
    journal = tmp_path / "journal"
    study.prepare(journal, {"k": 4}, alone=True)
    with pytest.raises(KeyboardInterrupt):
        study.try_next(journal, {"k": Range(1, 9)}, _interrupted, trials=9, seed=0)
    study.prepare(journal, {"k": 4}, alone=False)  # it may be at work still
    assert study.try_next(journal, {"k": Range(1, 9)}, lambda o, r: [1.0], trials=1, seed=0) is None


def _interrupted(options: dict[str, Any], report: Any) -> list[float]:
    raise KeyboardInterrupt


def test_time_is_up(search: Search, tmp_path: Path) -> None:
    """Broken: the limit is ignored, or so strict that nothing is tried at all."""
    summary = tuning.run(search, tmp_path / "out", time_limit=1e-9)
    assert [trial["given"] for trial in summary["trials"]] == [True]


def test_without_optuna(search: Search, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: a missing extra is a traceback, or is needed for other commands."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "latentgraph.runs.study")
    monkeypatch.delattr("latentgraph.runs.study")
    assert main(["tune", str(search.plan.table), "--target", "kind"]) == 2
    assert 'tune needs optuna. Install it with: pip install "latentgraph[tune]"' in capsys.readouterr().err
