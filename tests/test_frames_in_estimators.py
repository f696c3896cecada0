"""Data frames in and out of the estimators; AnnData objects to a trained model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

from latentgraph import DGMClassifier, DGMRegressor
from latentgraph.tables import TablePreprocessor, Target, as_frame

WINE = load_wine(as_frame=True)
X, Y = WINE.data, WINE.target.to_numpy()
FRAMES = {"pandas": X, "polars": pl.from_pandas(X)}


def fitted(x: Any, y: Any = Y) -> DGMClassifier:
    return DGMClassifier(steps=3, samples=2, random_state=0).fit(x, y)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_give_what_their_numbers_give(kind: str) -> None:
    model = fitted(FRAMES[kind])
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_allclose(model.predict_proba(FRAMES[kind]), fitted(X.to_numpy()).predict_proba(X.to_numpy()))
    np.testing.assert_allclose(model.predict_proba(FRAMES["pandas"]), model.predict_proba(FRAMES["polars"]))


def test_labels_in_series() -> None:
    names = WINE.target.map({0: "barolo", 1: "grignolino", 2: "barbera"})
    expected = fitted(X, names.to_numpy(object)).predict(X)
    for labels in (names, pl.Series(names.tolist()), names.tolist()):
        assert fitted(FRAMES["polars"], labels).predict(FRAMES["polars"]).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", FRAMES)
def test_feature_names_are_checked(kind: str) -> None:
    model = fitted(FRAMES[kind])
    reversed_, renamed = X[X.columns[::-1]], X.rename(columns={"alcohol": "spirit"})
    for wrong, words in ((reversed_, "same order"), (renamed, "spirit"), (X.iloc[:, :5], "now missing")):
        with pytest.raises(ValueError, match=words):
            model.predict(wrong if kind == "pandas" else pl.from_pandas(wrong))


@pytest.mark.parametrize("make", [DGMClassifier, DGMRegressor])
def test_output_as_frames(make: type[DGMClassifier | DGMRegressor], tmp_path: Any) -> None:
    model = make(steps=2, samples=1, embedding_dim=3, random_state=0).fit(X, Y)
    plain = model.transform(X)
    names = [f"{make.__name__.lower()}{i}" for i in range(3)]
    out = model.set_output(transform="pandas").transform(X.iloc[5:9])
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == model.get_feature_names_out().tolist() == names
    assert out.index.tolist() == [5, 6, 7, 8]
    np.testing.assert_allclose(out, plain[5:9])
    out = model.set_output(transform="polars").transform(FRAMES["polars"])
    assert isinstance(out, pl.DataFrame)
    assert out.columns == names
    np.testing.assert_allclose(out.to_numpy(), plain)
    model.save(tmp_path / "model")
    again = make.load(tmp_path / "model").set_output(transform="polars").transform(FRAMES["polars"])
    assert again.equals(out)


# AnnData


def cells(x: Any) -> Any:
    """40 cells of two kinds with three genes; the kind of every fifth is not known."""
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    kinds = [None if i % 5 == 0 else ("T", "B")[i % 2] for i in range(40)]
    obs = pd.DataFrame(
        {"kind": pd.Categorical(kinds), "batch": ["one", "two"] * 20}, index=[f"c{i}" for i in range(40)]
    )
    obs["depth"] = [float(i % 7) if i % 3 else np.nan for i in range(40)]
    var = pd.DataFrame(index=["CD3", "CD19", "ACTB"]) if x is not None else None
    return anndata.AnnData(X=x, obs=obs, var=var)


def counts() -> np.ndarray[Any, np.dtype[np.float32]]:
    chance = np.random.default_rng(0)
    x = chance.poisson(1.0, (40, 3)).astype(np.float32)
    x[1::2, 1] += 4
    x[::2, 0] += 4
    return x


# Where anndata makes a view, it sets an option that pandas 3 no longer needs.
@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array, sp.csr_array])
def test_anndata_to_a_model(make: Any) -> None:
    table = cells(make(counts()))
    frame = as_frame(table)
    assert frame.columns.tolist() == ["kind", "batch", "depth", "CD3", "CD19", "ACTB"]
    np.testing.assert_array_equal(frame[["CD3", "CD19", "ACTB"]], counts())
    assert frame.index[:2].tolist() == ["c0", "c1"]
    target = Target.fit(table, "kind")
    preprocessor = TablePreprocessor(target="kind", drop=["batch"]).fit(table)
    assert preprocessor.feature_names_out() == ["depth", "depth (missing)", "CD3", "CD19", "ACTB"]
    y = target.encode(table)
    assert (target.classes, (y == -1).sum()) == (["B", "T"], 8)
    model = DGMClassifier(k=3, steps=40, samples=2, random_state=0).fit(preprocessor.transform(table), y)
    new = table[y == -1]  # a view, as anndata makes it
    found = target.decode(model.predict(preprocessor.transform(new)))
    assert np.mean([name == ("T", "B")[i % 2] for name, i in zip(found, range(0, 40, 5), strict=True)]) >= 0.75


def test_anndata_without_measurements() -> None:
    assert as_frame(cells(None)).columns.tolist() == ["kind", "batch", "depth"]
