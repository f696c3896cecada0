"""The paper's zero-shot section by proxy: predict the classifiers of held-out classes of ImageNet from their names.

Of the thousand classes with a classifier, 200 are held out, and 100 of the others are there to choose by. A method
predicts the 200 missing rows of the last layer; one image of each held-out class tells how good they are, among the 200
and among all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from latentgraph.datasets.zero_shot import ImageNetClasses, imagenet_classes
from latentgraph.experiments.experiment import Cell, Experiment, mean_and_deviation
from latentgraph.experiments.results import Results, published
from latentgraph.text_table import Table
from latentgraph.zero_shot.classes import Classes, ZeroShotMethod, arrange
from latentgraph.zero_shot.dense_propagation import DGP
from latentgraph.zero_shot.given_graph import GCNZ, SGCN, NearestGraph, NoGraph
from latentgraph.zero_shot.learned_graph import BestDGM, PaperDGM, RingsDGM, UnitPaperDGM
from latentgraph.zero_shot.network import RowNetwork
from latentgraph.zero_shot.ridge import KernelRidge, RingsKernelRidge
from latentgraph.zero_shot.scores import hits, nearest_share, of_length

KEY = ("method", "seed")
SEEDS = 5
STOP, WANTED = 100, 200
STEPS, QUICK_STEPS = 60, 3
QUICK_WIDTH = 32  # hidden features of all networks with --quick
BOUND = "true classifiers"

Make = Callable[[int, int], ZeroShotMethod]  # (seed, steps) -> method
METHODS: dict[str, Make] = {
    "ridge": lambda seed, steps: KernelRidge(linear=True),
    "kernel ridge": lambda seed, steps: KernelRidge(),
    "kernel ridge, refitted": lambda seed, steps: KernelRidge(refit=True),
    "kernel ridge, WordNet": lambda seed, steps: RingsKernelRidge(),
    "no graph": lambda seed, steps: NoGraph(seed, steps=steps),
    "nearest words": lambda seed, steps: NearestGraph(seed, steps=steps),
    "GCNZ": lambda seed, steps: GCNZ(seed, steps=3 * steps),  # six layers take longer
    "SGCN": lambda seed, steps: SGCN(seed, steps=steps),
    "DGP": lambda seed, steps: DGP(seed, steps=steps),
    "dDGM, paper": lambda seed, steps: PaperDGM(seed, steps=steps),
    "dDGM, paper, unit length": lambda seed, steps: UnitPaperDGM(seed, steps=steps),
    "dDGM, best": lambda seed, steps: BestDGM(seed, steps=steps),
    "dDGM, best, WordNet": lambda seed, steps: RingsDGM(seed, steps=steps),
}
SEES_WORDNET = ("GCNZ", "SGCN", "DGP", "kernel ridge, WordNet", "dDGM, best, WordNet")
PROTOCOL = (
    f"{WANTED} of 1,000 classes held out, {STOP} others to choose steps or strength by, the rest learned from "
    "(refitted: these as well); one image of each held-out class; every predicted row is given the mean length of "
    "those learned from; consensus of 8 sampled graphs among all candidates; the held-out classes are scored once"
)


def problem(data: ImageNetClasses, seed: int) -> tuple[Classes, Tensor]:
    return arrange(
        data.x,
        data.parent_edges,
        data.rows,
        data.images,
        stop=STOP,
        wanted=WANTED,
        seed=seed,
        num_candidates=data.num_candidates,
    )


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [{"method": method, "seed": seed} for seed in range(seeds) for method in (BOUND, *METHODS)]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    data = imagenet_classes(data_root)
    classes, order = problem(data, cell["seed"])
    held_out = order[-WANTED:]
    if cell["method"] == BOUND:
        return scores(data.rows[held_out], data, held_out)
    method = METHODS[cell["method"]](cell["seed"], QUICK_STEPS if quick else STEPS)
    if quick:
        narrow(method)
    rows = of_length(method.fit(classes).predict(classes)[-WANTED:], classes.length)
    measured = scores(rows, data, held_out)
    history = getattr(method, "history", None)
    return measured if history is None else {**measured, "steps": len(history.rows), "kept_step": history.best_step}


def narrow(method: ZeroShotMethod) -> None:
    """Few hidden features and one sampled graph: for a look at whether all works."""
    if isinstance(method, RowNetwork):
        method.samples = 1
    hidden = getattr(method, "hidden", None)
    if hidden is not None:
        method.hidden = QUICK_WIDTH if isinstance(hidden, int) else (QUICK_WIDTH,) * len(hidden)  # type: ignore[attr-defined]


def scores(rows: Tensor, data: ImageNetClasses, held_out: Tensor) -> dict[str, float]:
    """Of predicted rows (w, c) of the held-out classes: among themselves, and among all, whose true rows are known."""
    images = data.images[held_out]
    everyone = data.rows.clone()
    everyone[held_out] = rows
    among = torch.arange(len(rows))
    return {
        "top1": hits(rows, images, among, 1),
        "top5": hits(rows, images, among, 5),
        "top1_all": hits(everyone, images, held_out, 1),
        "top5_all": hits(everyone, images, held_out, 5),
        "nearest": nearest_share(rows, data.rows[held_out]),
    }


def tables(results: Results) -> list[Table]:
    """The best first; then what the paper says of other data."""
    columns = {
        "top1": "top-1, of 200",
        "top5": "top-5, of 200",
        "top1_all": "top-1, of 1,000",
        "top5_all": "top-5, of 1,000",
        "nearest": "nearest to own row",
    }
    found = {method: results.column("top1", method=method) for method in (BOUND, *METHODS)}
    order = sorted(
        (method for method in found if found[method]), key=lambda method: -sum(found[method]) / len(found[method])
    )
    most = max((len(values) for values in found.values()), default=0)
    rows = []
    for method in order:
        runs = len(found[method])
        name = method if runs == most else f"{method} ({runs})"
        measured = [mean_and_deviation(results.column(column, method=method)) for column in columns]
        rows.append([name, "yes" if method in SEES_WORDNET else "-" if method == BOUND else "no", *measured])
    ours = Table(
        "a proxy of the paper's experiment (EfficientNet-Lite0 instead of ResNet-50, word vectors of 100 numbers "
        "instead of 300, one image a class, no AWA2 images): images of held-out classes in %, mean ± standard "
        f"deviation of {most} choices of classes, fewer in brackets",
        ["method", "sees WordNet", *columns.values()],
        rows,
    )
    printed = published("zeroshot")
    paper = Table(
        "printed in the paper, on other data: not to be compared with the above",
        ["method", f"top-1: {printed['caption']}"],
        [[method, f"{value:.1f}"] for method, value in printed["rows"].items()],
    )
    return [ours, paper]


EXPERIMENTS = {"zeroshot": Experiment("zeroshot", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
