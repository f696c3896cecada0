"""`latentgraph bench gradients`: bias and variance of every estimator of the graph's gradient, against enumeration.

On `exact_gradient.Problem`, for several random problems at a time, as if they were one large one: the bias is the norm
of (mean of the estimates - true gradient) over that of the true gradient, and likewise the deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from latentgraph.bench.exact_gradient import CONVOLUTIONS, Problem
from latentgraph.bench.libraries import installed
from latentgraph.bench.tables import Row, number
from latentgraph.gradients import (
    Both,
    Gradient,
    Implicit,
    PlackettLuce,
    Reinforce,
    Softmax,
    StraightThrough,
    Subsets,
)
from latentgraph.loss import MovingAverageBaseline, SampleMeanBaseline
from latentgraph.text_table import Table

LIBRARIES = ("matplotlib",)
TEMPERATURES = (0.3, 3.0)
SAMPLES = (1, 4, 16)
PROBLEMS = 8
COPIES = 250  # of each problem: so many independent estimates

Maker = Callable[[int, int], Gradient]  # samples, nodes -> a gradient


def _baseline(samples: int, nodes: int) -> torch.nn.Module:
    return SampleMeanBaseline() if samples > 1 else MovingAverageBaseline(nodes).double()


METHODS: dict[str, Maker] = {
    "reinforce": lambda s, n: Reinforce(_baseline(s, n), s),
    "plackett_luce, hops=0": lambda s, n: PlackettLuce(s, 0, _baseline(s, n)),
    "plackett_luce, hops=1": lambda s, n: PlackettLuce(s, CONVOLUTIONS - 1, _baseline(s, n)),
    "plackett_luce, whole graph": lambda s, n: PlackettLuce(s, None, _baseline(s, n)),
    "straight_through, softmax": lambda s, n: StraightThrough(),
    "straight_through, p": lambda s, n: StraightThrough("p"),
    "implicit, reach=0.3": lambda s, n: Implicit(reach=0.3),
    "implicit, reach=1": lambda s, n: Implicit(),
    "implicit, reach=3": lambda s, n: Implicit(reach=3.0),
    "subsets": lambda s, n: Subsets(),
    "softmax": lambda s, n: Softmax(),
    "softmax+plackett_luce, hops=1": lambda s, n: Both(Softmax(), PlackettLuce(s, CONVOLUTIONS - 1, _baseline(s, n))),
}


class Case(NamedTuple):
    temperature: float
    samples: int
    problems: int
    copies: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """Nothing is timed: one thread."""
    if quick:
        return [Case(0.3, samples, 1, 50, 1) for samples in (1, 4)]
    return [Case(t, samples, PROBLEMS, COPIES, 1) for t in TEMPERATURES for samples in SAMPLES]


def measure(case: Case) -> list[Row]:
    problems = [Problem(case.temperature, seed=seed) for seed in range(case.problems)]
    plain = [problem.true_gradient(Gradient()) for problem in problems]
    rows: list[Row] = []
    for name, make in METHODS.items():
        found, true = [], []
        for seed, problem in enumerate(problems):
            gradient = make(case.samples, case.copies * problem.n)
            generator = torch.Generator().manual_seed(seed)
            found.append(problem.estimates(gradient, case.samples, case.copies, generator))
            true.append(problem.true_gradient(gradient))
        about = {"t": case.temperature, "method": name, "samples": case.samples, "repeats": case.problems * case.copies}
        rows.append(about | _compared(found, true, plain))
    return rows


def _compared(found: list[Tensor], true: list[Tensor], plain: list[Tensor]) -> dict[str, float]:
    """Estimates (problems, copies, n, 2) with the true gradients (problems, n, 2) of their own forward pass and law."""
    estimates, truth, of_plain = (torch.stack(x).flatten(-2) for x in (found, true, plain))
    mean = estimates.mean(1)
    size = truth.square().sum()
    variance = estimates.var(1).sum()
    return {
        "bias": float(((mean - truth).square().sum() / size).sqrt()),
        "error": float((variance / estimates.shape[1] / size).sqrt()),
        "deviation": float((variance / size).sqrt()),
        "mse": float((estimates - truth[:, None]).square().sum(2).mean(1).sum() / size),
        "length": float((mean.square().sum() / size).sqrt()),
        "cosine": float(cosine_similarity(mean, truth, dim=1).mean()),
        "cosine of a step": float(cosine_similarity(estimates, truth[:, None], dim=2).mean()),
        "cosine with the plain one": float(cosine_similarity(mean, of_plain, dim=1).mean()),
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """A line for each method: the bias from the largest number of samples, where it is known best."""
    most = max(row["samples"] for row in rows)
    counts = sorted({row["samples"] for row in rows})
    header = ["gradient", "bias", "± error", "cosine of the mean", "with the plain one"]
    header += [f"deviation, S={s}" for s in counts] + [f"MSE, S={s}" for s in counts]
    header += [f"cosine of a step, S={s}" for s in counts]
    found = []
    for t in dict.fromkeys(row["t"] for row in rows):
        lines = []
        for name in dict.fromkeys(row["method"] for row in rows):
            of = {row["samples"]: row for row in rows if row["t"] == t and row["method"] == name}
            best = of[most]
            line = [name, _two(best["bias"]), _two(best["error"]), _two(best["cosine"])]
            line.append(_two(best["cosine with the plain one"]))
            for column in ("deviation", "mse", "cosine of a step"):
                line += [_two(of[s][column]) for s in counts]
            lines.append(line)
        found.append(Table(f"t = {number(t)}", header, lines))
    return found


def _two(value: float) -> str:
    return number(value) if abs(value) >= 100 else f"{value:.2f}"


CAPTION = "Filled: biased. Open: no bias seen, drawn at what chance allows. Down a line: 1, 4, 16 graphs a step"
# Colours that the colour-blind tell apart, and shapes; variants of a method share a colour.
LOOKS = {
    "reinforce": ("#D55E00", "s"),
    "plackett_luce, hops=0": ("#0072B2", "v"),
    "plackett_luce, hops=1": ("#0072B2", "o"),
    "plackett_luce, whole graph": ("#0072B2", "^"),
    "straight_through, softmax": ("#E69F00", "o"),
    "straight_through, p": ("#E69F00", "D"),
    "implicit, reach=0.3": ("#009E73", "v"),
    "implicit, reach=1": ("#009E73", "o"),
    "implicit, reach=3": ("#009E73", "^"),
    "subsets": ("#CC79A7", "P"),
    "softmax": ("#000000", "X"),
    "softmax+plackett_luce, hops=1": ("#56B4E9", "*"),
}


def draw(rows: Sequence[Row], stem: Path) -> None:
    """STEM.png and STEM.svg: deviation against bias, a panel for each temperature, a line over the samples."""
    if not installed("matplotlib"):
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    temperatures = list(dict.fromkeys(row["t"] for row in rows))
    figure = Figure(figsize=(5 * len(temperatures) + 2.6, 4.8), layout="constrained")
    panels = figure.subplots(1, len(temperatures), squeeze=False, sharex=True, sharey=True)[0]
    for panel, t in zip(panels, temperatures, strict=True):
        for name, (colour, marker) in LOOKS.items():
            here = [row for row in rows if row["t"] == t and row["method"] == name]
            bias = [max(row["bias"], row["error"]) for row in here]
            panel.plot(bias, [row["deviation"] for row in here], color=colour, alpha=0.4, linewidth=1)
            for x, row in zip(bias, here, strict=True):
                seen = row["bias"] > 2 * row["error"]
                look = {"color": colour, "marker": marker, "markersize": 8, "linestyle": "none"}
                panel.plot(x, row["deviation"], markerfacecolor=colour if seen else "white", **look)
            panel.plot([], [], color=colour, marker=marker, linestyle="none", label=name)
        panel.set(xscale="log", yscale="log", xlabel="bias / true gradient", title=f"t = {number(t)}")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("standard deviation of a step / true gradient")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(CAPTION, fontsize=10)
    with mpl.rc_context({"svg.hashsalt": "latentgraph"}):  # the same rows give the same file
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
    figure.savefig(stem.with_name(stem.name + ".png"), dpi=150)
