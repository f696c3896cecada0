"""Methods of scikit-learn without any graph. Where they have a strength to choose, the rows to stop by choose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from latentgraph.baselines.method import Method, Population

STRENGTHS = tuple(10.0**power for power in range(-3, 5))


class Simple(Method):
    """A classifier of scikit-learn.

    Parameters
    ----------
    make : from a strength of its choice to a classifier
    strengths : what to choose from, by the accuracy on the rows to stop by; with one there is nothing to choose
    refit : whether the rows to stop by are learned from in the end, too, as they can be where they were part of the
        training rows. Networks cannot do that: without these rows they do not know when to stop
    columns : which columns to look at
    """

    def __init__(
        self,
        make: Callable[[float], Any],
        *,
        strengths: Sequence[float] = (1.0,),
        refit: bool = True,
        columns: slice = slice(None),
    ) -> None:
        self.make, self.strengths, self.refit, self.columns = make, strengths, refit, columns

    def fit(self, population: Population) -> Self:
        learn, known = population.learn.numpy(), population.known.numpy()
        stop = known & ~learn
        x, y = self._features(population), population.y.numpy()
        strength = self.strengths[0]
        if len(self.strengths) > 1 and stop.any():
            scores = [self.make(s).fit(x[learn], y[learn]).score(x[stop], y[stop]) for s in self.strengths]
            strength = self.strengths[int(np.argmax(scores))]
        rows = known if self.refit else learn
        self.model = self.make(strength).fit(x[rows], y[rows])
        return self

    def predict(self, population: Population) -> Tensor:
        return torch.as_tensor(self.model.predict(self._features(population)))

    def _features(self, population: Population) -> Any:
        if population.x.layout is torch.sparse_csr:
            import scipy.sparse as sp

            x = population.x
            places = x.col_indices().numpy(), x.crow_indices().numpy()
            return sp.csr_matrix((x.values().numpy(), *places), shape=tuple(x.shape))
        return population.x[:, self.columns].double().numpy()


def linear_classifier(**options: Any) -> Simple:
    """The paper's "linear classifier": ridge regression of the classes."""
    from sklearn.linear_model import RidgeClassifier

    return Simple(lambda strength: RidgeClassifier(alpha=1 / strength), **options)


def logistic_regression(**options: Any) -> Simple:
    from sklearn.linear_model import LogisticRegression

    return Simple(lambda strength: LogisticRegression(C=strength, max_iter=5000), **options)


def random_forest(seed: int, **options: Any) -> Simple:
    from sklearn.ensemble import RandomForestClassifier

    return Simple(lambda _: RandomForestClassifier(500, random_state=seed), **options)


class Spread(Simple):
    """Label spreading on the nearest rows, which uses the rows without a label, too."""

    def fit(self, population: Population) -> Self:
        stop = (population.known & ~population.learn).numpy()
        x, y = self._features(population), torch.where(population.learn, population.y, -1).numpy()
        models = [self.make(strength).fit(x, y) for strength in self.strengths]
        scores = [float((m.transduction_ == population.y.numpy())[stop].mean()) if stop.any() else 0.0 for m in models]
        self.model = models[int(np.argmax(scores))]
        return self

    def predict(self, population: Population) -> Tensor:
        return torch.as_tensor(self.model.transduction_)


def label_spreading(neighbours: Sequence[float] = (5, 10, 20, 40)) -> Spread:
    """Transductive only: it tells the classes of the population it was fitted on."""
    from sklearn.semi_supervised import LabelSpreading

    return Spread(lambda k: LabelSpreading(kernel="knn", n_neighbors=int(k), max_iter=100), strengths=neighbours)
