"""Takes the picture of the explorer that the README shows: the page of `latentgraph demo`, one node selected.

python frontend/picture.py docs/_static/explorer.png
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from latentgraph import demo, explorer

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo.run(Path(folder), show=False)
        take(Path(folder) / "explorer.html", out, node_of_interest(demo.page(Path(folder))))


def node_of_interest(page: explorer.Page) -> str:
    """The hidden node about which the model is least sure."""
    assert page.answers.probability is not None
    assert page.split is not None
    sure = np.where(np.array(page.split) == "hidden", page.answers.probability.max(1), 1.0)
    return page.names[int(sure.argmin())]


def take(path: Path, out: Path, name: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(path.as_uri())
        tab.wait_for_selector("body.ready")
        at = tab.evaluate("name => latentgraph.at(name)", name)
        tab.mouse.click(at["x"], at["y"])
        tab.mouse.move(0, 0)
        tab.wait_for_timeout(1000)
        tab.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
