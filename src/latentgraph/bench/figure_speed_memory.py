"""`latentgraph bench figure-speed-memory`: the paper's figure of time and memory of a training step against n.

Random features, f = MLP, k = 5, three convolutions, as in `step`. The paper's three lines are the continuous graph with
(n, n) matrices, the discrete one sampled from an (n, n) matrix, and the discrete one by KeOps (here without noise).
Ours are two more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from latentgraph.bench.continuous import dense_adjacency
from latentgraph.bench.libraries import installed
from latentgraph.bench.measure import side_by_side
from latentgraph.bench.neighbours import dense, keops
from latentgraph.bench.step import CLASSES, EMBEDDING, FEATURES, WIDTH, Step
from latentgraph.bench.tables import Row, in_words, megabytes, ratios
from latentgraph.layers import ContinuousDGM
from latentgraph.stacks import gcn, mlp
from latentgraph.text_table import Table

LIBRARIES = ("matplotlib", "pykeops")
OURS = "dDGM, latentgraph"
INDEX = ("n",)
# Largest n, colour (told apart by the colour-blind too), and shape of a point, of each line.
LINES = {
    "cDGM, dense": (10_000, "#D55E00", "s"),
    "dDGM, dense": (10_000, "#E69F00", "^"),
    "dDGM, KeOps, no noise": (50_000, "#009E73", "v"),
    "cDGM, latentgraph": (5_000, "#56B4E9", "D"),
    OURS: (1_000_000, "#0072B2", "o"),
}
SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 200_000, 1_000_000)


class Case(NamedTuple):
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """One figure, so one number of threads: the largest."""
    return [Case(n, max(threads)) for n in ((200, 400) if quick else SIZES)]


class ContinuousStep:
    """As `step.Step` for a continuous graph; `dense` works with (n, n) matrices."""

    def __init__(self, n: int, *, dense: bool) -> None:
        torch.manual_seed(0)
        self.x, self.y = torch.randn(n, FEATURES), torch.randint(CLASSES, (n,))
        self.dense = dense
        self.dgm = ContinuousDGM(mlp([FEATURES, WIDTH, EMBEDDING]))
        self.convolutions = gcn([FEATURES, WIDTH, WIDTH, WIDTH], activate_last=True)
        self.head = nn.Linear(WIDTH, CLASSES)
        learned = [*self.dgm.parameters(), *self.convolutions.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.Adam(learned)

    def __call__(self) -> None:
        graph, h = self.dgm(self.x), self.x
        if self.dense:
            a = dense_adjacency(graph)
            scale = a.sum(1, keepdim=True).rsqrt()
            normalised = scale * a * scale.T
            for layer in self.convolutions.steps[::2]:  # activations are between them
                conv: Any = layer.conv
                h = (normalised @ conv.lin(h) + conv.bias).relu()
        else:
            h = self.convolutions(h, graph)
        self.optimiser.zero_grad()
        F.cross_entropy(self.head(h), self.y).backward()
        self.optimiser.step()


def measure(case: Case) -> list[Row]:
    makers: dict[str, Callable[[int], Callable[[], None]]] = {
        "cDGM, dense": lambda n: ContinuousStep(n, dense=True),
        "dDGM, dense": lambda n: Step(n, dense),
        "dDGM, KeOps, no noise": lambda n: Step(n, lambda x_hat, k, t: keops(x_hat, k, t)),
        "cDGM, latentgraph": lambda n: ContinuousStep(n, dense=False),
        OURS: Step,
    }
    if not installed("pykeops"):
        del makers["dDGM, KeOps, no noise"]
    steps = {name: make(case.n) for name, make in makers.items() if case.n <= LINES[name][0]}
    if case.n <= 1_000:
        for step in steps.values():  # compiles, where it does
            step()
    return [
        {
            **case._asdict(),
            "method": name,
            **asdict(value),
        }
        for name, value in side_by_side(steps).items()
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    words = in_words(rows[0]["threads"])
    return [ratios(f"Time of a training step, {words}", rows, INDEX, OURS), megabytes("Memory", rows, INDEX)]


def draw(rows: Sequence[Row], stem: Path) -> None:
    """STEM.png and STEM.svg: two panels against n, both axes logarithmic."""
    if not installed("matplotlib"):
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, column, title in zip(
        panels, ("seconds", "megabytes"), ("Training step, seconds", "Memory, MB"), strict=True
    ):
        for name, (_, colour, marker) in LINES.items():
            here = [row for row in rows if row["method"] == name and row[column] > 0]
            panel.plot(
                [row["n"] for row in here], [row[column] for row in here], color=colour, marker=marker, label=name
            )
        panel.set(xscale="log", yscale="log", xlabel="nodes", title=title)
        panel.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    with mpl.rc_context({"svg.hashsalt": "latentgraph"}):  # the same rows give the same file
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
    figure.savefig(stem.with_name(stem.name + ".png"), dpi=150)
