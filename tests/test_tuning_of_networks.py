"""Tuning: every method gets as many trials, from the validation nodes alone, and the best one is what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from latentgraph.datasets.planetoid import Citations
from latentgraph.datasets.synthetic import planted_partition
from latentgraph.experiments import tuning
from latentgraph.experiments.citation_methods import OURS
from latentgraph.experiments.random_splits import SPLITS
from latentgraph.experiments.results import Results
from latentgraph.experiments.running import results_file
from latentgraph.experiments.tuning import CHOSEN, SPACES, TRIALS, VOTING, best_trial, settings


@pytest.fixture(scope="module")
def documents() -> Citations:
    x, y, edges = planted_partition(60, homophily=0.8, signal=1.0, features=20, seed=0)
    assert edges is not None
    masks = torch.zeros(3, 60, dtype=torch.bool)
    for number in range(3):
        masks[number, number::3] = True
    return Citations(x.abs(), y, edges, *masks)


@pytest.mark.parametrize("method", SPACES)
def test_trials_differ_and_stay_the_same(method: str) -> None:
    drawn = [settings(method, trial) for trial in range(TRIALS)]
    assert drawn[0] == {}
    assert drawn == [settings(method, trial) for trial in range(TRIALS)]
    assert len({str(found) for found in drawn}) > TRIALS // 2
    for found in drawn[1:]:
        assert all(found[name] in values for name, values in SPACES[method].items())


@pytest.mark.parametrize("method", SPACES)
def test_settings_reach_the_network(method: str) -> None:
    made = tuning.make(method, 1, 0, 5)
    for name, value in settings(method, 1).items():
        if name != "auxiliary":
            assert getattr(made, name) == value
    if method == OURS:
        assert made.more == {"auxiliary_weight": settings(method, 1)["auxiliary"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", SPACES)
def test_trials_do_not_look_at_test_nodes(method: str, documents: Citations, monkeypatch: pytest.MonkeyPatch) -> None:
    other = documents._replace(y=torch.where(documents.test, 1 - documents.y, documents.y))
    monkeypatch.setattr(tuning, "QUICK_STEPS", 3)
    found = []
    for world in (documents, other):
        monkeypatch.setattr(tuning, "citations", lambda *_, world=world: world)
        found.append(tuning.try_settings({"data": "Cora", "method": method, "trial": 1, "split": 10}, True, None))
    assert found[0] == found[1]
    assert found[0]["settings"] == settings(method, 1)


def test_every_method_has_the_same_budget() -> None:
    cells = tuning.tuning_cells(tuning.TRIAL_SPLITS, False)
    count = {method: sum(cell["method"] == method for cell in cells) for method in SPACES}
    assert set(count.values()) == {3 * TRIALS * tuning.TRIAL_SPLITS}
    assert min(cell["split"] for cell in cells) == SPLITS


def test_the_best_mean_is_chosen_when_all_are_there(tmp_path: Path) -> None:
    results = Results(tmp_path / "tuning.jsonl", ("data", "method", "trial", "split"))
    for trial in range(TRIALS):
        for split in (10, 11):
            assert best_trial(results, "Cora", "GCN") is None
            better = 0.02 if trial == 7 else 0.03 * (trial == 3 and split == 10)
            results.add({"data": "Cora", "method": "GCN", "trial": trial, "split": split, "validation": 0.8 + better})
    assert best_trial(results, "Cora", "GCN") == 7


@pytest.mark.parametrize("data", CHOSEN)
def test_chosen_trials_are_the_best_of_the_results_file(data: str) -> None:
    root = Path(__file__).parents[1] / "results"
    results = Results(results_file("citation-tuning", root), ("data", "method", "trial", "split"))
    best = {method: best_trial(results, data, method) for method in SPACES}
    assert CHOSEN[data] == {method: trial for method, trial in best.items() if trial is not None}


def test_the_vote_has_the_settings_of_its_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHOSEN, "Cora", dict.fromkeys(SPACES, 2))
    vote = tuning._fitted("Cora", VOTING)(0, 5)
    assert all(member.hidden == settings("GCN", 2)["hidden"] for member in vote.members)  # type: ignore[attr-defined]
    assert len({member.seed for member in vote.members}) == 8  # type: ignore[attr-defined]
