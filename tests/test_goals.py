"""Goals: differences are of pairs, a goal is reached by more than two standard errors, and what is named exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.goals import GOALS, Choice, Goal, table
from latentgraph.experiments.goals_figure import figure
from latentgraph.experiments.results import Results

OURS, RIVAL = "ours", "rival"


def row(tmp_path: Path, ours: list[float], theirs: list[float | None], rival: str | tuple[str, float]) -> list[str]:
    results = Results(tmp_path / "r.jsonl", ("method", "split"))
    for method, runs in ((OURS, ours), (RIVAL, theirs)):
        for split, accuracy in enumerate(runs):
            if accuracy is not None:
                results.add({"data": "D", "method": method, "split": split, "accuracy": accuracy})
    return Goal("D", "citation-random", "split", OURS, rival, {"data": "D"}, wanted=3).row(results)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference", "answer"),
    [
        ([0.80, 0.90, 0.70], [0.78, 0.86, 0.68], "+2.7 ± 0.7", "**yes**"),
        ([0.78, 0.86, 0.68], [0.80, 0.90, 0.70], "-2.7 ± 0.7", "no, below"),
        ([0.80, 0.90, 0.70], [0.70, 0.92, 0.70], "+2.7 ± 3.7", "no, level"),
    ],
)
def test_reached_by_two_standard_errors(
    tmp_path: Path, ours: list[float], theirs: list[float | None], difference: str, answer: str
) -> None:
    found = row(tmp_path, ours, theirs, RIVAL)
    assert found[5:] == [difference, "3", answer]


def test_only_pairs_count(tmp_path: Path) -> None:
    found = row(tmp_path, [0.80, 0.90, 0.70], [0.78, None, 0.66], RIVAL)
    assert found[2:] == ["75.0 ± 5.0", RIVAL, "72.0 ± 6.0", "+3.0 ± 1.0", "2 of 3", "yes, so far"]
    assert row(tmp_path / "one", [0.8], [0.7], RIVAL)[5:] == ["-", "1 of 3", "not yet known"]
    assert row(tmp_path / "none", [], [], RIVAL)[5:] == ["-", "0 of 3", "not yet known"]


@pytest.mark.parametrize(("rival", "pairs"), [("ridge", 3), ("GCN", 1)])
def test_only_a_method_without_chance_stands_beside_every_seed(tmp_path: Path, rival: str, pairs: int) -> None:
    results = Results(tmp_path / "r.jsonl", ("method", "seed"))
    for method, runs in ((OURS, [0.80, 0.82, 0.81]), (rival, [0.7])):
        for seed, accuracy in enumerate(runs):
            results.add({"method": method, "seed": seed, "accuracy": accuracy})
    assert Goal("D", "citation-methods", "seed", OURS, rival, wanted=pairs).row(results)[6] == str(pairs)


def test_a_printed_number_stands_beside_every_run(tmp_path: Path) -> None:
    assert row(tmp_path, [0.80, 0.82, 0.81], [], ("printed", 80.0))[3:7] == ["printed", "80.0", "+1.0 ± 0.6", "3"]


def test_validation_chooses_among_several(tmp_path: Path) -> None:
    """On each split by itself, without a look at the accuracy."""
    results = Results(tmp_path / "r.jsonl", ("method", "split"))
    for method, split, validation, accuracy in (
        ("a", 0, 0.9, 0.7),
        ("b", 0, 0.8, 0.9),
        ("a", 1, 0.5, 0.9),
        ("b", 1, 0.6, 0.5),
        ("rival", 0, 0.0, 0.5),
        ("rival", 1, 0.0, 0.5),
    ):
        results.add({"data": "D", "method": method, "split": split, "validation": validation, "accuracy": accuracy})
    goal = Goal("D", "heterophilic", "split", Choice("a or b", ("a", "b")), "rival", {"data": "D"}, wanted=2)
    assert goal.row(results)[1:5] == ["a or b", "60.0 ± 10.0", "rival", "50.0 ± 0.0"]


def test_no_choice_before_all_are_there(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.jsonl", ("method", "split"))
    for method in ("a", "rival"):
        results.add({"data": "D", "method": method, "split": 0, "validation": 0.5, "accuracy": 0.5})
    goal = Goal("D", "heterophilic", "split", Choice("a or b", ("a", "b")), "rival", {"data": "D"}, wanted=2)
    assert goal.pairs(results) == []
    assert goal.row(results)[2:] == ["-", "rival", "-", "-", "0 of 2", "not yet known"]


def test_picture_has_a_line_for_each_goal_with_pairs() -> None:
    pytest.importorskip("matplotlib")
    root = Path(__file__).parents[1] / "results"
    axes = figure(root).axes[0]
    known = [row for row in table(root).rows if row[-1] != "not yet known"]
    assert len(axes.get_yticklabels()) == len(known)
    points = [float(bar.lines[0].get_xdata()[0]) for bar in axes.containers]  # type: ignore[attr-defined]
    assert [f"{point:+.1f}" for point in points] == [row[5].split()[0] for row in known]


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.shown}: {goal.to_beat}")
def test_goals_name_cells_that_exist(goal: Goal) -> None:
    found = experiment(goal.table)
    cells = found.cells(found.seeds, False, None)
    named = [goal.ours] if isinstance(goal.rival, tuple) else [goal.ours, goal.rival]
    for method in {one for name in named for one in ((name,) if isinstance(name, str) else name.methods)}:
        there = [c for c in cells if c["method"] == method and all(c[key] == v for key, v in goal.where.items())]
        without_chance = method == "ridge" and goal.pair == "seed"
        assert len({c[goal.pair] for c in there}) == (1 if without_chance else goal.wanted)
