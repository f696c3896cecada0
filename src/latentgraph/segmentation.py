"""How well parts are found: intersection over union, as is usual for part segmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from latentgraph.errors import InputError


def likeliest_part(scores: Tensor, parts: Sequence[int]) -> Tensor:
    """(n,) the part with the largest score (n, all parts) among those that such a thing can have.

    >>> import torch
    >>> likeliest_part(torch.tensor([[9.0, 1.0, 2.0]]), parts=[1, 2])
    tensor([2])
    """
    allowed = scores.new_tensor(list(parts)).long()
    return allowed[scores.index_select(1, allowed).argmax(1)]


def shape_iou(predicted: Tensor, true: Tensor, parts: Sequence[int]) -> float:
    """Mean over `parts` of |predicted and true| / |predicted or true|; 1 for a part that is in neither.

    >>> import torch
    >>> shape_iou(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 0]), parts=[0, 1, 2])  # 1/3, 1/3 and 1
    0.5555555555555555
    """
    if predicted.shape != true.shape or not parts:
        raise InputError(
            f"{len(predicted)} predictions for {len(true)} points and {len(parts)} parts; there must be one prediction "
            "for each point, and at least one part."
        )
    found = []
    for part in parts:
        a, b = predicted == part, true == part
        union = int((a | b).sum())
        found.append(int((a & b).sum()) / union if union else 1.0)
    return float(np.mean(found))


class MeanIoU(NamedTuple):
    """Mean over all shapes, mean over categories of their means, and the mean of each category."""

    instance: float
    category: float
    of_category: Mapping[int, float]


def mean_iou(iou: Sequence[float], category: Sequence[int]) -> MeanIoU:
    """IoU and category of each shape -> the usual means.

    >>> mean_iou([1.0, 0.5, 0.0], [3, 3, 7])
    MeanIoU(instance=0.5, category=0.375, of_category={3: 0.75, 7: 0.0})
    """
    if len(iou) != len(category) or not iou:
        raise InputError(f"{len(iou)} shapes and {len(category)} categories; there must be one each, and some.")
    values, kinds = np.asarray(iou, dtype=float), np.asarray(category)
    of_category = {int(kind): float(values[kinds == kind].mean()) for kind in np.unique(kinds)}
    return MeanIoU(float(values.mean()), float(np.mean(list(of_category.values()))), of_category)
