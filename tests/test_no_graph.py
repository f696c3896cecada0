"""Few labels and no graph: the cuts, what methods may see, the recipe's parts, and the table end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from latentgraph.baselines import simple
from latentgraph.baselines.method import Population
from latentgraph.cli import main
from latentgraph.datasets.synthetic import planted_partition
from latentgraph.errors import InputError
from latentgraph.experiments import no_graph
from latentgraph.experiments.few_labels import Hops, Smoothed, principal_directions, weighted
from latentgraph.experiments.no_graph_data import DATA, LABELS, without_graph
from latentgraph.experiments.results import published
from latentgraph.layers import DiscreteDGM

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "planetoid").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with planetoid/",
)


@pytest.mark.parametrize(("data", "rows"), [("wine", 178), ("cancer", 569), ("digits", 1797)])
def test_cuts_of_tables(data: str, rows: int) -> None:
    """Every row has one part; the classes have the same proportions; another seed draws others."""
    found, other = without_graph(data, 0, None), without_graph(data, 1, None)
    assert len(found.x) == rows
    assert (int(found.train.sum()), int(found.validation.sum())) == LABELS[data]
    assert (found.train.long() + found.validation.long() + found.test.long() == 1).all()
    share = found.y.bincount() / rows
    drawn = found.y[found.train].bincount(minlength=len(share)) / LABELS[data][0]
    assert float((share - drawn).abs().max()) < 0.11
    assert found.edge_index.shape == (2, 0)
    assert (found.train != other.train).any()
    assert int(without_graph(data, 0, None, learn=30).train.sum()) == 30


@pytest.mark.data
@needs_data
def test_cuts_of_documents() -> None:
    """As many messages and words as the comparison of LDS has; links of citations are withheld."""
    messages = without_graph("20news", 0, None)
    assert messages.x.shape == (9607, 236)
    documents = without_graph("Cora", 0, None)
    assert documents.edge_index.shape == (2, 0)
    assert int(documents.train.sum()) == 140
    few = without_graph("Cora", 0, None, learn=35)
    assert few.y[few.train].bincount().tolist() == [5] * 7
    assert not (few.train & ~documents.train).any()


def test_no_method_sees_the_class_of_a_test_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spy(simple.Simple):
        def fit(self, population: Population) -> Spy:
            seen.append(population)
            return self

        def predict(self, population: Population) -> torch.Tensor:
            return torch.zeros(len(population.y), dtype=torch.long)

    seen: list[Population] = []
    monkeypatch.setitem(no_graph.METHODS, "spy", lambda seed, steps: Spy(lambda _: None))
    no_graph.compute({"data": "wine", "method": "spy", "seed": 2}, True, None)
    rows = without_graph("wine", 2, None)
    assert (seen[0].y[rows.test] == -1).all()
    assert torch.equal(seen[0].learn, rows.train)


def test_the_classifier_as_it_comes_gets_labels_to_learn_from_only(monkeypatch: pytest.MonkeyPatch) -> None:
    method = no_graph.FromLearnedRows(0, steps=1)
    told = []
    monkeypatch.setattr(method.model, "fit", lambda x, y: told.append(y))
    rows = without_graph("wine", 0, None)
    y = torch.where(rows.test, -1, rows.y)
    method.fit(Population(rows.x, y, 3, rows.validation))
    assert ((told[0] >= 0) == rows.train.numpy()).all()


def test_weights_of_words() -> None:
    """A word in one of four rows weighs log 4, one in all rows nothing; columns of a table are left alone."""
    words = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    found = weighted(words.to_sparse_csr())
    assert found.layout is torch.sparse_csr
    dense = found.to_dense()
    assert dense[0].tolist() == pytest.approx([4.0, 0.0, 0.0, 0.0])
    assert dense[2].tolist() == [0.0] * 4
    assert weighted(torch.tensor([[3.0, 4.0]]))[0].tolist() == pytest.approx([2.4, 3.2])


def test_principal_directions() -> None:
    """Where rows lie in a plane, two directions keep all that there is."""
    generator = torch.Generator().manual_seed(0)
    plane = torch.randn(2, 100, generator=generator, dtype=torch.float64)
    rows = torch.randn(40, 2, generator=generator, dtype=torch.float64) @ plane
    start = principal_directions(rows, most=2)
    assert start.shape == (2, 100)
    torch.testing.assert_close(rows @ start.T @ start, rows)
    assert torch.equal(principal_directions(torch.randn(5, 3), most=3), torch.eye(3))


@pytest.mark.parametrize("by_probability", [True, False])
def test_hops_by_hand(by_probability: bool) -> None:
    """Two neighbours each, everybody else: equal weights, or those of the probabilities, which f can learn by."""
    x_hat = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)
    graph = DiscreteDGM(torch.nn.Identity(), 2, temperature=0.3)(x_hat)
    equal = (1 - torch.eye(3)) / 2
    probable = (-0.3 * (x_hat - x_hat.T).square()).masked_fill(torch.eye(3, dtype=torch.bool), -torch.inf).softmax(1)
    smooth = (torch.eye(3) + (probable if by_probability else equal)) / 2
    h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    found = Hops(2, by_probability=by_probability)(h, graph)
    torch.testing.assert_close(found, smooth @ smooth @ h)
    with pytest.raises(InputError, match="sampled graph"):
        Hops(1)(h, torch.zeros(2, 0, dtype=torch.long))


def test_label_spreading_learns_from_the_rows_to_learn_from() -> None:
    """The rows to stop by choose how many neighbours, and no more: with their classes swapped little changes."""
    problem = planted_partition(200, signal=1.5, seed=0)
    hidden = torch.arange(200) % 5 == 0
    stop = torch.arange(200) % 5 == 1
    y = torch.where(hidden, -1, problem.y)
    method = simple.label_spreading((5, 20)).fit(Population(problem.x, y, 4, stop))
    found = method.predict(Population(problem.x, y, 4, stop))
    assert float((found == problem.y)[hidden].float().mean()) > 0.8
    wrong = torch.where(stop, (problem.y + 1) % 4, y)
    other = simple.label_spreading((5,)).fit(Population(problem.x, wrong, 4, stop))
    assert torch.equal(other.predict(Population(problem.x, wrong, 4, stop)), _spread(problem.x, y, stop))


def _spread(x: torch.Tensor, y: torch.Tensor, stop: torch.Tensor) -> torch.Tensor:
    from sklearn.semi_supervised import LabelSpreading

    told = torch.where(stop, -1, y)
    return torch.as_tensor(LabelSpreading(kernel="knn", n_neighbors=5, max_iter=100).fit(x, told).transduction_)


def test_recipe_smooths_over_alike_rows() -> None:
    """Ten labels of 300 rows, classes that features tell apart: better than chance by far."""
    problem = planted_partition(300, signal=1.0, seed=1)
    learn, stop = torch.arange(300) < 12, (torch.arange(300) >= 12) & (torch.arange(300) < 36)
    y = torch.where(learn | stop, problem.y, -1)
    people = Population(problem.x, y, 4, stop)
    method = Smoothed(0, steps=40, k=10).fit(people)
    right = (method.predict(people) == problem.y)[~(learn | stop)]
    assert float(right.float().mean()) > 0.7


def test_every_data_set_has_a_printed_number() -> None:
    assert all(set(row) == set(DATA) for row in published("no-graph")["rows"].values())


def test_table_runs_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "no-graph", "--quick", "--out", str(tmp_path), "--only", "wine"]
    for method in (no_graph.BEST, "label spreading", "DGMClassifier as it comes"):
        assert main([*command, method]) == 0
    rows = [json.loads(line) for line in (tmp_path / "no-graph-quick.jsonl").read_text().splitlines()]
    assert min(row["accuracy"] for row in rows) > 0.6
    assert "best of LDS, IDGL, SLAPS, SUBLIME" in capsys.readouterr().out
