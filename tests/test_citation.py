"""Documents that cite each other: the loader, what methods may see, and the tables end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from latentgraph.cli import main
from latentgraph.datasets.planetoid import planetoid
from latentgraph.errors import InputError
from latentgraph.experiments import citation, random_splits
from latentgraph.experiments.catalogue import CATALOGUE, experiment
from latentgraph.experiments.citation_methods import METHODS, OURS, directions
from latentgraph.experiments.recipe import Recipe, Standardised
from latentgraph.experiments.results import Results, published

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "planetoid").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with planetoid/",
)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "classes", "links"),
    [("Cora", (2708, 1433), 7, 5278), ("CiteSeer", (3327, 3703), 6, 4552), ("PubMed", (19717, 500), 3, 44324)],
)
def test_documents_and_splits(name: str, shape: tuple[int, int], classes: int, links: int) -> None:
    documents = planetoid(name)
    assert documents.x.shape == shape
    assert int(documents.y.max()) + 1 == classes
    source, target = documents.edge_index
    assert len({(min(a, b), max(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True)}) == links
    sums = documents.x.sum(1)
    assert ((sums - 1).abs() < 1e-4)[sums > 0].all()
    n = shape[0]
    assert documents.train.nonzero()[:, 0].tolist() == list(range(n - 1000))  # the paper's: the order of the file
    assert documents.validation.nonzero()[:, 0].tolist() == list(range(n - 1000, n - 500))
    assert documents.test.nonzero()[:, 0].tolist() == list(range(n - 500, n))
    public = planetoid(name, split="public")
    assert int(public.train.sum()) == 20 * classes
    drawn, again, other = (planetoid(name, split="random", seed=seed) for seed in (1, 1, 2))
    assert int(drawn.test.sum()) == int(drawn.validation.sum()) == 500
    assert not (drawn.test & (drawn.validation | drawn.train)).any()
    assert (drawn.test == again.test).all()
    assert (drawn.test != other.test).any()


@pytest.mark.data
@needs_data
def test_no_method_sees_the_class_of_a_test_node() -> None:
    documents = planetoid("Cora")
    for rows_sum_to_one in (True, False):
        seen = citation.population(documents, rows_sum_to_one=rows_sum_to_one)
        assert (seen.y[documents.test] == -1).all()
        assert (seen.y[~documents.test] == documents.y[~documents.test]).all()
        assert not (seen.learn & (documents.test | documents.validation)).any()
        dense = seen.x.to_dense()
        torch.testing.assert_close(dense / dense.sum(1, keepdim=True).clamp_min(1e-9), documents.x)


@pytest.mark.data
@needs_data
def test_tables_run_end_to_end_and_share_their_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recipe and the paper's network learn something in 60 steps; a second table computes only what is new."""
    command = ["reproduce", "citation-dim", "--quick", "--out", str(tmp_path), "--only", "Cora"]
    assert main([*command, "dDGM, d=2"]) == 0
    assert main([*command, "dDGM, best"]) == 0
    assert main([*command, "ridge"]) == 0
    printed = capsys.readouterr().out
    assert "84.6 ± 0.9" in printed  # the paper's
    path = tmp_path / "citation-quick.jsonl"
    rows = {row["method"]: row for row in map(json.loads, path.read_text().splitlines())}
    assert rows["dDGM, best"]["accuracy"] > 0.8
    assert rows["ridge"]["accuracy"] > 0.7
    assert rows["dDGM, d=2"]["accuracy"] > 0.2
    assert rows["dDGM, d=2"]["steps"] == citation.QUICK_STEPS
    assert {"seed", "protocol", "seconds", "versions"} <= rows["ridge"].keys()
    before = path.read_text()
    assert main(["reproduce", "citation-k", "--quick", "--out", str(tmp_path), "--only", "ridge"]) == 0
    assert path.read_text() == before


@pytest.mark.data
@needs_data
def test_neighbours_of_documents_end_to_end(tmp_path: Path) -> None:
    """The nearest documents, found once or in every layer, on sparse features; the seed is named by its column."""
    command = ["reproduce", "citation-methods", "--quick", "--out", str(tmp_path), "--only", "Cora", "seed=0"]
    for method in ("DGCNN", "kNN-GCN"):
        assert main([*command, method]) == 0
    rows = [json.loads(line) for line in (tmp_path / "citation-quick.jsonl").read_text().splitlines()]
    assert {row["method"]: row["accuracy"] > 0.3 for row in rows} == {"DGCNN": True, "kNN-GCN": True}


def test_unknown_words_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "citation-k", "--out", str(tmp_path)]
    assert main([*command, "--only", "Korah"]) == 2
    message = capsys.readouterr().err
    assert "Korah" in message
    assert "dDGM, k=10" in message
    assert main([*command, "--seeds", "0"]) == 2
    assert main(["reproduce", "citation-k", "--data-root", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "does not exist" in capsys.readouterr().err
    with pytest.raises(InputError, match="there is: Cora"):
        planetoid("Corra", tmp_path)


def test_tables_are_the_papers() -> None:
    """Every row of a published table is computed, and every cell has a method."""
    for name, rows in citation.TABLES.items():
        assert {row for row in rows.values() if row} == set(published(name)["rows"])
    for name in CATALOGUE:
        if name.startswith("citation") and name != "citation-parts":  # its cells are parts of one method
            assert {cell["method"] for cell in experiment(name).cells(2, False, None)} <= set(METHODS)


def test_gains_on_random_splits_are_of_pairs(tmp_path: Path) -> None:
    """A split that only one of the two has been computed on does not count."""
    results = Results(tmp_path / "random-splits.jsonl", random_splits.KEY)
    for split, (ours, theirs) in enumerate([(0.80, 0.78), (0.70, 0.66), (0.90, None)]):
        results.add({"data": "Cora", "method": OURS, "split": split, "accuracy": ours})
        if theirs is not None:
            results.add({"data": "Cora", "method": "GCN", "split": split, "accuracy": theirs})
    accuracy, gained = random_splits.tables(results)
    gain = {row[0]: row[1] for row in gained.rows}
    assert accuracy.rows[0][:2] == [OURS, "80.0 ± 8.2 (3)"]
    assert gain["GCN"] == "+3.0 ± 1.0 (2)"  # 2 and 4 points
    assert gain["MLP"] == "-"


def test_standardised_embedding() -> None:
    x = Standardised()(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)) * 3 + 5)
    torch.testing.assert_close(x.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    assert float(x.square().sum(1).mean()) == pytest.approx(8, rel=1e-5)
    assert Standardised()(torch.ones(3, 2)).isfinite().all()


def test_recipe_diffuses_on_the_learned_graph_only() -> None:
    """Without edges of the given graph f still has the features, and g never sees the given graph."""
    from latentgraph.baselines.method import Population
    from latentgraph.datasets.synthetic import planted_partition

    problem = planted_partition(200, seed=0)
    hidden = torch.arange(200) % 5 == 0
    y = torch.where(hidden, -1, problem.y)
    people = Population(problem.x, y, 4, torch.arange(200) % 5 == 1, problem.edge_index)
    method = Recipe(0, steps=60).fit(people)
    right = (method.predict(people) == problem.y)[hidden].float().mean()
    assert float(right) > 0.6
    _, graphs = method.net(people.x, people.edge_index)
    assert graphs[0].neighbors.shape == (200, 20)


def test_neighbours_of_documents_are_found_by_their_angle() -> None:
    words = torch.tensor([[9.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 5, 5], [0, 0, 1, 1], [0, 0, 0, 0]])
    distance = torch.cdist(directions(words), directions(words)).fill_diagonal_(9.0)
    assert distance.argmin(1)[:4].tolist() == [1, 0, 3, 2]  # whatever their lengths
    assert distance[:4, 4].tolist() == pytest.approx([2**0.5] * 4)  # no words: as far as documents can be
