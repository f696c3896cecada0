"""Cora, CiteSeer and PubMed: documents, their words, and who cites whom.

The paper's split is neither of the usual ones: nodes in the order of the file, all but the last 1,000 to train on, the
next 500 to choose by, the last 500 to test on. `public` is the usual one with 20 labels a class; `random` has the
sizes of the paper's, drawn by a seed.

CiteSeer has 15 nodes without words and without a class, which PyG calls class 0. The public split leaves them out; in
the paper's, 5 are among the nodes to choose by and 10 among those to test on. They are left there.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from latentgraph.datasets.root import data_file
from latentgraph.errors import InputError

NAMES = ("Cora", "CiteSeer", "PubMed")
HELD_OUT = 500  # nodes to choose by, and as many to test on
Split = Literal["paper", "public", "random"]


class Citations(NamedTuple):
    """Documents (n, d), each row summing to one, classes (n,), links (2, e) both ways, and three masks (n,)."""

    x: Tensor
    y: Tensor
    edge_index: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor


def planetoid(
    name: str, root: str | os.PathLike[str] | None = None, *, split: Split = "paper", seed: int = 0
) -> Citations:
    """One of the three networks. `seed` matters for the random split only."""
    if name not in NAMES:
        raise InputError(f"there is no citation network {name!r}; there is: {', '.join(NAMES)}.")
    folder = data_file(
        f"planetoid/{name}/raw",
        root,
        f"Put the files ind.{name.lower()}.* of the Planetoid data sets into planetoid/{name}/raw below your data "
        "folder, as PyG's Planetoid class does.",
    )
    from torch_geometric.io import read_planetoid_data  # the class itself would write beside the files

    data = read_planetoid_data(str(folder), name.lower())
    x = data.x / data.x.sum(1, keepdim=True).clamp_min(1e-12)
    masks = _masks(split, data.train_mask, data.val_mask, data.test_mask, seed)
    return Citations(x, data.y, data.edge_index, *masks)


def _masks(split: Split, train: Tensor, validation: Tensor, test: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    if split == "public":
        return train, validation, test
    n = len(train)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)) if split == "random" else torch.arange(n)
    masks = torch.zeros(3, n, dtype=torch.bool)
    masks[0, order[: -2 * HELD_OUT]] = True
    masks[1, order[-2 * HELD_OUT : -HELD_OUT]] = True
    masks[2, order[-HELD_OUT:]] = True
    return masks[0], masks[1], masks[2]
