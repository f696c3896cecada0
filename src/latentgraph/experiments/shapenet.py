"""Parts of 3D shapes (the paper's section on computer graphics): DGCNN, the same with learned graphs, and without any.

The paper's data is all of ShapeNet part. On a subset of it the networks can be compared with each other, but not with
printed numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from latentgraph.baselines.nearest_points import NearestPoints
from latentgraph.clouds import Cloud, some_points
from latentgraph.datasets.root import data_file
from latentgraph.datasets.shapenet import (
    CATEGORIES,
    FOLDER,
    HOW_TO_GET,
    PARTS,
    ShapeNetPart,
    shapenet_part,
    shapenet_subset,
)
from latentgraph.experiments.experiment import UNFINISHED, Cell, Experiment, mean_and_deviation
from latentgraph.experiments.results import Results, published
from latentgraph.experiments.shapenet_networks import (
    NETWORKS,
    OURS,
    PLAIN,
    Budget,
    keep_network,
    segmented,
    trained,
)
from latentgraph.segmentation import MeanIoU, mean_iou, shape_iou
from latentgraph.text_table import Table

KEY = ("data", "method", "seed")
SEEDS = 2
SUBSET, COMPLETE = "subset", "complete"
NEAREST = "nearest labelled points"
METHODS = (NEAREST, *NETWORKS)
VOTERS = (1, 4, 16, 64, 256)  # for the nearest points; validation chooses
BUDGETS = {
    SUBSET: Budget(points=128, clouds=8, steps=1_000, eval_every=250),
    # 200 times the 12,137 training shapes; the validation shapes are not learned from
    COMPLETE: Budget(points=2048, clouds=32, steps=75_900, eval_every=1_000),
}
QUICK = Budget(points=48, clouds=4, steps=4, eval_every=2, shapes=2)
PROTOCOL = (
    "given split; every shape in the unit sphere, the same random points of each test shape for all methods; weights "
    "(by likelihood) and number of voters (by mIoU) chosen on the validation shapes; predictions among the parts of "
    "the category; consensus of 8 sampled graphs; the test shapes are scored once"
)


def cells(data: str, seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [
        {"data": data, "method": method, "seed": seed}
        for seed in range(seeds)
        for method in METHODS
        if not (method == NEAREST and seed)  # nothing random
    ]


def budget_of(data: str, quick: bool) -> Budget:
    return QUICK if quick else BUDGETS[data]


@cache
def whole(data: str, data_root: str | None) -> ShapeNetPart:
    """All shapes with all their points."""
    return shapenet_subset(data_root) if data == SUBSET else shapenet_part(data_file(FOLDER, data_root, HOW_TO_GET))


@cache
def shapes_of(data: str, quick: bool, data_root: str | None) -> ShapeNetPart:
    """Training shapes with all their points; those to choose by and to test on with as many as the budget has."""
    budget, generator = budget_of(data, quick), torch.Generator().manual_seed(0)
    train, *others = (_first_of_each(clouds, budget.shapes) for clouds in whole(data, data_root))
    return ShapeNetPart(
        train, *([some_points(cloud, budget.points, generator) for cloud in clouds] for clouds in others)
    )


def _first_of_each(clouds: Sequence[Cloud], count: int | None) -> list[Cloud]:
    if count is None:
        return list(clouds)
    return [cloud for c in range(len(CATEGORIES)) for cloud in [one for one in clouds if one.category == c][:count]]


def compute(cell: Cell, quick: bool, data_root: str | None, folder: Path) -> dict[str, Any]:
    """Fit, choose on the validation shapes, and only then look at the parts of the test shapes."""
    shapes = shapes_of(cell["data"], quick, data_root)
    if cell["method"] == NEAREST:
        predict, more = _nearest_points(shapes)
    else:
        budget = budget_of(cell["data"], quick)
        net, history = trained(cell["method"], cell["seed"], shapes, budget, folder / UNFINISHED)
        keep_network(net, folder)
        predict = partial(segmented, net, size=budget.clouds)
        more = {"steps": len(history.rows), "best_step": history.best_step, "validation": history.best_score}
    tested = scores(predict, shapes.test)
    return {
        "instance": tested.instance,
        "category": tested.category,
        "iou": {CATEGORIES[number]: value for number, value in tested.of_category.items()},
        **more,
    }


Predict = Callable[[Sequence[Cloud]], list[Tensor]]


def scores(predict: Predict, clouds: Sequence[Cloud]) -> MeanIoU:
    iou = [
        shape_iou(predicted, cloud.part, PARTS[cloud.category])
        for predicted, cloud in zip(predict(clouds), clouds, strict=True)
    ]
    return mean_iou(iou, [cloud.category for cloud in clouds])


def _nearest_points(shapes: ShapeNetPart) -> tuple[Predict, dict[str, Any]]:
    method = NearestPoints().fit(shapes.train)

    def predict(k: int, clouds: Sequence[Cloud]) -> list[Tensor]:
        method.k = k  # what is kept of the training shapes is the same for all
        return [method.predict(cloud) for cloud in clouds]

    best = max(VOTERS, key=lambda k: scores(partial(predict, k), shapes.validation).instance)
    return partial(predict, best), {"voters": best}


def tables(data: str, results: Results) -> list[Table]:
    """A row for each category, as in the paper, and the two means."""
    paper = published("shapenet")["rows"]
    header = ["category", *METHODS, *(f"{name}, paper" for name in (PLAIN, OURS))]
    rows = [
        [name, *(_shown(results, data, method, name) for method in METHODS), *map(str, paper[name].values())]
        for name in CATEGORIES
    ]
    for words, column, printed in (
        ("mean of shapes", "instance", [str(value) for value in paper["mean"].values()]),
        ("mean of categories", "category", ["-", "-"]),
    ):
        rows.append([words, *(_shown(results, data, method, column) for method in METHODS), *printed])
    return [Table(TITLES[data], header, rows)]


def _shown(results: Results, data: str, method: str, what: str) -> str:
    """Mean and deviation of a mean or of a category, and how many runs there are if not as many as there should be."""
    runs = [row | row["iou"] for row in results.rows if row["data"] == data and row["method"] == method]
    values = [row[what] for row in runs if what in row]
    return mean_and_deviation(values) + ("" if len(values) in (0, SEEDS) else f" ({len(values)})")


UNIT = f"mIoU in %, mean ± standard deviation of {SEEDS} runs; another number of runs in brackets"
TITLES = {
    SUBSET: f"{UNIT}. Ours on a subset, with few points and few steps: NOT comparable with the paper's columns",
    COMPLETE: UNIT,
}


def pictures(name: str, data: str, out: Path, quick: bool, data_root: str | None) -> list[Path]:
    from latentgraph.experiments.shapenet_figure import draw

    return draw(name, data, out, quick, data_root)


EXPERIMENTS = {
    name: Experiment(
        name,
        KEY,
        SEEDS,
        partial(cells, data),
        compute,
        partial(tables, data),
        PROTOCOL,
        in_folder=True,
        pictures=partial(pictures, name, data),
    )
    for name, data in (("shapenet", SUBSET), ("shapenet-full", COMPLETE))
}
