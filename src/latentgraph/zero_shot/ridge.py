"""Ridge regression and kernel ridge regression from word vectors to classifiers: no graph, no training steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph.zero_shot.classes import Classes, ZeroShotMethod
from latentgraph.zero_shot.rings import with_rings
from latentgraph.zero_shot.scores import stopping_loss

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)


class KernelRidge(ZeroShotMethod):
    r"""Kernel ridge regression on unit word vectors: :math:`\bar W + K_* (K + \lambda I)^{-1} (W - \bar W)`.

    The kernel is :math:`\exp(-\gamma \, d^2 / \text{median } d^2)`, or with `linear=True` the inner product, which is
    ridge regression. :math:`\lambda` and :math:`\gamma` are those with the smallest stopping loss.

    Parameters
    ----------
    refit : whether the classes to choose by are learned from as well, once the choice is made
    """

    def __init__(self, *, linear: bool = False, refit: bool = False) -> None:
        self.linear, self.refit = linear, refit

    def features(self, classes: Classes) -> Tensor:
        """(targets, d) what the kernel sees."""
        return F.normalize(classes.x[: classes.targets])

    def fit(self, classes: Classes) -> Self:
        losses = {
            (strength, width): loss
            for width in ((1.0,) if self.linear else WIDTHS)
            for strength, loss in self._losses(classes, width).items()
        }
        self.strength, self.width = min(losses, key=lambda choice: losses[choice])
        return self

    def _losses(self, classes: Classes, width: float) -> dict[float, float]:
        """The stopping loss of every strength, by one decomposition K = V L V': (K + s I)^-1 = V (L + s I)^-1 V'."""
        x, rows = self.features(classes).double(), classes.rows[: classes.learn].double()
        kernel = self._kernel(x, x[: classes.learn], width)
        values, vectors = torch.linalg.eigh(kernel[: classes.learn])
        turned = vectors.T @ (rows - rows.mean(0))
        seen = kernel[classes.learn : classes.learn + classes.stop] @ vectors
        predicted = {s: (rows.mean(0) + seen / (values + s) @ turned).float() for s in STRENGTHS}
        return {s: float(stopping_loss(found, classes.images, classes.length)) for s, found in predicted.items()}

    def predict(self, classes: Classes) -> Tensor:
        rows = classes.rows if self.refit else classes.rows[: classes.learn]
        return self._rows(self.features(classes).double(), rows, self.strength, self.width)

    def _rows(self, x: Tensor, rows: Tensor, strength: float, width: float) -> Tensor:
        """Predictions for all targets x by the rows of the first; in double precision, for K may be near singular."""
        learned, rows = len(rows), rows.double()
        mean = rows.mean(0)
        kernel = self._kernel(x, x[:learned], width)
        system = kernel[:learned] + strength * torch.eye(learned, dtype=torch.float64)
        return (mean + kernel @ torch.linalg.solve(system, rows - mean)).float()

    def _kernel(self, x: Tensor, y: Tensor, width: float) -> Tensor:
        if self.linear:
            return (x - y.mean(0)) @ (y - y.mean(0)).T
        square = torch.cdist(x, y).square()
        return torch.exp(-width * square / square.median())


class RingsKernelRidge(KernelRidge):
    """The same on word vectors beside their means over two rings of the knowledge graph: it sees WordNet, too."""

    def features(self, classes: Classes) -> Tensor:
        unit = replace(classes, x=F.normalize(classes.x))
        return with_rings(unit, 2).x[: classes.targets]
