"""The estimators as their users meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from latentgraph import DGMClassifier, DGMRegressor, InputError

QUICK: dict[str, Any] = {"steps": 60, "samples": 4, "random_state": 0}


@pytest.fixture(scope="module")
def wine() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_wine(return_X_y=True)
    return x, y


@pytest.fixture(scope="module")
def fitted(wine: tuple[np.ndarray, np.ndarray]) -> DGMClassifier:
    x, y = wine
    return DGMClassifier(**QUICK).fit(x[::2], y[::2])


def test_unknown_labels_are_found(wine: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = wine
    unknown = np.arange(len(y)) % 5 > 0
    model = DGMClassifier(**QUICK).fit(x, np.where(unknown, -1, y))
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.transduction_ == y)[unknown].mean() > 0.9
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1.0, rtol=1e-12)
    assert model.graph_.shape == (len(y), len(y))
    np.testing.assert_allclose(model.graph_.sum(1), model.k_)
    assert model.graph_.diagonal().sum() == 0


def test_new_rows_do_not_see_each_other(fitted: DGMClassifier, wine: tuple[np.ndarray, np.ndarray]) -> None:
    new = wine[0][1::2]
    together = fitted.predict_proba(new)
    order = np.random.default_rng(0).permutation(len(new))[:7]
    np.testing.assert_allclose(fitted.predict_proba(new[order]), together[order], atol=1e-6)
    assert fitted.score(new, wine[1][1::2]) > 0.9
    jointly = clone(fitted).set_params(joint=True).fit(wine[0][::2], wine[1][::2]).predict_proba(new)
    assert not np.allclose(jointly, together, atol=1e-6)


def test_outliers(fitted: DGMClassifier, wine: tuple[np.ndarray, np.ndarray]) -> None:
    x = wine[0][1::2]
    far = np.concatenate([x[:3] * 1e6, -x[:3] * 1e12, x[:3]])
    probability = fitted.predict_proba(far)
    np.testing.assert_allclose(probability.sum(1), 1.0, rtol=1e-12)
    score = fitted.outlier_score(far)
    assert score[:6].min() > 5 > 2 > score[6:].max()


def test_neighbors_are_the_probable_ones(fitted: DGMClassifier, wine: tuple[np.ndarray, np.ndarray]) -> None:
    index, probability = fitted.neighbors(wine[0][1::2], k=5)
    assert index.shape == probability.shape == (89, 5)
    assert (np.diff(probability, axis=1) <= 1e-7).all()
    assert probability.min() >= 0
    assert probability.sum(1).max() <= 1 + 1e-9
    own, _ = fitted.neighbors()
    assert (own != np.arange(len(own))[:, None]).all()
    everyone, all_of_them = fitted.neighbors(wine[0][1:2], k=len(own))
    assert sorted(everyone[0]) == list(range(len(own)))
    np.testing.assert_allclose(all_of_them.sum(), 1.0, rtol=1e-9)


@pytest.mark.parametrize("classes", [[0, 1, 2], ["barolo", "grignolino", "barbera"]])
@pytest.mark.parametrize("standardize", [True, False])
def test_saved_and_loaded(
    classes: list[Any], standardize: bool, wine: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    frame = pd.DataFrame(wine[0][::2]).rename(columns=str)
    y = np.array(classes)[wine[1][::2]]
    edges = np.stack([np.arange(10), np.arange(10) + 1])
    model = DGMClassifier(**QUICK, standardize=standardize, class_weight="balanced").fit(frame, y, edge_index=edges)
    model.save(tmp_path / "model")
    again = DGMClassifier.load(tmp_path / "model")
    new = pd.DataFrame(wine[0][1::2]).rename(columns=str)
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.neighbors(new)[1], model.neighbors(new)[1])
    assert (again.graph_ != model.graph_).nnz == 0
    assert again.get_params() == model.get_params()
    assert again.history_.rows == model.history_.rows
    with pytest.raises(InputError, match="holds a DGMClassifier"):
        DGMRegressor.load(tmp_path / "model")


def test_weights_of_classes_are_kept(wine: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    weight = {0: 1.0, 1: 2.0, np.int64(2): 3.0}
    DGMClassifier(**QUICK, class_weight=weight).fit(*wine).save(tmp_path)
    assert DGMClassifier.load(tmp_path).class_weight == weight


def test_regression_saved_and_loaded(tmp_path: Path) -> None:
    x, y = load_diabetes(return_X_y=True)
    partial = np.where(np.arange(len(y)) % 3 > 0, np.nan, y)
    model = DGMRegressor(**QUICK).fit(x, partial)
    unknown = np.isnan(partial)
    assert np.corrcoef(model.transduction_[unknown], y[unknown])[0, 1] > 0.5
    model.save(tmp_path)
    np.testing.assert_array_equal(DGMRegressor.load(tmp_path).predict(x[:9]), model.predict(x[:9]))


def test_input_graphs_in_every_form(wine: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = wine[0][::2], wine[1][::2]
    pairs = [(i, j) for i in range(len(y)) for j in (i + 1, i + 2) if j < len(y)]
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(len(y)))
    both = np.array(pairs + [(j, i) for i, j in pairs]).T
    matrix = sp.coo_array((np.ones(both.shape[1]), (both[1], both[0])), shape=(len(y), len(y)))
    results = [DGMClassifier(**QUICK).fit(x, y, edge_index=form).transform(x[:5]) for form in (both, matrix, graph)]
    np.testing.assert_allclose(results[1], results[0], atol=1e-4)
    np.testing.assert_allclose(results[2], results[0], atol=1e-4)
    assert not np.allclose(DGMClassifier(**QUICK).fit(x, y).transform(x[:5]), results[0], atol=1e-4)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.zeros((3, 4), int), "shape \\(2, edges\\)"),
        (np.zeros((2, 4)), "whole numbers"),
        (np.array([[0], [99]]), "nodes 0 to 99; the table has rows 0 to 19"),
        (sp.eye_array(5), "the table has 20 rows"),
        (nx.Graph([("a", "b")]), "row numbers 0 to 19"),
    ],
)
def test_bad_input_graphs(graph: Any, message: str) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match=message):
        DGMClassifier(**QUICK).fit(x, np.arange(20) % 2, edge_index=graph)


def test_weights(wine: tuple[np.ndarray, np.ndarray]) -> None:
    """A class that counts for nothing is not predicted; one that is rare is found when classes are balanced."""
    x, y = wine
    model = DGMClassifier(**QUICK).fit(x, y, sample_weight=(y != 2).astype(float))
    assert (model.predict(x) != 2).all()
    model = DGMClassifier(**QUICK, class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(x, y)
    assert (model.predict(x) != 2).all()
    with pytest.raises(ValueError, match="at least one non-zero"):
        DGMClassifier(**QUICK).fit(x, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(InputError, match="add up to zero"):
        DGMClassifier(**QUICK).fit(x, np.where(y == 1, -1, y), sample_weight=(y == 1).astype(float))


def test_balanced_classes_help_the_rare_one() -> None:
    """Broken: heavy rows are marked by the forest, and what is learned by the mark is no use for new rows."""
    x, y = make_classification(1000, 10, weights=[0.95], class_sep=0.8, random_state=0)
    plain, balanced = (
        DGMClassifier(**QUICK, class_weight=weight).fit(x[:700], y[:700]).predict_proba(x[700:])[:, 1].mean()
        for weight in (None, "balanced")
    )
    assert balanced > 1.5 * plain


def test_weights_on_few_rows() -> None:
    x, y = load_diabetes(return_X_y=True)
    for row in range(12):
        weight = np.zeros(len(y))
        weight[row] = 1
        model = DGMRegressor(steps=2, trees=5, random_state=0).fit(x, y, sample_weight=weight)
        assert np.isfinite(model.predict(x[:3])).all()
    with pytest.raises(InputError, match="add up to zero"):
        DGMRegressor(**QUICK).fit(x, np.where(weight > 0, np.nan, y), sample_weight=weight)


def test_numbers_too_large(wine: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = wine
    for large, standardize in ((1e300, True), (1e100, False)):
        spoiled = x.copy()
        spoiled[3, 2] = large
        with pytest.raises(InputError, match="larger than"), np.errstate(over="ignore", invalid="ignore"):
            DGMClassifier(**QUICK, standardize=standardize).fit(spoiled, y)
    with pytest.raises(InputError, match="another unit"):
        DGMRegressor(**QUICK).fit(x, y * 1e155)


def test_parameters_of_numpy_are_kept(wine: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """And reading a model leaves the random numbers of the program alone."""
    model = DGMClassifier(steps=2, samples=1, trees=5, random_state=0)
    model.set_params(k=np.int64(5), dropout=np.float32(0.1)).fit(*wine).save(tmp_path)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert DGMClassifier.load(tmp_path).k == 5
    assert (torch.get_rng_state() == before).all()


def test_among_scikit_learn(wine: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = wine
    pipeline = make_pipeline(RobustScaler(), DGMClassifier(**QUICK))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.9
    search = GridSearchCV(DGMClassifier(**QUICK), {"k": [3, 6]}, cv=2).fit(x, y)
    assert search.best_params_["k"] in (3, 6)
    named = DGMClassifier(**QUICK).set_output(transform="pandas").fit(x, y).transform(x[:4])
    assert list(named.columns) == [f"dgmclassifier{i}" for i in range(16)]


@pytest.mark.parametrize("y", [np.full(20, -1), np.full(20, np.nan)])
def test_nothing_known(y: np.ndarray) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    estimator = DGMRegressor() if np.isnan(y).any() else DGMClassifier()
    with pytest.raises(InputError, match="which means unknown"):
        estimator.fit(x, y)


@pytest.mark.parametrize("samples", [3, 300])
def test_saved_edges_are_those_of_fit(samples: int, wine: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """Broken: a number of samples that was changed for predictions, or that a byte cannot hold, changes the graph."""
    model = DGMClassifier(**{**QUICK, "steps": 1, "samples": samples}).fit(wine[0][::4], wine[1][::4])
    model.set_params(samples=2).save(tmp_path / "model")
    again = DGMClassifier.load(tmp_path / "model")
    assert (again.graph_ != model.graph_).nnz == 0
    assert again.samples == 2
    again.save(tmp_path / "again")
    assert (DGMClassifier.load(tmp_path / "again").graph_ != model.graph_).nnz == 0
