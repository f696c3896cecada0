"""The page of a learned graph in a real browser: what a person would see."""

from __future__ import annotations

import csv
import io
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from browser import Visit, chromium, needs_browser, needs_front_end, small_page, visit
from latentgraph.explorer import Answers, Graph, Page

pytestmark = [needs_front_end, needs_browser]

# Nodes or edges that sigma draws.
DRAWN = "(s => s.getGraph().filter{0}s(key => !s.get{0}DisplayData(key).hidden))(latentgraph.view.sigma)"

Opener = Callable[..., AbstractContextManager[Visit]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Opener:
    """Write a page, open it; leaving it fails if anything went wrong in the browser or any address was asked for."""

    def opener(page: Page, **options: Any) -> AbstractContextManager[Visit]:
        return visit(browser, page.write(tmp_path / "page.html"), **options)

    return opener


def shown_edges(page: Page, least: float, graph: int = 0) -> sp.coo_array:
    edges = page.graphs[graph].edges.tocoo()
    keep = edges.data >= least
    return sp.coo_array((edges.data[keep], (edges.row[keep], edges.col[keep])), shape=edges.shape)


def homophily(page: Page, edges: sp.coo_array) -> float:
    label = page.answers.label
    assert label is not None
    a, b = label[edges.row], label[edges.col]
    known = (a >= 0) & (b >= 0)
    return float((a == b)[known].mean()) if known.any() else np.nan


def wrong_nodes(page: Page) -> list[int]:
    label, found = page.answers.label, page.answers.prediction
    assert label is not None
    assert found is not None
    return np.flatnonzero((label >= 0) & (label != found)).tolist()


def expected(page: Page, node: int, chose: bool) -> list[tuple[str, ...]]:
    """What the panel should list: names, labels (a guess has a question mark), probabilities; largest first."""
    matrix = page.graphs[0].edges if chose else sp.csr_array(page.graphs[0].edges.T)
    line = matrix[[node]].tocoo()
    order = np.lexsort((line.col, -line.data))
    label, prediction = page.answers.label, page.answers.prediction
    assert label is not None
    assert prediction is not None
    words = [
        page.answers.classes[label[j]] if label[j] >= 0 else f"{page.answers.classes[prediction[j]]}?" for j in line.col
    ]
    return [(page.names[line.col[i]], words[i], f"{line.data[i]:.3f}") for i in order]


def test_it_opens_offline_and_says_what_it_shows(opened: Opener) -> None:
    page = small_page()
    with opened(page) as seen:
        assert seen.tab.title() == "Three groups"
        assert seen.text("h1") == "Three groups"
        assert seen.number("#node-count") == 60
        first = float(seen.text("#threshold-value").removeprefix("≥ "))
        edges = shown_edges(page, first)
        assert seen.number("#edge-count") == edges.nnz
        assert seen.text("#edge-count").endswith(f"of {page.graphs[0].edges.nnz}")
        assert float(seen.text("#homophily")) == pytest.approx(homophily(page, edges), abs=5e-4)
        wrong = wrong_nodes(page)
        assert seen.number("#error-count") == len(wrong)
        assert seen.texts("#legend li") == ["red\n18", "green\n18", "blue\n18", "unknown\n6"]
        assert seen.asked == [seen.tab.url]
        # Pixels: the graph is there, in the colours of the legend.
        assert _share_of_colour(seen, (0, 114, 178)) > 0.0005


def _share_of_colour(seen: Visit, colour: tuple[int, int, int]) -> float:
    image = _pixels(seen.tab.locator(".stage").screenshot())
    return float((np.abs(image[:, :, :3].astype(int) - colour).max(2) < 12).mean())


def _pixels(png: bytes) -> np.ndarray:
    from matplotlib import image

    return (image.imread(io.BytesIO(png), format="png") * 255).round().astype(np.uint8)


def test_a_click_shows_neighbours_with_their_probabilities(opened: Opener) -> None:
    page = small_page()
    with opened(page) as seen:
        for node in (4, 33, 59):
            seen.click_node(page.names[node])
            assert seen.text(".panel h2") == page.names[node]
            assert seen.neighbours("Chose") == expected(page, node, chose=True)
            assert seen.neighbours("Chosen by") == expected(page, node, chose=False)
            assert page.answers.probability is not None
            p = page.answers.probability[node]
            rows = [f"{page.answers.classes[c]}\n{p[c]:.3f}" for c in np.argsort(-p)]
            assert seen.texts(".probabilities li") == rows
            assert page.table is not None
            cells = dict(zip(seen.texts(".panel dt"), seen.texts(".panel dd"), strict=True))
            row = page.table.iloc[node]
            assert cells["age"] == str(row["age"])
            assert float(cells["marker"]) == row["marker"]
            assert cells["site"] == row["site"]
            assert cells["visit"] == row["visit"].date().isoformat()
            assert cells["gaps"] == ("–" if node % 4 == 0 else f"{node / 2:g}")
        facts = seen.texts(".fact")
        assert facts[0] == "group\nunknown"  # of node 59
        assert facts[2] == "split\ntrain"
        at = seen.where("node 10")
        seen.tab.mouse.dblclick(at["x"], at["y"])  # zooms to the neighbours
        seen.wait("latentgraph.view.sigma.getCamera().ratio < 0.9 && !latentgraph.view.sigma.getCamera().isAnimated()")
        at = seen.where("node 10")
        seen.tab.mouse.move(at["x"], at["y"])
        seen.settle()
        assert seen.text(".tip").splitlines()[:2] == ["node 10", "group: green"]
        seen.tab.mouse.click(3 + seen.tab.locator(".stage").bounding_box()["x"], 3)  # an empty place
        seen.settle()
        assert not seen.tab.is_visible(".panel")


def test_neighbours_can_be_followed(opened: Opener) -> None:
    page = small_page()
    with opened(page) as seen:
        seen.click_node("node 12")
        seen.wait("document.querySelector('.tip').hidden")  # the panel has moved the graph away under the pointer
        first = seen.neighbours("Chose")[0][0]
        seen.tab.click(f'.panel section[aria-label="Chose"] .edge:has-text("{first}") >> nth=0')
        assert seen.text(".panel h2") == first
        assert seen.neighbours("Chose") == expected(page, list(page.names).index(first), chose=True)
        assert first in seen.text(".news")  # and is read out


def test_the_slider_shows_the_right_number_of_edges(opened: Opener) -> None:
    page = small_page()
    with opened(page) as seen:
        seen.click_node("node 4")
        for least in (0.0, 0.3, 0.7, 0.85, 1.0):
            seen.slide(least)
            edges = shown_edges(page, least)
            assert seen.number("#edge-count") == edges.nnz
            assert seen.text("#threshold-value") == f"≥ {least:.2f}"
            same = homophily(page, edges)
            assert seen.text("#homophily").strip() == ("–" if np.isnan(same) else f"{same:.3f}")
            # Sigma draws as many as the page says.
            assert len(seen.tab.evaluate(DRAWN.format("Edge"))) == edges.nnz
            pale = seen.tab.locator('.panel section[aria-label="Chose"] .edge.below').count()
            assert pale == sum(float(p) < least for _, _, p in expected(page, 4, chose=True))


def test_search_finds_by_id(opened: Opener) -> None:
    with opened(small_page()) as seen:
        seen.tab.keyboard.press("/")
        seen.tab.keyboard.type("NODE 5")
        names = seen.texts("#found .name")
        assert names == ["node 5", *(f"node {i}" for i in range(50, 60))]  # the exact one first
        seen.tab.keyboard.press("ArrowDown")
        seen.tab.keyboard.press("ArrowDown")
        seen.tab.keyboard.press("Enter")
        assert seen.text(".panel h2") == "node 51"
        assert seen.tab.input_value("#search") == ""
        seen.tab.keyboard.press("Escape")
        assert not seen.tab.is_visible(".panel")
        seen.tab.fill("#search", "nobody")
        assert seen.text("#found") == "No node has this id"
        seen.tab.fill("#search", "node 17")
        seen.tab.click("#found li")
        assert seen.text(".panel h2") == "node 17"


HOSTILE = [
    "<script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 1">',
    "</script><script>window.broken = 1</script>",
    "<!--<script>",
    "{{7*7}} ${7*7} javascript:alert(1)",
    "=HYPERLINK(1)",
    "\u202egnp.exe",
    "a\u2028b",
]


def test_hostile_names_stay_text(opened: Opener) -> None:
    page = small_page()
    names = [*HOSTILE, *page.names[len(HOSTILE) :]]
    assert page.table is not None
    table = page.table.assign(site=(HOSTILE * 8)[:60]).rename(columns={"age": HOSTILE[0], "marker": HOSTILE[1]})
    answers = Answers(HOSTILE[1], HOSTILE[:3], page.answers.label, page.answers.prediction, page.answers.probability)
    bad = small_page(names=names, table=table, answers=answers, title=HOSTILE[2], split=(HOSTILE * 8)[:60])
    with opened(bad) as seen:
        assert seen.tab.title() == HOSTILE[2]
        assert seen.text("h1") == HOSTILE[2]
        for name in HOSTILE[:6]:
            seen.tab.fill("#search", name)
            assert seen.texts("#found .name")[0] == name
            seen.tab.keyboard.press("Enter")
            assert seen.text(".panel h2") == name
            assert name in seen.texts(".panel dd")
        assert seen.texts(".panel dt")[:2] == HOSTILE[:2]
        for choice in ("prediction", "column 2"):
            seen.tab.select_option("#colour", choice)
        at = seen.where(HOSTILE[0])
        seen.tab.mouse.move(at["x"], at["y"])
        assert seen.tab.evaluate("window.broken") is None
        assert seen.tab.locator("img").count() == 0
        assert seen.tab.locator("script").count() == 2  # the data and the program


def test_the_page_cannot_reach_the_network(opened: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, opened(small_page()) as seen:
        answers = seen.tab.evaluate(
            """async (address) => {
                const tried = await Promise.allSettled([
                    fetch(address),
                    new Promise((yes, no) => {
                        const i = new Image(); i.onload = yes; i.onerror = no; i.src = address;
                    }),
                    new Promise((yes, no) => {
                        const s = document.createElement("script"); s.onload = yes; s.onerror = no; s.src = address;
                        document.head.append(s);
                    }),
                ]);
                const inline = document.createElement("script");
                inline.textContent = "window.broken = 1";
                document.head.append(inline);
                return [...tried.map((result) => result.status), String(window.broken)];
            }""",
            f"http://127.0.0.1:{server.getsockname()[1]}/leak",
        )
        assert answers == ["rejected", "rejected", "rejected", "undefined"]
        assert any("Content Security Policy" in message for message in seen.wrong)
        seen.wrong.clear()  # these errors were wanted,
        seen.asked.clear()  # and the browser tells of what it has refused; nobody came:
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


def test_filters(opened: Opener) -> None:
    page = small_page()
    label, found = page.answers.label, page.answers.prediction
    assert label is not None
    assert found is not None
    split = np.array(page.split)
    with opened(page) as seen:
        chip = '.chips[aria-label="{}"] .chip:has-text("{}")'
        seen.tab.click(chip.format("group", "red"))
        assert seen.number("#node-count") == (label != 0).sum()
        seen.tab.click(chip.format("split", "test"))
        keep = (label != 0) & (split == "train")
        assert seen.number("#node-count") == keep.sum()
        edges = shown_edges(page, 0.0)
        seen.slide(0.0)
        assert seen.number("#edge-count") == (keep[edges.row] & keep[edges.col]).sum()
        seen.tab.check("#only-errors")
        keep &= (label >= 0) & (label != found)
        assert seen.number("#node-count") == keep.sum()
        assert sorted(map(int, seen.tab.evaluate(DRAWN.format("Node")))) == np.flatnonzero(keep).tolist()
        # What is hidden cannot be clicked.
        gone = page.names[int(np.flatnonzero(label == 0)[0])]
        seen.click_node(gone)
        assert not seen.tab.is_visible(".panel") or seen.text(".panel h2") != gone
        seen.tab.uncheck("#only-errors")
        seen.tab.click(chip.format("group", "red"))
        seen.tab.click(chip.format("split", "test"))
        assert seen.number("#node-count") == 60


def test_colours_and_legends(opened: Opener) -> None:
    page = small_page()
    assert page.table is not None
    with opened(page) as seen:
        options = seen.texts("#colour option")
        assert options[:6] == ["group", "prediction", "error", "confidence", "split", "degree"]
        assert options[6:] == list(page.table.columns)

        def colour(node: int) -> str:
            found: str = seen.tab.evaluate(f"latentgraph.view.sigma.getNodeDisplayData('{node}').color")
            return found

        assert [colour(i) for i in (0, 1, 2)] == ["#0072b2", "#e69f00", "#009e73"]
        seen.tab.select_option("#colour", "error")
        wrong = wrong_nodes(page)
        assert seen.texts("#legend li")[0] == f"wrong\n{len(wrong)}"
        assert {colour(i) for i in wrong} == {"#d55e00"}
        seen.tab.select_option("#colour", label="site")
        counts = page.table["site"].value_counts()
        assert seen.texts("#legend li") == [f"{site}\n{counts[site]}" for site in sorted(counts.index)]
        seen.tab.select_option("#colour", label="gaps")
        assert seen.texts("#legend .axis span") == ["0.5", "29.5"]
        assert "15 without a value" in seen.text("#legend")
        light = [_light(colour(i)) for i in (1, 15, 30 + 1, 59)]
        assert light == sorted(light)  # a sequential scale
        assert len(set(light)) == 4
        seen.tab.select_option("#colour", "degree")
        seen.slide(0.0)
        degree = np.bincount(np.concatenate(page.graphs[0].edges.tocoo().coords), minlength=60)
        assert float(seen.texts("#legend .axis span")[1].removeprefix("≥ ")) <= degree.max()
        bars = seen.tab.locator('section[aria-label="Summary"] rect title').all_text_contents()
        assert bars == [f"degree {d}: {(degree == d).sum()}" for d in range(degree.max() + 1)]
        most, least = int(degree.argmax()), int(degree.argmin())
        assert _light(colour(most)) > _light(colour(least))
        before = seen.texts("#legend .axis span")
        seen.tab.click('.chips[aria-label="group"] .chip:has-text("red")')  # with fewer nodes, fewer edges at each
        assert seen.texts("#legend .axis span") != before


def _light(colour: str) -> float:
    return float(np.dot([int(colour[i : i + 2], 16) for i in (1, 3, 5)], [0.2126, 0.7152, 0.0722]))


def test_layers_and_the_input_graph(opened: Opener) -> None:
    page = small_page()
    learned, given = page.graphs
    assert learned.place is not None
    layers = [learned, Graph("layer 2", sp.csr_array(learned.edges.T), -learned.place, "turned round."), given]
    with opened(small_page(graphs=layers)) as seen:
        assert seen.texts('[role="radio"]') == ["learned graph", "layer 2", "input graph"]
        seen.slide(0.0)
        before = seen.where("node 3")
        seen.click_node("node 3")
        first = seen.neighbours("Chose")
        seen.tab.click('[role="radio"]:has-text("layer 2")')
        seen.slide(0.0)
        assert seen.neighbours("Chose") == expected(page, 3, chose=False)  # the edges are turned round
        assert seen.neighbours("Chosen by") == first
        assert "turned round" in seen.text(".meaning")
        seen.tab.keyboard.press("Escape")
        seen.settle()
        after = seen.where("node 3")
        assert abs(after["x"] - before["x"]) + abs(after["y"] - before["y"]) > 20
        seen.tab.click('[role="radio"]:has-text("input graph")')
        assert seen.number("#edge-count") == given.edges.nnz
        back = seen.where("node 3")
        assert back == pytest.approx(before, abs=1)  # drawn where the learned graph was
        seen.click_node("node 3")
        assert [name for name, _, _ in seen.neighbours("Chose")] == ["node 4"]
        assert [name for name, _, _ in seen.neighbours("Chosen by")] == ["node 2"]


def test_everything_by_keyboard(opened: Opener) -> None:
    page = small_page()
    place = page.graphs[0].place
    assert place is not None
    with opened(page) as seen:
        focused = "document.activeElement.id || document.activeElement.className"
        order = []
        for _ in range(5):
            seen.tab.keyboard.press("Tab")
            order.append(seen.tab.evaluate(focused))
        assert order[:2] == ["theme", "search"]
        seen.tab.focus(".stage")
        seen.tab.keyboard.press("ArrowRight")
        start = seen.text(".panel h2")
        seen.tab.keyboard.press("ArrowRight")
        right = seen.text(".panel h2")
        assert place[page.names.index(right), 0] > place[page.names.index(start), 0]
        seen.tab.keyboard.press("ArrowUp")
        up = seen.text(".panel h2")
        assert place[page.names.index(up), 1] > place[page.names.index(right), 1]
        seen.tab.keyboard.press("Enter")
        rows = seen.neighbours("Chose")
        seen.tab.keyboard.press("ArrowDown")
        assert seen.tab.evaluate("document.activeElement.querySelector('.name').textContent") == rows[1][0]
        seen.tab.keyboard.press("Enter")
        assert seen.text(".panel h2") == rows[1][0]
        focused = "document.activeElement.querySelector('.name')?.textContent"
        assert seen.tab.evaluate(focused) == seen.neighbours("Chose")[0][0]  # and so on from there
        seen.tab.keyboard.press("Escape")
        assert not seen.tab.is_visible(".panel")
        ratio = "latentgraph.view.sigma.getCamera().ratio"
        seen.tab.focus(".stage")
        seen.tab.keyboard.press("+")
        seen.wait(f"{ratio} < 0.9")
        seen.tab.keyboard.press("0")
        seen.wait(f"{ratio} === 1")


def test_dark_and_light(opened: Opener) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.body).color"
    with opened(small_page(), color_scheme="dark") as seen:
        assert seen.tab.evaluate(background) == "rgb(14, 19, 27)"
        assert seen.tab.evaluate(ink) == "rgb(232, 237, 244)"
        dark = _pixels(seen.tab.locator(".stage").screenshot())
        seen.tab.click("#theme")
        seen.settle()
        assert seen.tab.evaluate(background) == "rgb(248, 249, 251)"
        light = _pixels(seen.tab.locator(".stage").screenshot())
        assert np.median(dark[:, :, :3]) < 40
        assert np.median(light[:, :, :3]) > 230


def test_on_a_phone(opened: Opener) -> None:
    page = small_page()
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    with opened(page, **phone) as seen:
        assert seen.tab.evaluate("document.documentElement.scrollWidth") == 390
        assert not seen.tab.is_visible("#threshold")
        at = seen.where("node 30")
        seen.tab.touchscreen.tap(at["x"] + 5, at["y"])  # fingers are not exact
        seen.tab.wait_for_selector(".panel h2")
        assert seen.neighbours("Chose") == expected(page, page.names.index(seen.text(".panel h2")), chose=True)
        box = seen.tab.locator(".panel").bounding_box()
        assert (box["x"], box["width"]) == (0, 390)
        assert seen.tab.locator(".panel .edge").first.bounding_box()["height"] >= 36
        seen.tab.locator('.panel [aria-label="Close"]').tap()
        seen.tab.tap("#menu")
        assert seen.tab.is_visible("#threshold")
        seen.slide(0.5)
        assert seen.number("#edge-count") == shown_edges(page, 0.5).nnz


def test_files_to_take_along(opened: Opener) -> None:
    page = small_page()
    table = page.table
    assert table is not None
    table["site"] = table["site"].where(table.index != 2, '=1+1, "quoted"')
    with opened(page) as seen:
        seen.tab.click('.chips[aria-label="group"] .chip:has-text("green")')
        with seen.tab.expect_download() as download:
            seen.tab.click("#save-csv")
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_bytes().decode())))
        label = page.answers.label
        assert label is not None
        assert [row["id"] for row in rows] == [page.names[i] for i in np.flatnonzero(label != 1).tolist()]
        assert rows[0]["group"] == "red"
        assert float(rows[0]["p(red)"]) == pytest.approx(page.answers.probability[0, 0], abs=1e-6)  # type: ignore[index]
        assert rows[0]["age"] == str(table["age"][0])
        assert rows[1]["site"] == '\'=1+1, "quoted"'  # a spreadsheet shows it and does not compute it
        seen.tab.click('.chips[aria-label="group"] .chip:has-text("green")')

        seen.click_node("node 6")
        with seen.tab.expect_download() as download:
            seen.tab.click("text=Save node and neighbours")
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_bytes().decode())))
        assert rows[0]["id"] == "node 6"
        chose = [(row["id"], f"{float(row['edge probability']):.3f}") for row in rows if row["edge"] == "chose"]
        assert chose == [(name, p) for name, _, p in expected(page, 6, chose=True)]

        with seen.tab.expect_download() as download:
            seen.tab.click("#save-png")
        assert download.value.suggested_filename == "three-groups.png"
        image = _pixels(Path(download.value.path()).read_bytes())
        box = seen.tab.locator(".stage").bounding_box()
        assert image.shape[:2] == (round(box["height"]), round(box["width"]))
        assert len(np.unique(image.reshape(-1, 4), axis=0)) > 50  # it is not blank


def test_numbers_instead_of_classes(opened: Opener) -> None:
    page = small_page()
    assert page.graphs[0].place is not None
    y = page.graphs[0].place[:, 0].astype(float)
    y[::6] = np.nan
    found = np.nan_to_num(y) + np.linspace(-1, 1, 60)
    with opened(small_page(answers=Answers("score", [], y, found))) as seen:
        seen.slide(0.0)
        edges = shown_edges(page, 0.0)
        a, b = y[edges.row], y[edges.col]
        known = ~np.isnan(a + b)
        assert float(seen.text("#correlation")) == pytest.approx(np.corrcoef(a[known], b[known])[0, 1], abs=1e-3)
        assert not seen.tab.locator("#homophily").count()
        size = np.abs(found - y)
        seen.tab.check("#only-errors")
        assert seen.number("#node-count") == 5  # a tenth of the 50 that are known
        seen.tab.uncheck("#only-errors")
        node = int(np.nanargmax(size))
        seen.click_node(page.names[node])
        assert seen.texts(".fact b")[:2] == [f"{np.float32(y[node]):.5g}", f"{np.float32(found[node]):.5g}"]
        seen.tab.select_option("#colour", "error")
        assert "10 without a value" in seen.text("#legend")
    with opened(small_page(answers=Answers("income", [], np.full(60, 151_234.0), np.full(60, 1.5)))) as seen:
        seen.click_node("node 4")
        assert seen.texts(".fact b")[:2] == ["151234", "1.5"]  # no digit before the point is rounded away


def test_many_nodes_are_points_with_edges_on_click(opened: Opener) -> None:
    n = 20_001
    random = np.random.default_rng(0)
    place = random.uniform(-1, 1, (n, 2))
    col = (np.arange(n)[:, None] + [1, 2, 3]) % n
    weight = np.tile([0.9, 0.5, 0.25], n)
    edges = sp.csr_array((weight, (np.repeat(np.arange(n), 3), col.reshape(-1))), shape=(n, n))
    page = Page([Graph("ring", edges, place)], [f"n{i}" for i in range(n)])
    with opened(page) as seen:
        assert "Points only" in seen.text('section[aria-label="Edge probability"]')
        assert seen.tab.evaluate("latentgraph.view.sigma.getGraph().size") == 0
        assert seen.number("#node-count") == n
        seen.slide(0.5)
        assert seen.number("#edge-count") == 2 * n
        seen.tab.fill("#search", "n777")
        seen.tab.keyboard.press("Enter")
        assert seen.neighbours("Chose") == [("n778", "", "0.900"), ("n779", "", "0.500"), ("n780", "", "0.250")]
        assert [name for name, _, _ in seen.neighbours("Chosen by")] == ["n776", "n775", "n774"]
        # Its lines are drawn above the points.
        drawn = "[...document.querySelector('.spotlight').getContext('2d').getImageData(0, 0, 900, 800).data]"
        assert seen.tab.evaluate(f"new Set({drawn}).size") > 20


def test_little_is_enough(opened: Opener) -> None:
    edges = sp.csr_array((2, 2))
    with opened(Page([Graph("nothing", edges, np.zeros((2, 2)))], ["a", "b"])) as seen:
        assert seen.texts("#colour option") == ["degree"]
        seen.tab.fill("#search", "b")
        seen.tab.keyboard.press("Enter")
        assert seen.texts(".panel .none") == ["nobody", "nobody"]


def test_in_a_notebook(browser: Any, tmp_path: Path) -> None:
    page = small_page()
    path = tmp_path / "notebook.html"
    path.write_text(f"<body class=ready>{page._repr_html_()}</body>", "utf-8")
    with visit(browser, path) as seen:
        frame = seen.tab.frame_locator("iframe")
        frame.locator("body.ready").wait_for()
        assert frame.locator("h1").inner_text() == "Three groups"
        assert frame.locator("#node-count").inner_text().startswith("60")
