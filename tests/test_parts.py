"""The recipe with one part changed: every change does something, is new in each run, and no test node is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from latentgraph.baselines.method import Population
from latentgraph.datasets.planetoid import Citations
from latentgraph.datasets.synthetic import planted_partition
from latentgraph.experiments import parts
from latentgraph.experiments.citation import population
from latentgraph.experiments.parts import BESIDE, METHODS, RECIPE, SPLITS
from latentgraph.experiments.random_splits import SPLITS as TESTED
from latentgraph.experiments.results import Results

STEPS = 3
NAMES = [name for name in METHODS if name not in (RECIPE, BESIDE)]
SAME = ("the best accuracy is kept, not likelihood", "up to 1,000 steps, patience 200")  # in three steps


@pytest.fixture(scope="module")
def documents() -> Citations:
    x, y, edges = planted_partition(60, homophily=0.8, signal=1.0, features=20, seed=0)
    assert edges is not None
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    masks = torch.zeros(3, 60, dtype=torch.bool)
    for mask, rows in zip(masks, order.split([30, 15, 15]), strict=True):
        mask[rows] = True
    return Citations(x.abs(), y, edges, *masks)


@pytest.fixture(scope="module")
def seen(documents: Citations) -> Population:
    return population(documents, rows_sum_to_one=True)


def chances(name: str, seen: Population) -> torch.Tensor:
    method = METHODS[name](0, STEPS)
    method.steps = STEPS  # one of the parts makes more
    return method.fit(seen).predict_proba(seen)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_changes_what_is_learned(name: str, seen: Population) -> None:
    changed = chances(name, seen)
    assert changed.isfinite().all()
    torch.testing.assert_close(changed.sum(1), torch.ones(len(changed)))
    if name not in SAME:
        assert not torch.equal(changed, chances(RECIPE, seen))


@pytest.mark.parametrize("name", ["the same, curvature learned", "as many as beat a learned threshold"])
def test_a_run_leaves_nothing_to_the_next(name: str, seen: Population) -> None:
    assert torch.equal(chances(name, seen), chances(name, seen))


def test_test_nodes_are_not_looked_at(documents: Citations, monkeypatch: pytest.MonkeyPatch) -> None:
    other = documents._replace(y=torch.where(documents.test, 1 - documents.y, documents.y))
    found = []
    for world in (documents, other):
        monkeypatch.setattr(parts, "citations", lambda *_, world=world: world)
        found.append(parts.compute({"data": "Cora", "part": RECIPE, "split": 10}, True, None))
    assert found[0] == found[1]
    assert set(found[0]) == {"validation", "steps"}


def test_splits_are_not_those_of_the_tables() -> None:
    splits = {cell["split"] for cell in parts.cells(SPLITS, False)}
    assert min(splits) == TESTED
    assert len(splits) == SPLITS


def test_differences_are_of_the_same_split(tmp_path: Path) -> None:
    results = Results(tmp_path / "parts.jsonl", parts.KEY)
    for split, recipe, other in ((10, 0.80, 0.82), (11, 0.70, 0.74), (12, 0.90, None)):
        results.add({"data": "Cora", "part": RECIPE, "split": split, "validation": recipe})
        if other is not None:
            results.add({"data": "Cora", "part": "k = 5", "split": split, "validation": other})
    (table,) = parts.tables(results)
    row = {row[1]: row[2:4] for row in table.rows}
    assert row["k = 5"] == ["78.0 ± 4.0 (2)", "+3.0 ± 1.0 (2)"]
    assert row[RECIPE][1] == "-"
