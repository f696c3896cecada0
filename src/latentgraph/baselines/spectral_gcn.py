"""Spectral-GCN (Parisot et al. 2017): Chebyshev convolutions on the population graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.baselines.method import Population
from latentgraph.baselines.population_graph import PopulationGraphMethod, summed_graph
from latentgraph.graph import LatentGraph


class SpectralGCN(PopulationGraphMethod):
    """Two Chebyshev convolutions of order 3, 16 hidden features, dropout 0.3, learning rate 0.005."""

    hidden, order, dropout = 16, 3, 0.3
    lr = 5e-3

    def graph(self, population: Population) -> Tensor | None:
        return rescaled_laplacian(summed_graph(population, self.rules))

    def network(self, population: Population) -> nn.Module:
        return SpectralNet(population.x.shape[1], self.hidden, population.num_classes, self.order, self.dropout)


class SpectralNet(nn.Module):
    is_stochastic = False  # no graph is sampled: one call is a consensus

    def __init__(self, inputs: int, hidden: int, classes: int, order: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = Chebyshev(inputs, hidden, order), Chebyshev(hidden, classes, order)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, graph: Tensor, batch: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, list[LatentGraph]]:
        x = self.first(self.dropout(x.to_dense()), graph).relu()
        return self.second(self.dropout(x), graph), []


class Chebyshev(nn.Module):
    r"""A filter of the graph's spectrum, :math:`\sum_{k=0}^K T_k(\tilde L) X \Theta_k + b`, that reaches K steps far.

    The weights are applied before the polynomials, for there are fewer features after them than before.
    """

    def __init__(self, in_features: int, out_features: int, order: int) -> None:
        super().__init__()
        self.in_features = in_features
        # One linear map of [T_0 X | ... | T_K X], initialised as such: the sum does not grow with the order.
        self.linear = nn.Linear((order + 1) * in_features, out_features)

    def forward(self, x: Tensor, laplacian: Tensor) -> Tensor:
        terms = [F.linear(x, weight) for weight in self.linear.weight.split(self.in_features, dim=1)]
        return chebyshev_sum(terms, laplacian) + self.linear.bias


def chebyshev_sum(terms: Sequence[Tensor], laplacian: Tensor) -> Tensor:
    r""":math:`\sum_k T_k(\tilde L) H_k` for terms H_k (n, c), by Clenshaw's recursion: one product for each order.

    .. math:: B_k = H_k + 2 \tilde L B_{k+1} - B_{k+2}, \qquad \sum_k T_k(\tilde L) H_k = H_0 + \tilde L B_1 - B_2
    """
    next_, after_next = torch.zeros_like(terms[0]), torch.zeros_like(terms[0])
    for term in reversed(terms[1:]):
        next_, after_next = term + 2 * (laplacian @ next_) - after_next, next_
    return terms[0] + laplacian @ next_ - after_next


def rescaled_laplacian(weights: Tensor) -> Tensor:
    """2 L / lambda_max - I of the normalised Laplacian L = I - D^-1/2 W D^-1/2: eigenvalues in [-1, 1]."""
    degree = weights.sum(1)
    scale = torch.where(degree > 0, degree, 1.0).rsqrt()
    one = torch.eye(len(weights), dtype=weights.dtype)
    laplacian = one - scale[:, None] * weights * scale
    return 2 * laplacian / torch.linalg.eigvalsh(laplacian)[-1] - one
