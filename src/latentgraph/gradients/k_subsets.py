r"""The law of k-subsets with :math:`P(S) \propto \prod_{j \in S} p_j, |S| = k` (conditional Poisson sampling).

Its sums over subsets are elementary symmetric polynomials :math:`e_r(p) = \sum_{|S| = r} \prod_{j \in S} p_j`. With
their ratios :math:`a_r = e_r / e_{r-1}` over the first j - 1 candidates, candidate j is the last of r chosen ones with
the chance

.. math:: \pi_j(r) = \frac{p_j e_{r-1}}{e_r + p_j e_{r-1}} = \frac{p_j}{a_r + p_j}, \qquad
          a_r \leftarrow (a_r + p_j) \, \frac{a_{r-1}}{a_{r-1} + p_j}

where the last factor is 1 for r = 1. No ratio is a difference, or overflows. A subset is
then a walk from the last candidate to the first: with r still to be chosen, j is taken with the chance
:math:`\pi_j(r)`. O(m k) for everything, for rows (n, m) of log p side by side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from latentgraph.errors import InputError

CERTAIN = 300.0  # further from the k-th largest log p than this, a candidate is in or out, but for e^-300


def subset_marginals(log_p: Tensor, k: int) -> Tensor:
    r""":math:`\mu_j = P(j \in S)`: (n, m) -> (n, m), differentiable once.

    >>> subset_marginals(torch.tensor([[0.0, 0.0, -1000.0]]), k=2)
    tensor([[1., 1., 0.]])
    """
    out: Tensor = _Marginals.apply(log_p, k)  # type: ignore[no-untyped-call]
    return out


@torch.no_grad()
def sample_subsets(log_p: Tensor, k: int, uniform: Tensor) -> Tensor:
    """An exact sample for each row: (n, m) and as many numbers in (0, 1) -> (n, m) bool, k in each row."""
    chances = _chances(log_p, k)
    left = torch.full((len(log_p), 1), k, device=log_p.device)
    taken = torch.zeros_like(log_p, dtype=torch.bool)
    for j in reversed(range(len(chances))):
        take = uniform[:, j : j + 1] < chances[j].gather(1, left)
        taken[:, j : j + 1] = take
        left = left - take.long()
    return taken


class _Marginals(torch.autograd.Function):
    """With the k-hot vector z of S, mu = E[z], and its Jacobian in log p is the covariance of z.

    What comes back, v, becomes E[z_j (v z)] - E[z_j] E[v z]. The walk meets j with r to be chosen: v z is then what was
    collected on the way, v_j if it is taken, and on average `mean` of what is still to come.
    """

    @staticmethod
    def forward(ctx: Any, log_p: Tensor, k: int) -> Tensor:
        chances = _chances(log_p, k)
        ctx.save_for_backward(chances)
        at = _start(chances)  # probability that the walk comes to j with r to be chosen
        mu = torch.empty_like(log_p)
        for j in reversed(range(len(chances))):
            taken = at * chances[j]
            mu[:, j] = taken.sum(1)
            at = _go_on(at, taken)
        return mu

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (chances,) = ctx.saved_tensors
        v = grad.to(chances)[..., None]
        means = [torch.zeros_like(chances[0])]  # of v z over the first j candidates, r of them chosen
        for j, chance in enumerate(chances[:-1]):
            means.append(torch.lerp(means[-1], _shift(means[-1]) + v[:, j], chance))
        at = _start(chances)
        collected = torch.zeros_like(at)  # of v z on the way, times the probability of the way
        out = torch.empty_like(grad)
        whole = torch.lerp(means[-1], _shift(means[-1]) + v[:, -1], chances[-1])[:, -1:]  # E[v z]
        for j in reversed(range(len(chances))):
            taken, with_j = at * chances[j], (collected + at * v[:, j]) * chances[j]
            out[:, j] = (with_j + taken * (_shift(means[j]) - whole)).sum(1)
            at, collected = _go_on(at, taken), collected - collected * chances[j] + _shift_back(with_j)
        return out, None


def _chances(log_p: Tensor, k: int) -> Tensor:
    """(m, n, k + 1): the chance of candidate j to be the last of r = 0 .. k chosen among the first j."""
    if log_p.ndim != 2 or not 1 <= k <= log_p.shape[1]:
        raise InputError(f"log p has the shape {tuple(log_p.shape)}; for k={k} it must be (n, m) with m >= k >= 1.")
    theta = log_p.detach().double()
    theta = theta - theta.topk(k, dim=1).values[:, -1:]  # a common factor of all p changes nothing
    p = theta.clamp(-CERTAIN, CERTAIN).exp()
    found = p.new_zeros(p.shape[1], len(p), k + 1)
    ratio = p.new_zeros(len(p), k)  # a_1 .. a_k; zero where there are fewer candidates than r
    for j, column in enumerate(p.unbind(1)):
        more = ratio + column[:, None]
        found[j, :, 1:] = column[:, None] / more
        ratio = torch.cat([more[:, :1], more[:, 1:] * (ratio[:, :-1] / more[:, :-1])], dim=1)
    return found


def _start(chances: Tensor) -> Tensor:
    """All k are to be chosen: (n, k + 1)."""
    at = torch.zeros_like(chances[0])
    at[:, -1] = 1.0
    return at


def _go_on(at: Tensor, taken: Tensor) -> Tensor:
    """To the next candidate: one fewer to be chosen after one was taken."""
    return at - taken + _shift_back(taken)


def _shift(values: Tensor) -> Tensor:
    """values[r - 1] in the place of r."""
    return torch.nn.functional.pad(values[:, :-1], (1, 0))


def _shift_back(values: Tensor) -> Tensor:
    """values[r + 1] in the place of r."""
    return torch.nn.functional.pad(values[:, 1:], (0, 1))
