"""Tables that are too large for a step over all rows: what changes, and what must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier

from latentgraph import DGMClassifier, DGMRegressor, consensus
from latentgraph.estimators.learning import node_sets
from latentgraph.graph import edge_frequencies
from latentgraph.runs import scores
from latentgraph.training import NodeSet

QUICK: dict[str, Any] = {"steps": 25, "samples": 3, "random_state": 0, "trees": 20}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    x, y = make_classification(900, 8, n_informative=5, class_sep=2.0, random_state=0)
    return x, y


def test_learning_from_parts(table: tuple[np.ndarray, np.ndarray]) -> None:
    """Broken: a table larger than a batch is learned from as a whole, badly, or differently each time."""
    x, y = table
    shown = np.where(np.arange(900) % 3 == 0, -1, y)
    model = DGMClassifier(**QUICK, batch_size=200).fit(x, shown)
    again = DGMClassifier(**QUICK, batch_size=200).fit(x, shown)
    whole = DGMClassifier(**QUICK, batch_size=900).fit(x, shown)
    assert (model.transduction_ == y)[shown < 0].mean() > 0.9
    assert model.graph_.shape == (900, 900)
    assert {"homophily", "validation"} <= set(model.history_.rows[9])
    np.testing.assert_array_equal(model.label_distributions_, again.label_distributions_)
    assert not np.array_equal(model.label_distributions_, whole.label_distributions_)
    numbers, values = make_regression(600, 5, noise=1.0, random_state=0)
    assert DGMRegressor(**QUICK, batch_size=150).fit(numbers, values).score(numbers, values) > 0.5


def test_parts_to_learn_from_and_to_stop_by() -> None:
    """Broken: validation rows are learned from, or every validation is over all rows."""
    y = torch.arange(500) % 2
    stop = torch.arange(500) % 5 == 0
    x = torch.arange(500.0)[:, None]
    train, validation, _ = node_sets(NodeSet(x, y, ~stop), stop, 100, 0, CPU)
    assert callable(train)
    assert validation is not None
    assert len(validation.x) == 100
    assert (validation.x[validation.rows, 0] % 5 == 0).all()
    assert len(validation.rows) == 20
    for step in range(5):
        nodes = train(step, torch.Generator().manual_seed(step))
        assert len(nodes.x) == 100
        assert (nodes.x[nodes.rows, 0] % 5 != 0).all()
    edges = torch.zeros(2, 1, dtype=torch.long)
    for nodes, size in ((NodeSet(x, y, ~stop), 500), (NodeSet(x, y, ~stop, edges), 100)):
        train, validation, _ = node_sets(nodes, stop, size, 0, CPU)
        assert isinstance(train, NodeSet)
        assert validation is not None
        assert len(train.x) == len(validation.x) == 500


def test_one_graph_after_the_other_is_the_same(table: tuple[np.ndarray, np.ndarray]) -> None:
    """Broken: what is computed graph by graph, to save memory, is not the consensus of all graphs."""
    x, y = table
    model = DGMClassifier(**QUICK).fit(x[:300], y[:300])
    inputs = model._inputs(model.population_, model.opinion_)
    generator = torch.Generator().manual_seed(model.seed_)
    mean, graphs = consensus(model.net_, inputs, samples=model.samples, generator=generator)
    np.testing.assert_array_equal(model._mean_of_population, mean.numpy())
    expected = edge_frequencies([sample[-1] for sample in graphs])
    assert abs(model.graph_ - expected).max() == 0
    np.testing.assert_array_equal(model.embedding_, graphs[0][-1].x_hat.numpy())


def test_a_forest_that_does_not_fill_the_memory() -> None:
    """Broken: the baseline is cut without a word, or where nothing forces it."""
    methods = {"majority": None, "random forest": RandomForestClassifier(5)}
    assert scores.for_rows(methods, scores.FOREST_ROWS) == methods
    found = scores.for_rows(methods, scores.FOREST_ROWS + 1)
    assert list(found) == ["majority", "random forest, 32,768 rows a tree"]
    assert found["random forest, 32,768 rows a tree"].max_samples == scores.FOREST_ROWS
