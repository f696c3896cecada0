"""A page as a static picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentgraph.errors import InputError
from latentgraph.explorer.encoding import most_probable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from latentgraph.explorer.page import Array, Page

CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")  # Okabe and Ito's
OTHER, UNKNOWN, EDGE, CHOSEN = "#8a94a3", "#c3cad4", "#50607450", "#d50000"
SCALE = "viridis"
DRAWN = 5  # edges for each node, the most probable ones
MANY = 20_000  # nodes; above, points only


def new_figure(width: float = 8.0, height: float = 6.0) -> Figure:
    """An empty figure that no window and no global state knows of."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib: pip install 'latentgraph[plots]'.") from None
    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the name decides the format."""
    path = Path(path)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise InputError(f"{path}: {error} Name a file that ends in .png, .svg or .pdf.") from None
    return path


def picture(page: Page) -> Figure:
    """The first graph of a page: nodes coloured by label, or else by prediction, and the most probable edges."""
    figure = new_figure()
    axes: Any = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_title(page.title)
    place = page.graphs[0].place
    assert place is not None
    n = len(place)
    if n <= MANY:
        draw_edges(axes, page.graphs[0].edges, place)
    size = min(40.0, max(1.0, 12_000 / n))
    answers = page.answers
    values = answers.label if answers.label is not None else answers.prediction
    if values is None:
        axes.scatter(*place.T, s=size, color=CLASSES[0], linewidths=0)
    elif len(answers.classes):
        draw_classes(axes, place, values, list(answers.classes), size)
    else:
        known = ~np.isnan(values)
        axes.scatter(*place[~known].T, s=size, color=UNKNOWN, linewidths=0)
        points = axes.scatter(*place[known].T, s=size, c=values[known], cmap=SCALE, linewidths=0)
        figure.colorbar(points, ax=axes, shrink=0.6, label=answers.target)
    return figure


def draw_edges(axes: Any, edges: Any, place: Array, most: int = DRAWN) -> None:
    from matplotlib.collections import LineCollection

    kept = most_probable(edges, most).tocoo()
    ends = np.stack([place[kept.row], place[kept.col]], 1)
    share = kept.data / max(float(kept.data.max(initial=0)), np.finfo(float).tiny)
    axes.add_collection(LineCollection(list(ends), colors=EDGE, linewidths=0.2 + 0.6 * share, zorder=0))


def draw_classes(axes: Any, place: Array, codes: Array, names: list[str], size: float) -> None:
    groups = [(UNKNOWN, "unknown", codes < 0)]
    groups += [(colour, name, codes == c) for c, (colour, name) in enumerate(zip(CLASSES, names, strict=False))]
    groups.append((OTHER, "others", codes >= len(CLASSES)))
    for colour, name, chosen in groups:
        if chosen.any():
            # A name that begins with an underscore would be left out of the legend, and $ would start a formula.
            label = name.replace("$", r"\$")
            label = f"\u200b{label}" if label.startswith("_") else label
            axes.scatter(*place[chosen].T, s=size, color=colour, linewidths=0, label=label)
    axes.legend(frameon=False, markerscale=min(4.0, 6 / size**0.5), loc="best")
