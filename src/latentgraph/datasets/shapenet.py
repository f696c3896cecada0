"""ShapeNet part: things of 16 categories as points on their surface, each labelled with one of 50 parts.

Three sources: a subset in one file, the folder as it is distributed, and PyG's objects. ShapeNet's terms do not allow
to pass the data on; register with ShapeNet to get it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from latentgraph.clouds import Cloud, in_unit_sphere
from latentgraph.datasets.root import data_file
from latentgraph.errors import InputError

# In the order in which all sources number them, and how many parts each has: the first has parts 0 to 3, and so on.
NUM_PARTS = {
    "Airplane": 4,
    "Bag": 2,
    "Cap": 2,
    "Car": 4,
    "Chair": 4,
    "Earphone": 3,
    "Guitar": 3,
    "Knife": 2,
    "Lamp": 4,
    "Laptop": 2,
    "Motorbike": 6,
    "Mug": 2,
    "Pistol": 3,
    "Rocket": 3,
    "Skateboard": 3,
    "Table": 3,
}
CATEGORIES = tuple(NUM_PARTS)
PARTS = tuple(
    range(stop - count, stop) for count, stop in zip(NUM_PARTS.values(), accumulate(NUM_PARTS.values()), strict=True)
)
SUBSET = "shapenetpart/shapenetpart_small_1024.npz"
FOLDER = "shapenetcore_partanno_segmentation_benchmark_v0_normal"
HOW_TO_GET_SUBSET = f"Put the subset of ShapeNet part, 1,024 points of each of 3,309 shapes, at {SUBSET} there."
HOW_TO_GET = (
    f"Register with ShapeNet (shapenet.org), download {FOLDER}.zip (ShapeNet part with normals) and unpack it below "
    "your data folder."
)


class ShapeNetPart(NamedTuple):
    """Clouds in the unit sphere, in the three parts of the given split."""

    train: list[Cloud]
    validation: list[Cloud]
    test: list[Cloud]


def shapenet_subset(root: str | os.PathLike[str] | None = None) -> ShapeNetPart:
    """3,309 shapes with 1,024 points each: at most 280 of a category, in the split of the whole."""
    with np.load(data_file(SUBSET, root, HOW_TO_GET_SUBSET)) as data:
        points = torch.as_tensor(data["xyz"].astype(np.float32))
        parts = torch.as_tensor(data["label"].astype(np.int64))
        categories, split = data["category"].tolist(), data["split"]
    clouds = [_cloud(*one) for one in zip(points, parts, categories, strict=True)]
    return ShapeNetPart(*([clouds[i] for i in np.flatnonzero(split == name)] for name in ("train", "val", "test")))


def shapenet_part(folder: str | os.PathLike[str]) -> ShapeNetPart:
    """The folder as it is distributed; clouds have as many points as their files have lines.

    Read are `synsetoffset2category.txt` (a name and the name of its folder in each line), the lists
    `train_test_split/shuffled_{train,val,test}_file_list.json`, and for each shape `SYNSET/ID.txt` with lines
    `x y z nx ny nz part`. The normals are not used.
    """
    folder = Path(folder)
    lines = _there(folder / "synsetoffset2category.txt").read_text(encoding="utf-8").splitlines()
    category = {synset: _number(name) for name, synset in (line.split() for line in lines if line.strip())}
    return ShapeNetPart(*(_listed(folder, name, category) for name in ("train", "val", "test")))


def from_pyg(data: Iterable[Any], categories: Sequence[str] = CATEGORIES) -> list[Cloud]:
    """Clouds from PyG `Data` objects with `pos`, `y` and `category`, as `torch_geometric.datasets.ShapeNet` has them.

    `categories` are the names that the numbers in `category` count: `dataset.categories`, where not all were loaded.
    """
    numbers = [_number(name) for name in categories]
    return [_cloud(one.pos.float(), one.y.long(), numbers[int(one.category)]) for one in data]


def _listed(folder: Path, name: str, category: dict[str, int]) -> list[Cloud]:
    path = _there(folder / "train_test_split" / f"shuffled_{name}_file_list.json")
    clouds = []
    for entry in json.loads(path.read_text(encoding="utf-8")):  # "shape_data/SYNSET/ID"
        synset, shape = entry.split("/")[-2:]
        if synset not in category:
            raise InputError(f"{path} names {entry!r}, but synsetoffset2category.txt has no {synset}.")
        clouds.append(_read(_there(folder / synset / f"{shape}.txt"), category[synset]))
    return clouds


def _read(path: Path, category: int) -> Cloud:
    try:
        columns = pd.read_csv(path, sep=r"\s+", header=None, dtype=np.float64).to_numpy()
        assert columns.shape[1] == 7
    except (ValueError, AssertionError):
        raise InputError(f"{path} is no cloud: every line must have seven numbers, x y z nx ny nz part.") from None
    points, part = torch.as_tensor(columns[:, :3].astype(np.float32)), torch.as_tensor(columns[:, 6].astype(np.int64))
    try:
        return _cloud(points, part, category)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _cloud(points: Tensor, part: Tensor, category: int) -> Cloud:
    """In the unit sphere, if its parts are those of its category."""
    parts = PARTS[category]
    if int(part.min()) < parts.start or int(part.max()) >= parts.stop:
        raise InputError(
            f"parts {int(part.min())} to {int(part.max())}, but a {CATEGORIES[category]} has parts {parts.start} to "
            f"{parts.stop - 1}: labels must be counted through all categories."
        )
    return Cloud(in_unit_sphere(points), part, category)


def _number(name: str) -> int:
    if name not in CATEGORIES:
        raise InputError(f"there is no category {name!r}; there is: {', '.join(CATEGORIES)}.")
    return CATEGORIES.index(name)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} does not exist. {HOW_TO_GET}")
    return path
