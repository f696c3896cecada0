"""Implicit maximum likelihood: what would have been sampled with the same noise, had the loss been heard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from latentgraph.errors import InputError
from latentgraph.gradients.candidates import candidates, exponential, log_p_of
from latentgraph.gradients.gradient import Gradient
from latentgraph.graph import LatentGraph


@dataclass
class Implicit(Gradient):
    r"""Weights 1 for the k sampled candidates and 0 for the others (z), with the gradient

    .. math:: \nabla_\theta L = \tfrac{1}{\lambda} (z(\theta + \varepsilon)
              - z(\theta + \varepsilon - \lambda \nabla_z L)), \qquad z(u) = \text{the k largest of } u, \quad
              \theta_{ij} = \log p_{ij}

    with the same Gumbel noise :math:`\varepsilon` in both terms. The sampler keeps no noise; it is drawn here, from its
    law given what was sampled.

    Parameters
    ----------
    strength : :math:`\lambda`. None: such that :math:`\lambda \nabla_z L` of the average node ranges over `reach`
    reach : in units of log p, where the noise has the standard deviation 1.28. Small: less bias, more variance
    count : candidates of a node, see `candidates`; the candidates left out get no gradient
    """

    strength: float | None = None
    reach: float = 1.0
    count: int | None = None

    def __post_init__(self) -> None:
        for name in ("strength", "reach", "count"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}; it must be positive.")

    def weigh(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        assert graph.neighbors is not None
        assert graph.log_p is not None
        if not graph.log_p.requires_grad:
            return graph
        over = candidates(graph, self.count, guests=guests)
        theta = log_p_of(graph, over)
        k = graph.neighbors.shape[1]
        noise = exponential(over, guests=guests, keys=keys, generator=generator)
        noisy = perturbed(theta.detach().double(), k, noise)
        weights: Tensor = _TopK.apply(theta, noisy, k, self.strength, self.reach)  # type: ignore[no-untyped-call]
        return replace(graph, weights=weights, candidates=over)


def perturbed(theta: Tensor, k: int, exponential: Tensor) -> Tensor:
    r""":math:`\theta + \varepsilon` (n, m), given that its k largest are the first k columns, in this order.

    As a race: candidate j arrives at the time :math:`T_j = e^{-(\theta_j + \varepsilon_j)}`, exponential with rate
    :math:`e^{\theta_j}`. The first of those that still run comes after an exponential time with the sum of their
    rates; when k are there, each other one goes on as if it had just begun. `exponential` (n, m) are the unit times.
    """
    first = theta.amax(1, keepdim=True)
    theta = theta - first  # rates relative to the largest; arrivals only shift
    log_e = exponential.log()
    still = theta.flip(1).logcumsumexp(1).flip(1)[:, :k]  # log of the sum of the rates from column r on
    arrived = (log_e[:, :k] - still).logcumsumexp(1)
    others = torch.logaddexp(arrived[:, -1:], log_e[:, k:] - theta[:, k:])
    return first - torch.cat([arrived, others], dim=1)


class _TopK(torch.autograd.Function):
    """z in the forward pass: the first k columns. `noisy` is theta plus its noise."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, noisy: Tensor, k: int, strength: float | None, reach: float) -> Tensor:
        ctx.save_for_backward(noisy)
        ctx.k, ctx.strength, ctx.reach = k, strength, reach
        return (torch.arange(theta.shape[1], device=theta.device) < k).to(theta.dtype).repeat(len(theta), 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (noisy,) = ctx.saved_tensors
        strength = ctx.strength or _strength(grad, ctx.reach)
        heard = (noisy - strength * grad).topk(ctx.k, dim=1).indices
        moved = torch.zeros_like(grad).scatter_(1, heard, -1.0)
        moved[:, : ctx.k] += 1.0
        return moved / strength, None, None, None, None


def _strength(grad: Tensor, reach: float) -> float:
    """Of the nodes that have a gradient, the average range of it over their candidates is to become `reach`."""
    ranges = grad.amax(1) - grad.amin(1)
    felt = int((ranges > 0).sum())
    return reach * felt / float(ranges.sum()) if felt else 1.0
