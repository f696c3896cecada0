"""Pages of learned graphs, without a browser: what is in them, where nodes are placed, pictures, commands."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_diabetes, load_wine
from torch import nn

import latentgraph as lg
from browser import needs_front_end, small_page
from latentgraph import explorer
from latentgraph.explorer import encoding, figures, layout, template
from latentgraph.explorer.page import as_labels
from latentgraph.explorer.picture import picture, saved

KINDS = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "i4": "<i4", "f4": "<f4", "f8": "<f8"}


def unpacked(data: bytes) -> dict[str, Any]:
    """The header of a packed page with its arrays in place: the decoder of the front end, in Python."""
    (length,) = struct.unpack("<I", data[:4])
    body = data[4 + length :]

    def read(value: Any) -> Any:
        if isinstance(value, list) and len(value) == 3 and value[2] in (*KINDS, "json"):
            part = zlib.decompress(body[value[0] : value[0] + value[1]])
            return json.loads(part) if value[2] == "json" else np.frombuffer(part, KINDS[value[2]])
        if isinstance(value, list):
            return [read(item) for item in value]
        return {name: read(item) for name, item in value.items()} if isinstance(value, dict) else value

    found: dict[str, Any] = read(json.loads(zlib.decompress(data[4 : 4 + length])))
    return found


def test_what_is_packed_comes_out_again() -> None:
    page = small_page()
    found = unpacked(encoding.pack(page))
    assert found["names"] == page.names
    assert found["label"].tolist() == page.answers.label.tolist()  # type: ignore[union-attr]
    graph, given = found["graphs"]
    edges = page.graphs[0].edges
    target = np.repeat(np.arange(60), graph["chosen"])
    again = sp.csr_array((graph["probability"].astype(float), (target, graph["source"])), shape=edges.shape)
    assert abs(again - edges).max() < 1e-7
    for i in range(60):  # most probable first
        start = graph["chosen"][:i].sum()
        assert (np.diff(graph["probability"][start : start + graph["chosen"][i]]) <= 0).all()
    np.testing.assert_array_equal(graph["place"].reshape(-1, 2), page.graphs[0].place)
    assert given["place"] is None
    columns = {column["name"]: column for column in found["columns"]}
    assert columns["age"]["decimals"] == 0
    assert columns["marker"]["decimals"] == 3
    assert page.table is not None
    np.testing.assert_array_equal(columns["marker"]["values"] / 1000, page.table["marker"])
    assert columns["gaps"]["values"][0] == encoding.MISSING
    site = [columns["site"]["levels"][code] for code in columns["site"]["values"]]
    assert site == page.table["site"].tolist()
    assert columns["visit"]["levels"][0] == "2024-01-01"


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (pd.Series([True, False, None], dtype="boolean"), "text", ["True", "False", None]),
        (pd.Series([1.5, np.nan, np.inf]), "number", [1.5, None, np.inf]),
        (pd.Series([1e300, 1 / 3, 2.0]), "number", [1e300, 1 / 3, 2.0]),
        (pd.Series([2**40, 1, 2]), "number", [2.0**40, 1.0, 2.0]),
        (pd.Series([None, 3, 4], dtype="Int64"), "number", [None, 3.0, 4.0]),
        (pd.Series(["b", None, "a"], dtype="category"), "text", ["b", None, "a"]),
        (pd.Series(["x", 3, (1, 2)], dtype=object), "text", ["x", "3", "(1, 2)"]),
        (pd.Series(["\ud800", "é", ""], dtype=object), "text", ["?", "é", ""]),
    ],
)
def test_columns_of_any_kind(values: pd.Series, kind: str, shown: list[Any]) -> None:
    edges = sp.csr_array((3, 3))
    page = explorer.Page(
        [explorer.Graph("g", edges, np.zeros((3, 2)))], ["a", "b", "c"], table=pd.DataFrame({"column": values})
    )
    (column,) = unpacked(encoding.pack(page))["columns"]
    assert column["kind"] == kind
    if kind == "text":
        assert [(column["levels"] + [None])[code] for code in column["values"]] == shown
    else:
        scale = 10.0 ** max(column["decimals"], 0)
        missing = column["values"] == encoding.MISSING if column["decimals"] >= 0 else np.isnan(column["values"])
        found = [None if gone else value / scale for value, gone in zip(column["values"], missing, strict=True)]
        assert found == shown


def test_a_large_page_stays_below_25_mb() -> None:
    n = 100_000
    random = np.random.default_rng(0)
    near = random.integers(n, size=(n, 12))
    edges = sp.csr_array((random.random(12 * n), (np.repeat(np.arange(n), 12), near.reshape(-1))), shape=(n, n))
    table = pd.DataFrame(random.standard_normal((n, 40)), columns=[f"v{i}" for i in range(40)])
    page = explorer.Page(
        [explorer.Graph("g", edges, random.random((n, 2)))],
        [f"patient {i}" for i in range(n)],
        answers=explorer.Answers("y", ["a", "b"], random.integers(2, size=n)),
        table=table,
    )
    packed = encoding.pack(page)
    assert len(base64.b64encode(packed)) < 24_700_000  # the front end adds 0.2 MB
    found = unpacked(packed)
    assert 10 < len(found["columns"]) < 40
    assert any("columns were left out" in note for note in found["notes"])
    assert found["graphs"][0]["chosen"].max() == 10
    assert any("less probable edges were left out" in note for note in found["notes"])


@needs_front_end
def test_the_file_is_one_piece_without_addresses() -> None:
    page = small_page(title="</title><script>alert(1)</script>")
    text = page.html()
    assert text.count("<script") == 2  # the data and the program, whatever the title says
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text[: text.index("<script")])
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    data = re.search(r'id="data">([^<]+)</script>', text)
    assert data is not None
    assert unpacked(base64.b64decode(data[1]))["title"] == page.title


@needs_front_end
def test_a_notebook_gets_a_frame_of_its_own() -> None:
    shown = small_page(title='"><script>')._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script>" not in shown
    assert 'sandbox="allow-scripts allow-downloads"' in shown


def test_without_the_front_end_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "FRONT_END", ("absent.js", "absent.css"))
    with pytest.raises(lg.InputError, match=r"Node\.js.*make explorer"):
        small_page().write(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert small_page().png(tmp_path / "page.png").stat().st_size > 10_000  # pictures need no front end


def test_places_follow_the_rule() -> None:
    random = np.random.default_rng(0)
    group = np.arange(90) % 3
    centres = np.array([[0, 0, 0, 0], [9, 0, 0, 0], [0, 9, 0, 0.0]])
    x = centres[group] + random.normal(size=(90, 4))
    near = np.argsort(((x[:, None] - x[None]) ** 2).sum(2) + np.eye(90) * 1e9, axis=1)[:, :4]
    edges = sp.csr_array((np.ones(360), (np.repeat(np.arange(90), 4), near.reshape(-1))), shape=(90, 90))

    flat = layout.place(edges, x[:, :2])  # two dimensions: as they are, moved and scaled
    np.testing.assert_allclose(np.corrcoef(flat[:, 0], x[:, 0])[0, 1], 1, atol=1e-6)
    scale = np.ptp(x[:, 0]) / np.ptp(flat[:, 0])
    np.testing.assert_allclose(np.ptp(flat[:, 1]) * scale, np.ptp(x[:, 1]), rtol=1e-5)

    for embedding in (x, None, x[:, :1]):
        found = layout.place(edges, embedding)
        assert found.dtype == np.float32
        assert np.abs(found).max() == pytest.approx(1)
        np.testing.assert_array_equal(found, layout.place(edges, embedding))
        middle = np.stack([found[group == g].mean(0) for g in range(3)])
        inside = max(float(np.linalg.norm(found[group == g] - middle[g], axis=1).mean()) for g in range(3))
        between = min(float(np.linalg.norm(middle[a] - middle[b])) for a, b in ((0, 1), (0, 2), (1, 2)))
        if embedding is None or embedding.shape[1] == 4:
            assert between > 2 * inside


def test_one_row_far_away_does_not_shrink_the_others() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 4)) * [9, 2, 1, 1]  # a long cloud
    x[7] += [0, 500, 0, 0]  # beside it
    near = np.argsort(((x[:, None] - x[None]) ** 2).sum(2) + np.eye(300) * 1e9, axis=1)[:, :5]
    edges = sp.csr_array((np.ones(1500), (np.repeat(np.arange(300), 5), near.reshape(-1))), shape=(300, 300))
    found = layout.place(edges, x)
    others = np.delete(found, 7, axis=0)
    assert (np.ptp(others, axis=0) > 0.7 * np.ptp(found, axis=0)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("width", [None, 1, 2, 5])
def test_very_small_graphs_have_places(n: int, width: int | None) -> None:
    embedding = None if width is None else np.ones((n, width))  # all in one place
    for edges in (sp.csr_array(np.ones((n, n)) - np.eye(n)), sp.csr_array((n, n))):
        found = layout.place(edges, embedding)
        assert found.shape == (n, 2)
        assert np.isfinite(found).all()


def test_above_the_limit_the_main_axes_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "ARRANGED", 10)
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1, 5, 2]
    found = layout.place(sp.csr_array((50, 50)), x)
    assert abs(np.corrcoef(found[:, 0], x[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(found[:, 1], x[:, 2])[0, 1]) > 0.98


def test_labels_of_any_kind() -> None:
    codes, names = as_labels(["b", None, "a"], None)
    assert (codes.tolist(), names) == ([1, -1, 0], ["a", "b"])
    codes, names = as_labels(torch.tensor([2, -1, 0]).numpy(), None)
    assert (codes.tolist(), names) == ([2, -1, 0], ["0", "1", "2"])
    values, names = as_labels(np.array([0.5, np.nan]), None)
    assert (values.dtype.kind, names) == ("f", [])
    assert as_labels(["grade 10", "grade 2"], None)[1] == ["grade 2", "grade 10"]
    codes, names = as_labels(np.array([1.0, np.nan, 0.0]), ["a", "b"])  # a column with gaps, as pandas reads it
    assert (codes.tolist(), names) == ([1, -1, 0], ["a", "b"])
    with pytest.raises(lg.InputError, match="fractions"):
        as_labels(np.array([0.5, 1.0]), ["a", "b"])
    with pytest.raises(lg.InputError, match="label 'c' is none of the classes a, b"):
        as_labels(["a", "c"], ["a", "b"])
    with pytest.raises(lg.InputError, match="label 3 but there are 2 classes"):
        as_labels([3, 0], ["a", "b"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["a"]}, "60 rows, but there are 1 nodes"),
        ({"split": ["train"]}, "split has 1 rows"),
        ({"graphs": []}, "at least one graph"),
        ({"table": pd.DataFrame({"a": [1]})}, "table has 1 rows"),
        ({"answers": explorer.Answers("y", ["a"], probability=np.ones((60, 2)))}, "2 columns for 1 classes"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(lg.InputError, match=message):
        small_page(**change)


@pytest.fixture(scope="module")
def graph() -> lg.LatentGraph:
    torch.manual_seed(0)
    dgm = lg.DiscreteDGM(nn.Linear(6, 3), k=4)
    found: lg.LatentGraph = dgm(torch.randn(40, 6))
    return found


@needs_front_end
def test_a_graph_explores_itself(graph: lg.LatentGraph, tmp_path: Path) -> None:
    page = graph.explore(tmp_path / "page.html", y=torch.arange(40) % 2, classes=["even", "odd"])
    assert (tmp_path / "page.html").stat().st_size > 100_000
    assert abs(page.graphs[0].edges - graph.to_scipy()).max() == 0
    assert repr(page) == "Page('Learned graph', 40 nodes, learned graph: 160 edges)"
    assert graph.explore().names[:2] == ["0", "1"]
    for wrong, message in ((tmp_path, "is a folder"), (tmp_path / "absent" / "page.html", "there is no folder")):
        with pytest.raises(lg.InputError, match=message):
            page.write(wrong)


def test_layers_and_continuous_graphs(graph: lg.LatentGraph) -> None:
    torch.manual_seed(1)
    soft = lg.ContinuousDGM(nn.Linear(6, 2))(torch.randn(40, 6))
    p = torch.softmax(torch.randn(40, 3), 1)
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    page = explorer.page([graph, soft], probability=p, input_graph=ring)
    assert [g.name for g in page.graphs] == ["layer 1", "layer 2", "input graph"]
    assert page.graphs[1].edges.nnz == int((soft.adj >= 0.5).sum())
    assert page.graphs[2].edges[1, 0] == 1  # node 0 is the source of node 1
    assert page.answers.classes == ["0", "1", "2"]
    np.testing.assert_array_equal(page.answers.prediction, p.argmax(1))
    given = explorer.page(sp.csr_array((np.ones(40), (ring[1], ring[0])), shape=(40, 40)), y=torch.arange(40) % 2)
    assert given.graphs[0].edges.nnz == 40  # a graph without an embedding
    named = explorer.page({"first": graph}, y=np.linspace(0, 1, 40), prediction=np.zeros(40))
    assert named.graphs[0].name == "first"
    assert named.answers.classes == []


def test_pages_of_estimators() -> None:
    x, y = (part[::3] for part in load_wine(return_X_y=True))
    known = np.where(np.arange(len(y)) % 3 > 0, -1, y)
    model = lg.DGMClassifier(steps=10, samples=2, random_state=0).fit(x, known)
    page = explorer.from_estimator(model, y=y, classes=["a", "b", "c"], table=pd.DataFrame(x))
    assert abs(page.graphs[0].edges - model.graph_).max() == 0
    np.testing.assert_array_equal(page.answers.label, y)
    np.testing.assert_array_equal(page.answers.prediction, model.transduction_)
    assert page.answers.classes == ["a", "b", "c"]
    x, y = load_diabetes(return_X_y=True)
    number = lg.DGMRegressor(steps=3, samples=2, random_state=0).fit(
        x[:80], y[:80], edge_index=np.array([[0, 1], [1, 2]])
    )
    page = explorer.from_estimator(number, y=y[:80])
    assert [g.name for g in page.graphs] == ["learned graph", "input graph"]
    assert page.answers.prediction is not None
    np.testing.assert_allclose(page.answers.prediction, number.transduction_)


def test_pictures(graph: lg.LatentGraph, tmp_path: Path) -> None:
    page = small_page(title="a_b $x$")
    axes = picture(page).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["unknown", "red", "green", "blue"]  # type: ignore[union-attr]
    many = explorer.page(graph, y=np.arange(40) % 9, classes=["_hidden", "$", *"cdefghi"])
    saved(picture(many), tmp_path / "many.svg")
    saved(picture(explorer.page(graph, y=np.linspace(0, 1, 40))), tmp_path / "numbers.pdf")
    assert {path.name for path in tmp_path.iterdir()} == {"many.svg", "numbers.pdf"}
    with pytest.raises(lg.InputError, match=r"ends in \.png"):
        saved(picture(many), tmp_path / "picture.docx")


def test_probability_of_every_point_to_connect_to_one(graph: lg.LatentGraph) -> None:
    p = figures.probabilities(graph, [5])[0]
    square = ((graph.x_hat - graph.x_hat[5]) ** 2).sum(1)
    np.testing.assert_allclose(p, torch.exp(-graph.temperature * square).detach(), rtol=1e-5)
    axes = figures.connection_probability(graph, 5).axes
    shown = np.sort(np.asarray(axes[0].collections[0].get_array()))
    np.testing.assert_allclose(shown, np.sort(np.delete(p, 5)))
    cloud = figures.connection_probability(graph, 0, np.random.default_rng(0).normal(size=(40, 3)))
    assert cloud.axes[0].name == "3d"
    with pytest.raises(lg.InputError, match="nodes 0 to 39"):
        figures.connection_probability(graph, 40)
    with pytest.raises(lg.InputError, match="positions have shape"):
        figures.connection_probability(graph, 0, np.zeros((3, 2)))


def test_rings_around_a_node() -> None:
    edges = sp.csr_array(np.array([[0, 0.9, 0.5, 0.1], [0.3, 0, 0, 0.8], [0, 0.2, 0, 0], [0, 0, 0, 0]]))
    assert figures.rings(edges, 0, hops=2, most=2) == [[(1, 0), (2, 0)], [(3, 1)]]
    assert figures.rings(edges, 3) == [[], []]
    figure = figures.ring_figure(edges, 0, most=2, names=["_a", "$b", "c", "d"], y=np.arange(4) % 2, classes=["x", "y"])
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["$b", "_a", "c", "d"]
    with pytest.raises(lg.InputError, match="nodes 0 to 3"):
        figures.rings(edges, 4)


def test_edge_probability_against_hops(graph: lg.LatentGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    path = np.stack([np.arange(39), np.arange(1, 40)])  # a line of nodes: |i - j| hops
    mean, spread, pairs = figures.hop_profile(graph, path, hops=3)
    p = figures.probabilities(graph, np.arange(40))
    far = np.abs(np.arange(40)[:, None] - np.arange(40))
    for hop in (1, 2, 3):
        at = p[far == hop]
        np.testing.assert_allclose([mean[hop - 1], spread[hop - 1]], [at.mean(), at.std()], rtol=1e-6)
        assert pairs[hop - 1] == at.size == 2 * (40 - hop)
    ends = np.arange(40) % 2 == 0
    part, _, pairs = figures.hop_profile(graph, path, hops=2, nodes=[0, 7], among=ends)
    assert pairs.tolist() == [2, 1]  # 7 to 6 and 8; 0 to 2
    np.testing.assert_allclose(part, [p[7, [6, 8]].mean(), p[0, 2]], rtol=1e-6)
    figure = figures.probability_by_hops(graph, path, hops=3)
    np.testing.assert_allclose([bar.get_height() for bar in figure.axes[0].patches], mean)  # type: ignore[attr-defined]
    with pytest.raises(lg.InputError, match="no given graph"):
        figures.hop_profile(graph, None)
