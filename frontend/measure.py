"""Measures the explorer in a browser that draws in software: time until a page is ready, time of a step of the slider.

python frontend/measure.py results/explorer.json
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from playwright.sync_api import sync_playwright
from sklearn.neighbors import kneighbors_graph

from latentgraph.bench.measure import machine
from latentgraph.experiments.results import versions
from latentgraph.explorer import Answers, Graph, Page
from latentgraph.explorer.layout import place
from latentgraph.files import replacing

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZES = ((500, 10), (10_000, 5), (100_000, 10))  # nodes, edges of each
SLIDE = """async (value) => {
    const slider = document.querySelector("#threshold"), start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))));
    for (const canvas of document.querySelectorAll("canvas.sigma-nodes, canvas.sigma-edges")) {
        const gl = canvas.getContext("webgl2");
        gl?.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));  // until it is drawn
    }
    return performance.now() - start;
}"""


def some_page(n: int, k: int) -> Page:
    random = np.random.default_rng(0)
    group = random.integers(6, size=n)
    x = random.normal(size=(6, 4))[group] * 5 + random.normal(size=(n, 4))
    edges = sp.csr_array(kneighbors_graph(x, k, mode="distance"))
    edges.data = np.exp(-(edges.data**2))
    p = random.dirichlet(np.full(6, 0.3), n)
    table = pd.DataFrame(random.standard_normal((n, 20)), columns=[f"value {i}" for i in range(20)])
    answers = Answers("group", list("abcdef"), group, p.argmax(1), p)
    return Page([Graph("graph", edges, place(edges, x))], [f"row {i}" for i in range(n)], answers=answers, table=table)


def measure(tab: Any, path: Path) -> tuple[float, list[float]]:
    start = time.perf_counter()
    tab.goto(path.as_uri())
    tab.wait_for_selector("body.ready")
    ready = time.perf_counter() - start
    tab.wait_for_timeout(500)
    return ready, [tab.evaluate(SLIDE, value) / 1000 for value in (0.2, 0.6, 0.1, 0.9, 0.4, 0.0)]


def main(out: str) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for n, k in SIZES:
            start = time.perf_counter()
            path = some_page(n, k).write(Path(folder) / f"{n}.html")
            wrote = time.perf_counter() - start
            tab = browser.new_page(viewport={"width": 1280, "height": 800})
            ready, slides = measure(tab, path)
            size = path.stat().st_size / 1e6
            rows.append(
                {"nodes": n, "edges": n * k, "write": wrote, "megabytes": size, "ready": ready, "slider": slides}
            )
            print(rows[-1], flush=True)
            tab.close()
        version = browser.version
        browser.close()
    report = {"machine": machine(), "chromium": version, "unit": "seconds", "versions": versions(), "rows": rows}
    with replacing(Path(out)) as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
