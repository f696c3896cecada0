"""A real Chromium for the tests of the explorer, and pages to look at in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from latentgraph.explorer import Answers, Graph, Page
from latentgraph.explorer.layout import place

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BUILT = (resources.files("latentgraph.explorer") / "assets" / "explorer.js").is_file()
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
]

needs_front_end = pytest.mark.skipif(
    not BUILT, reason="the front end is not built: it needs Node.js and `make explorer`"
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install the package `chromium`")


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page in the browser, and everything that went wrong there."""

    tab: Any
    asked: list[str] = field(default_factory=list)  # addresses
    wrong: list[str] = field(default_factory=list)  # errors of the console, exceptions, dialogs

    def text(self, selector: str) -> str:
        found: str = self.tab.inner_text(selector)
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.tab.locator(selector).all_inner_texts()
        return found

    def number(self, selector: str) -> int:
        """The first number in a tile, such as 1,234 of 5,000."""
        return int(self.text(selector).split()[0].replace(",", ""))

    def settle(self) -> None:
        """Until the next two frames are drawn."""
        self.tab.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def wait(self, condition: str) -> None:
        """Until an expression is true; playwright's own way needs `eval`, which the page forbids."""
        for _ in range(200):
            if self.tab.evaluate(condition):
                return
            self.tab.wait_for_timeout(25)
        raise AssertionError(f"never true: {condition}")

    def click_node(self, name: str) -> None:
        at = self.where(name)
        self.tab.mouse.click(at["x"], at["y"])
        self.settle()

    def where(self, name: str) -> dict[str, float]:
        found: dict[str, float] = self.tab.evaluate("name => latentgraph.at(name)", name)
        return found

    def slide(self, value: float) -> None:
        self.tab.locator("#threshold").evaluate(
            "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
        )
        self.settle()

    def neighbours(self, section: str) -> list[tuple[str, ...]]:
        """Name, label and probability of each edge in a section of the panel."""
        rows = self.tab.locator(f'.panel section[aria-label="{section}"] .edge')
        parts = (".name", ".label", ".p")
        return [tuple(row.locator(part).inner_text() for part in parts) for row in rows.all()]


@contextmanager
def visit(browser: Any, path: Path, **options: Any) -> Iterator[Visit]:
    """Open a file; at the end, nothing may have gone wrong, and no address but the file's own was asked for."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(20_000)
    tab = context.new_page()
    seen = Visit(tab)
    context.on("request", lambda request: seen.asked.append(request.url))
    tab.on("console", lambda message: seen.wrong.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: seen.wrong.append(str(error)))
    tab.on("dialog", lambda dialog: seen.wrong.append(f"dialog {dialog.message}"))
    tab.goto(path.as_uri())
    tab.wait_for_selector("body.ready")
    yield seen
    assert seen.wrong == []
    assert [url for url in seen.asked if not url.startswith(("file:", "blob:", "data:", "about:"))] == []
    context.close()


def small_page(n: int = 60, **changes: Any) -> Page:
    """Three groups, a learned graph with ties and weak edges, labels of which some are unknown, a mixed table."""
    random = np.random.default_rng(7)
    group = np.arange(n) % 3
    x = random.normal(size=(n, 2)) * 0.4 + np.array([[0, 0], [4, 0], [2, 3]])[group]
    square = ((x[:, None] - x[None]) ** 2).sum(2) + np.eye(n) * 1e9
    row = np.repeat(np.arange(n), 5)
    col = np.argsort(square, axis=1)[:, :5].reshape(-1)
    weight = np.round(random.uniform(0.05, 1, len(row)), 2)
    weight[::7] = 0.7  # ties, and a number that single precision rounds down
    edges = sp.csr_array((weight, (row, col)), shape=(n, n))
    given = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    probability = random.dirichlet(np.full(3, 0.6), n)
    table = pd.DataFrame(
        {
            "age": random.integers(20, 90, n),
            "marker": np.round(random.lognormal(size=n), 3),
            "site": np.array(["Lyon", "Graz", "Osaka"])[random.integers(3, size=n)],
            "visit": pd.date_range("2024-01-01", periods=n),
            "gaps": [None if i % 4 == 0 else i / 2 for i in range(n)],
        }
    )
    parts: dict[str, Any] = {
        "graphs": [Graph("learned graph", edges, place(edges, x), "made up."), Graph("input graph", given)],
        "names": [f"node {i}" for i in range(n)],
        "title": "Three groups",
        "answers": Answers(
            "group",
            ["red", "green", "blue"],
            np.where(np.arange(n) % 10 == 9, -1, group),
            probability.argmax(1),
            probability,
        ),
        "split": ["train" if i % 2 else "test" for i in range(n)],
        "table": table,
    }
    return Page(**(parts | changes))
