"""How well predicted classifiers recognise images, among few classes and among all."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def hits(rows: Tensor, images: Tensor, own: Tensor, top: int) -> float:
    """Share of images whose own class is among the `top` with the largest scores, images @ rows.T.

    Parameters
    ----------
    rows : (classes, c) classifiers
    images : (m, c) features
    own : (m,) the class of each image: which of the classifiers

    Examples
    --------
    >>> hits(torch.eye(3), torch.tensor([[0.0, 1.0, 2.0], [3.0, 2.0, 1.0]]), own=torch.tensor([1, 0]), top=1)
    0.5
    """
    scores = images @ rows.T
    better = (scores > scores.gather(1, own[:, None])).sum(1)
    return float((better < top).double().mean())


def nearest_share(rows: Tensor, true: Tensor) -> float:
    """Share of predicted classifiers (m, c) that point nearer to their own true one than to any other of the m."""
    nearest = torch.cdist(F.normalize(rows), F.normalize(true)).argmin(1)
    return float((nearest == torch.arange(len(rows))).double().mean())


def of_length(rows: Tensor, length: Tensor | float) -> Tensor:
    """All rows with the same norm: a regression that is unsure predicts short rows, which would never win."""
    return F.normalize(rows) * length


def stopping_loss(rows: Tensor, images: Tensor, length: Tensor | float) -> Tensor:
    """Cross-entropy of images (m, c), one of each class, among their predicted classifiers (m, c): 0-d."""
    scores = images @ of_length(rows, length).T
    return F.cross_entropy(scores, torch.arange(len(rows)))
