"""Parts by memory: each point takes the part that most of the nearest labelled points of its category have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from latentgraph.clouds import Cloud
from latentgraph.errors import InputError


class NearestPoints:
    """Nothing is learned: training clouds lie over each other, and a new one, lying among them, asks around.

    It works where things are normalised and stand upright, as those of ShapeNet do.

    Parameters
    ----------
    k : how many of the nearest points of all training clouds of the category vote

    Examples
    --------
    >>> known = Cloud(torch.tensor([[0.0, 0, 0], [1.0, 0, 0]]), torch.tensor([4, 5]), category=1)
    >>> new = known._replace(points=torch.tensor([[0.1, 0, 0], [0.7, 0, 0]]))
    >>> NearestPoints(k=1).fit([known]).predict(new)
    tensor([4, 5])
    """

    def __init__(self, k: int = 1) -> None:
        self.k = k
        self._known: dict[int, tuple[Any, np.ndarray[Any, np.dtype[np.int64]]]] = {}

    def fit(self, clouds: Sequence[Cloud]) -> Self:
        of_category = defaultdict(list)
        for cloud in clouds:
            of_category[cloud.category].append(cloud)
        self._known = {
            category: (
                cKDTree(torch.cat([cloud.points for cloud in found]).numpy()),
                torch.cat([cloud.part for cloud in found]).numpy(),
            )
            for category, found in of_category.items()
        }
        return self

    def predict(self, cloud: Cloud) -> Tensor:
        """(n,) the part of each point."""
        if cloud.category not in self._known:
            raise InputError(f"no cloud of category {cloud.category} was given to fit; there was: {[*self._known]}.")
        tree, part = self._known[cloud.category]
        nearest = tree.query(cloud.points.numpy(), k=min(self.k, tree.n))[1].reshape(len(cloud.points), -1)
        votes = part[nearest][..., None] == np.unique(part)  # (n, k, parts)
        return torch.as_tensor(np.unique(part)[votes.sum(1).argmax(1)])
