r"""Population graphs made by hand: people are joined if they agree in age, sex, site, ..., the more the more alike.

.. math:: W_{ij} = \text{Sim}(x_i, x_j) \sum_m \gamma(m_i, m_j), \qquad
          \text{Sim}(x_i, x_j) = \exp\left(-\rho_{ij}^2 / (2 \sigma^2)\right)

with the correlation distance rho of the features, its mean sigma over all pairs, and gamma = 1 where two people agree
in a meta column, as in Parisot et al. 2017 and Kazi et al. 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from latentgraph.baselines.method import NetworkMethod, Population

FEW = 10  # a column of numbers with at most so many different ones is taken for a category
SPREAD = 0.25  # numbers agree if they are closer than this share of their standard deviation
MOST_VALUES, MOST_COLUMNS = 40, 4  # of features that stand in for meta columns where there are none
NEAREST = 10  # people whom one is joined to where nothing can be agreed in


@dataclass(frozen=True)
class Rule:
    """When two people agree in a column.

    Attributes
    ----------
    column : the name of a meta column, or the number of a feature that stands in for one
    threshold : they agree if their numbers are closer than this; None: if their values are equal
    """

    column: str | int
    threshold: float | None

    def agree(self, population: Population) -> Tensor:
        """(n, n) bool. Who has no value agrees with nobody."""
        column = _column(population, self.column)
        if self.threshold is not None:
            number = torch.as_tensor(column.astype(np.float64))
            return (number[:, None] - number).abs() < self.threshold
        import pandas as pd

        code = torch.as_tensor(pd.factorize(column)[0])  # -1: missing
        return (code[:, None] == code) & (code >= 0)


def agreement_rules(population: Population, thresholds: Mapping[str, float] | None = None) -> tuple[Rule, ...]:
    """How people of such a population may agree, one rule for each meta column; labels are not looked at.

    Strings, truth values and numbers of which there are at most `FEW` different ones must be equal. Other numbers must
    be closer than `thresholds[name]`, by default than `SPREAD` of their standard deviation: for the ages of a cohort of
    elderly people (standard deviation 7 to 8 years) that is the published 2 years, and it holds in any unit.

    Without meta columns, features stand in that look like some: those of 2 to `MOST_VALUES` different values, the ones
    with the fewest first, at most `MOST_COLUMNS`. They remain features, too. There may be none: no rules.

    >>> people = Population(torch.randn(4, 3), torch.zeros(4), 2, meta={"sex": np.array(["f", "m", "f", "f"])})
    >>> agreement_rules(people)
    (Rule(column='sex', threshold=None),)
    """
    thresholds = thresholds or {}
    if population.meta:
        return tuple(Rule(name, thresholds.get(name, _threshold(col))) for name, col in population.meta.items())
    different = {j: len(np.unique(column)) for j, column in enumerate(population.x.to_dense().numpy().T)}
    fit = sorted((j for j in different if 2 <= different[j] <= MOST_VALUES), key=lambda j: (different[j], j))
    return tuple(Rule(j, _threshold(_column(population, j))) for j in fit[:MOST_COLUMNS])


def summed_graph(population: Population, rules: Sequence[Rule] | None = None) -> Tensor:
    """(n, n) the weights W, symmetric, without self-loops. Without rules, the `NEAREST` most similar are joined."""
    rules = agreement_rules(population) if rules is None else rules
    similarity = feature_similarity(population.x)
    if not rules:
        return _most_similar(similarity)
    return similarity * sum(rule.agree(population).float() for rule in rules)


def graph_of_each(population: Population, rules: Sequence[Rule] | None = None) -> Tensor:
    """(m, n, n) the terms of W, one graph for each rule; without rules, one graph as in `summed_graph`."""
    rules = agreement_rules(population) if rules is None else rules
    similarity = feature_similarity(population.x)
    if not rules:
        return _most_similar(similarity)[None]
    return torch.stack([similarity * rule.agree(population) for rule in rules])


def feature_similarity(x: Tensor) -> Tensor:
    """(n, n) Sim of all pairs, float32, with zeros on the diagonal."""
    x = x.to_dense().double()
    x = x - x.mean(1, keepdim=True)
    length = x.norm(dim=1, keepdim=True)
    x = x / torch.where(length > 0, length, 1.0)  # a row of equal numbers correlates with nothing
    distance = (1 - x @ x.T).fill_diagonal_(0)
    distance = (distance + distance.T).clamp_min(0) / 2  # symmetric to the last bit
    sigma = distance.sum() / max(len(x) * (len(x) - 1), 1)
    # Rows that are all alike are so up to rounding, and rounding has no scale to measure by.
    relative = distance / sigma if sigma > 1e-12 else torch.zeros_like(distance)
    return (-relative.square() / 2).exp().fill_diagonal_(0).float()


class PopulationGraphMethod(NetworkMethod):
    """A network on a population graph.

    The rules are made once, from the population that is fitted: a larger one that is predicted later may have more
    values in a column or a wider spread, but means the same by agreement.
    """

    def fit(self, population: Population) -> Self:
        self.rules = agreement_rules(population)
        return super().fit(population)


def _column(population: Population, column: str | int) -> NDArray[Any]:
    return population.meta[column] if isinstance(column, str) else population.x.to_dense()[:, column].numpy()


def _threshold(column: NDArray[Any]) -> float | None:
    if column.dtype.kind not in "iuf":
        return None
    numbers = column[~np.isnan(column)]
    return None if len(np.unique(numbers)) <= FEW else SPREAD * float(numbers.astype(np.float64).std())


def _most_similar(similarity: Tensor) -> Tensor:
    """Only the weights of pairs of which one is among the `NEAREST` of the other; of equals, the earlier."""
    order = similarity.clone().fill_diagonal_(-1).argsort(dim=1, descending=True, stable=True)
    chosen = order[:, : min(NEAREST, len(similarity) - 1)]
    kept = torch.zeros_like(similarity, dtype=torch.bool).scatter(1, chosen, True)
    return similarity * (kept | kept.T)
