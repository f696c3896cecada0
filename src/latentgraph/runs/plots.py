"""The pictures of a run. matplotlib is optional: without it there are none, and the run goes on."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentgraph.files import replacing
from latentgraph.runs.scores import calibration, confusion, known
from latentgraph.tables import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]
History = Sequence[dict[str, float]]

# Okabe and Ito's colours, told apart by colour-blind readers, too
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#666666"
MANY_CLASSES = 12  # from here on a confusion matrix has no numbers in its cells


def write(
    folder: Path, target: Target, y: Array, history: History, best_step: int, tested: Array, found: Array
) -> dict[str, str]:
    """Draw what there is to see into `folder`; return the files and their titles.

    Parameters
    ----------
    y : (n,) targets of all rows
    history, best_step : of the training on all rows
    tested, found : (m,) targets of the rows that were tested on; (m, c) probabilities or (m,) numbers found for them
    """
    for old in folder.glob("*.png"):
        old.unlink()
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print('No plots: matplotlib is not installed. Add it with: pip install "latentgraph[plots]"', file=sys.stderr)
        return {}
    drawn = {"learning.png": learning(history, best_step, target)}
    if any(name in row for row in history for name in ("homophily", "edge_difference")):
        drawn["edges.png"] = edges(history, best_step, target, y[known(y)])
    if len(tested) and target.classes:
        drawn["confusion.png"] = confusion_matrix(tested, found, target)
        drawn["calibration.png"] = reliability(tested, found, target)
    elif len(tested):
        drawn["predictions.png"] = predictions(tested, found, target)
    folder.mkdir(exist_ok=True)
    for name, figure in drawn.items():
        with replacing(folder / name, "wb") as file:
            figure.savefig(file, format="png", dpi=150)
    return {name: str(figure.get_label()) for name, figure in drawn.items()}


def learning(history: History, best_step: int, target: Target) -> Figure:
    """Losses and validation score, step by step."""
    second = "accuracy" if target.classes else "auxiliary_loss"
    both = any(second in row for row in history)
    title = "Learning curves of the final model"
    figure, panels = _figure(title, 2, height=5.4) if both else _figure(title)
    loss = "cross-entropy" if target.classes else "squared error\n(standardised target)"
    _curve(panels[0], history, "loss", BLUE, "training, one sampled graph")
    _curve(panels[0], history, "validation", ORANGE, "validation, mean of several graphs", marker="o")
    panels[0].set(ylabel=loss, ylim=(0, None))
    if both and target.classes:
        _curve(panels[1], history, second, ORANGE, "validation", marker="o", scale=100)
        low, high = panels[1].get_ylim()
        panels[1].set(ylabel="right predictions (%)", ylim=(low, min(high, 102)))
    elif both:
        _curve(panels[1], history, second, BLUE, "training, linear model on the graph embedding")
        panels[1].set(ylabel=loss, ylim=(0, None))
    for axes in panels:
        _finish(axes, best_step)
    panels[-1].set_xlabel("training step")
    return figure


def edges(history: History, best_step: int, target: Target, values: Array) -> Figure:
    """How alike the ends of sampled edges are, beside pairs of rows drawn by chance."""
    if target.classes:
        figure, (axes,) = _figure("Edges within a class, during training")
        _curve(axes, history, "homophily", BLUE, "sampled edges between rows learned from", scale=100)
        share = np.bincount(values) / len(values)
        chance = 100 * float((share**2).sum())
        axes.set(ylabel="edges that join the same class (%)")
    else:
        figure, (axes,) = _figure(f"Difference of {target.column} along edges, during training")
        _curve(axes, history, "edge_difference", BLUE, "sampled edges between rows learned from")
        chance = _mean_difference(values) / max(float(values.std()), np.finfo(float).tiny)
        axes.set(ylabel="mean absolute difference\n(standard deviations)")
    axes.axhline(chance, color=GREY, linestyle=":", label="pairs drawn by chance")
    axes.set_ylim(bottom=0)
    _finish(axes, best_step)
    axes.set_xlabel("training step")
    return figure


def confusion_matrix(y: Array, probability: Array, target: Target) -> Figure:
    """Rows of each class (down) by predicted class (across), coloured by the share of the class."""
    counts = confusion(y, probability)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = float(np.clip(2.6 + 0.55 * len(counts), 3.6, 10))
    figure, (axes,) = _figure(f"Confusion matrix of {target.column}, {len(y)} tested rows", width=size + 1, height=size)
    image = axes.imshow(100 * share, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="share of the true class (%)", shrink=0.8)
    names = [name if len(name) <= 18 else f"{name[:17]}…" for name in target.classes]
    steps = range(0, len(names), -(-len(names) // 40))  # at most 40 names
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(steps, [names[i] for i in steps], **(turned if max(map(len, names)) > 5 else {}))
    axes.set_yticks(steps, [names[i] for i in steps])
    axes.set(xlabel="predicted", ylabel="true")
    axes.grid(False)
    if len(counts) < MANY_CLASSES:
        for (i, j), count in np.ndenumerate(counts):
            axes.text(j, i, str(count), ha="center", va="center", color="white" if share[i, j] > 0.5 else "black")
    return figure


def reliability(y: Array, probability: Array, target: Target) -> Figure:
    """How often predictions of some probability are right, and how many there are."""
    found = calibration(y, probability)
    title = f"Calibration, {len(y)} tested rows; expected error {100 * found.error:.1f} %"
    figure, (top, bottom) = _figure(title, 2, height=5.4, ratios=(3, 1))
    width = 100 * (found.edges[1] - found.edges[0])
    rows = [b for b, count in enumerate(found.counts) if count]
    said = [100 * p for p in found.probability if p is not None]
    true = [100 * p for p in found.right if p is not None]
    n = np.array([found.counts[b] for b in rows])
    share = np.array(true) / 100
    top.plot([0, 100], [0, 100], color=GREY, linestyle=":", label="perfect")
    # Wilson's interval: that of a share, honest also for few rows
    middle, spread = (share + 2 / n) / (1 + 4 / n), 2 * np.sqrt(share * (1 - share) / n + 1 / n**2) / (1 + 4 / n)
    top.vlines(said, 100 * (middle - spread), 100 * (middle + spread), color=BLUE, alpha=0.5, label="95 % interval")
    top.plot(said, true, "o", color=BLUE, label="latentgraph", clip_on=False, zorder=3)
    top.set(ylabel="right predictions (%)", ylim=(0, 100), xlim=(0, 100))
    top.legend(loc="upper left")
    middles = [100 * (found.edges[b] + found.edges[b + 1]) / 2 for b in range(len(found.counts))]
    bars = bottom.bar(middles, found.counts, width=0.9 * width, color=BLUE)
    bottom.bar_label(bars, labels=[str(count) if count else "" for count in found.counts], fontsize=8)
    bottom.set(xlabel="probability of the predicted class (%)", ylabel="rows")
    bottom.margins(y=0.2)
    return figure


def predictions(y: Array, found: Array, target: Target) -> Figure:
    """Predicted against true numbers."""
    title = f"Predictions of {target.column}, {len(y)} tested rows"
    figure, (axes,) = _figure(title, width=4.8, height=4.6)
    ends = [min(y.min(), found.min()), max(y.max(), found.max())]
    axes.plot(ends, ends, color=GREY, linestyle=":", label="perfect")
    axes.plot(y, found, "o", color=BLUE, markersize=3, alpha=max(0.15, min(1.0, 100 / len(y))), markeredgewidth=0)
    axes.set(xlabel=f"true {target.column}", ylabel=f"predicted {target.column}", aspect="equal")
    axes.legend(loc="upper left")
    return figure


def _figure(
    title: str, panels: int = 1, *, width: float = 6.4, height: float = 3.8, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Panels above each other that share their x axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", label=title)
    found = figure.subplots(panels, 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    for axes in found:
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    # Over the whole figure: panels can be narrower than their title.
    figure.suptitle(textwrap.fill(title, int(11 * width)), x=0.02, ha="left", fontsize=11)
    return figure, list(found)


def _curve(
    axes: Axes, history: History, name: str, color: str, label: str, marker: str | None = None, scale: float = 1.0
) -> None:
    points = [(row["step"], scale * row[name]) for row in history if name in row]
    if points:
        axes.plot(*zip(*points, strict=True), color=color, label=label, marker=marker, markersize=3, linewidth=1.2)


def _finish(axes: Axes, best_step: int) -> None:
    axes.axvline(best_step, color=GREEN, linestyle="--", linewidth=1, label=f"weights kept, step {best_step}")
    axes.legend(fontsize=8)


def _mean_difference(values: Array) -> float:
    """Mean of |a - b| over all pairs of different rows, by sorting."""
    n = len(values)
    rank = np.arange(1, n + 1)
    return float(2 * ((2 * rank - n - 1) * np.sort(values)).sum() / max(n * (n - 1), 1))
