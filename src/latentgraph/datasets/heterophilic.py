"""Six graphs whose neighbours mostly differ: web pages of three universities, actors, and articles of an encyclopedia.

In the form of the benchmark of Platonov et al. 2023: one file each, with ten splits. Chameleon and Squirrel are those
without duplicate nodes, which had leaked from training into test.
"""

from __future__ import annotations

import os

import numpy as np
import torch

from latentgraph.datasets.planetoid import Citations
from latentgraph.datasets.root import data_file
from latentgraph.errors import InputError

FILES = {
    "Texas": "texas",
    "Wisconsin": "wisconsin",
    "Cornell": "cornell",
    "Actor": "actor",
    "Chameleon": "chameleon_filtered",
    "Squirrel": "squirrel_filtered",
}
SPLITS = 10
HOW_TO_GET = "Put the npz files of the heterophilous-graphs benchmark into heterophilic/ below your data folder."


def heterophilic(name: str, root: str | os.PathLike[str] | None = None, *, split: int = 0) -> Citations:
    """One of the six with one of its ten splits; links in both directions, the features as they are (0 or 1)."""
    if name not in FILES or split not in range(SPLITS):
        raise InputError(f"{name!r}, split {split}: there is {', '.join(FILES)}, each with splits 0 to {SPLITS - 1}.")
    with np.load(data_file(f"heterophilic/{FILES[name]}.npz", root, HOW_TO_GET)) as data:
        a, b = torch.as_tensor(data["edges"]).T
        masks = [torch.as_tensor(data[f"{part}_masks"][split]) for part in ("train", "val", "test")]
        x, y = torch.as_tensor(data["node_features"]), torch.as_tensor(data["node_labels"])
    return Citations(x, y, torch.stack([torch.cat([a, b]), torch.cat([b, a])]), *masks)
