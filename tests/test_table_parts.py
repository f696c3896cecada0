"""The classifier without one of its parts: what is left out is out, and the rest is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from latentgraph.estimators import DGMClassifier
from latentgraph.experiments.results import Results
from latentgraph.experiments.suite import KEY
from latentgraph.experiments.suite_data import TABLES
from latentgraph.experiments.table_parts import WITHOUT, Alone, GraphAsItStarts, WithoutGraph, tables

x, y = make_blobs(60, 4, centers=3, random_state=0)


def fitted(make: type[DGMClassifier]) -> DGMClassifier:
    return make(steps=20, trees=5, random_state=0).fit(x, y)


def test_without_graph_nobody_hears_of_others() -> None:
    model = fitted(WithoutGraph)
    inputs = model._inputs(model.population_, model.opinion_)
    changed = inputs.clone()
    changed[30:] = torch.randn(30, inputs.shape[1], generator=torch.Generator().manual_seed(0), dtype=inputs.dtype)
    outs = [model.net_(rows, generator=torch.Generator().manual_seed(0))[0] for rows in (inputs, changed)]
    assert torch.allclose(outs[0][:30], outs[1][:30])
    assert not torch.allclose(outs[0][30:], outs[1][30:])
    assert sum(isinstance(part, Alone) for part in model.net_.modules()) == 2

    with_graph = fitted(DGMClassifier)
    outs = [with_graph.net_(rows, generator=torch.Generator().manual_seed(0))[0] for rows in (inputs, changed)]
    assert not torch.allclose(outs[0][:30], outs[1][:30])


def test_graph_as_it_starts_is_that_of_the_principal_components() -> None:
    def distances(model: DGMClassifier) -> np.ndarray:
        e = model.embedding_
        return np.square(e[:, None] - e[None]).sum(-1)

    model = fitted(GraphAsItStarts)
    inputs = model._inputs(model.population_, model.opinion_).numpy()
    spread = np.square(inputs - inputs.mean(0)).sum(1).mean()
    wanted = np.square(inputs[:, None] - inputs[None]).sum(-1) * model.embedding_.shape[1] / spread
    assert np.allclose(distances(model), wanted, rtol=1e-4, atol=1e-4)  # 7 columns, 16 components: nothing is lost
    assert not np.allclose(distances(fitted(DGMClassifier)), wanted, rtol=1e-2, atol=1e-2)


def test_differences_are_seed_by_seed(tmp_path: Path) -> None:
    results = Results(tmp_path / "tables.jsonl", KEY)
    for seed, (ours, without) in enumerate([(0.9, 0.8), (0.7, 0.6), (0.5, 0.1)]):
        cell = {"table": "wine", "labels": "all", "seed": seed}
        results.add({**cell, "method": "latentgraph", "accuracy": ours})
        if seed < 2:
            results.add({**cell, "method": "latentgraph without the graph", "accuracy": without})
    found, few = tables(results)
    graph, *others = found.rows
    assert graph[1 + list(TABLES).index("wine")] == "+10.0 ± 0.0 (2)"
    assert graph[-1] == "-"  # over one table there is no error
    assert len(found.rows) == len(WITHOUT)
    assert {cell for row in [*others, *few.rows] for cell in row[1:]} == {"-"}


@pytest.mark.parametrize("part", WITHOUT)
def test_each_predicts(part: str) -> None:
    model = WITHOUT[part](random_state=0).set_params(steps=20).fit(x, np.where(np.arange(60) % 3, -1, y))
    assert (model.transduction_ == y).mean() > 0.8
    assert (model.predict(x[:5]) == model.classes_[model.predict_proba(x[:5]).argmax(1)]).all()
