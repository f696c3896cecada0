r"""The law of k-subsets with :math:`P(S) \propto \prod_{j \in S} p_j, |S| = k` (conditional Poisson sampling).

Its sums over subsets are elementary symmetric polynomials, :math:`e_r(p) = \sum_{|S| = r} \prod_{j \in S} p_j`, with
:math:`e_r(p_1 \dots p_m) = e_r(p_1 \dots p_{m-1}) + p_m e_{r-1}(p_1 \dots p_{m-1})`: O(m k) for everything. All in
logarithms and in double precision, for rows (n, m) of log p side by side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from latentgraph.errors import InputError

NONE = -1e300  # the logarithm of an empty sum: finite, so that the difference of two of them is


def subset_marginals(log_p: Tensor, k: int) -> Tensor:
    r""":math:`\mu_j = P(j \in S) = p_j \, e_{k-1}(p_{\ne j}) / e_k(p)`: (n, m) -> (n, m), differentiable once.

    >>> subset_marginals(torch.tensor([[0.0, 0.0, -1000.0]]), k=2)
    tensor([[1., 1., 0.]])
    """
    _check(log_p, k)
    out: Tensor = _Marginals.apply(log_p, k)  # type: ignore[no-untyped-call]
    return out


@torch.no_grad()
def sample_subsets(log_p: Tensor, k: int, uniform: Tensor) -> Tensor:
    """An exact sample for each row: (n, m) and as many uniform numbers -> (n, m) bool, k in each row.

    From the last candidate to the first: with r still to be chosen, j is taken with the probability
    p_j e_{r-1}(before j) / e_r(up to j).
    """
    _check(log_p, k)
    theta = _shifted(log_p)
    n, m = theta.shape
    sums, log_u = _sums(theta, k), uniform.log()
    left = torch.full((n, 1), k, device=log_p.device)
    taken = torch.zeros(n, m, dtype=torch.bool, device=log_p.device)
    for j in reversed(range(m)):
        log_chance = theta[:, j : j + 1] + sums[j].gather(1, (left - 1).clamp_min(0)) - sums[j + 1].gather(1, left)
        must = left > j  # no more than are wanted are left: rounding must not lose one
        take = (left > 0) & (must | (log_u[:, j : j + 1] < log_chance))
        taken[:, j : j + 1] = take
        left = left - take.long()
    return taken


class _Marginals(torch.autograd.Function):
    """With the k-hot vector z of S, mu = E[z], and its Jacobian in log p is the covariance of z.

    What comes back, v, becomes E[z_j (v z)] - E[z_j] E[v z]: v z is a sum over S, whose expectations under the laws of
    the candidates before and after j obey the recursion of the sums.
    """

    @staticmethod
    def forward(ctx: Any, log_p: Tensor, k: int) -> Tensor:
        theta = _shifted(log_p)
        before, after = _sums(theta, k), _sums(theta.flip(1), k)
        ctx.save_for_backward(theta, before, after)
        return _parts(theta, before, after).sum(2).T.to(log_p.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        theta, before, after = ctx.saved_tensors
        v = grad.to(theta)
        mean_before, mean_after = _means(theta, v, before), _means(theta.flip(1), v.flip(1), after)
        parts = _parts(theta, before, after)
        of_others = mean_before[:-1, :, :-1] + mean_after.flip(0)[1:, :, :-1].flip(2)
        together = (parts * (of_others + v.T[:, :, None])).sum(2)  # E[z_j (v z)]
        return (together - parts.sum(2) * mean_before[-1, :, -1]).T.to(grad), None


def _parts(theta: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """(m, n, k): the probability that j is in S together with r = 0 .. k-1 of the candidates before it."""
    rest = after.flip(0)[1:, :, :-1].flip(2)  # k - 1 - r of the candidates after it
    return (before[:-1, :, :-1] + rest + theta.T[:, :, None] - before[-1, :, -1:]).exp()


def _sums(theta: Tensor, k: int) -> Tensor:
    """(m + 1, n, k + 1): log e_0 .. log e_k of the first 0, 1, ..., m candidates."""
    sums = theta.new_full((theta.shape[1] + 1, len(theta), k + 1), NONE)
    sums[:, :, 0] = 0.0
    for j, column in enumerate(theta.unbind(1)):
        torch.logaddexp(sums[j, :, 1:], sums[j, :, :-1] + column[:, None], out=sums[j + 1, :, 1:])
    return sums


def _means(theta: Tensor, v: Tensor, sums: Tensor) -> Tensor:
    """(m + 1, n, k + 1): mean of the sum of v over 0 .. k of the first 0, 1, ..., m candidates."""
    taken = (sums[:-1, :, :-1] + theta.T[:, :, None] - sums[1:, :, 1:]).exp()  # chance that the last one is among them
    means = torch.zeros_like(sums)
    for j, column in enumerate(v.unbind(1)):
        means[j + 1, :, 1:] = torch.lerp(means[j, :, 1:], means[j, :, :-1] + column[:, None], taken[j])
    return means


def _shifted(log_p: Tensor) -> Tensor:
    """In double precision, the largest of each row 0: a common factor of all p changes nothing."""
    theta = log_p.detach().double()
    return theta - theta.amax(1, keepdim=True)


def _check(log_p: Tensor, k: int) -> None:
    if log_p.ndim != 2 or not 1 <= k <= log_p.shape[1]:
        raise InputError(f"log p has the shape {tuple(log_p.shape)}; for k={k} it must be (n, m) with m >= k >= 1.")
