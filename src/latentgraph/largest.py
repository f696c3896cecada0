r"""The largest message of each node, where messages end in a batch normalisation and a rising activation.

Both are applied to each number alone and keep its order (or turn it round, where the normalisation's factor is
negative), so they can wait until the largest is found:

.. math:: \max_j \phi(\gamma \, \tfrac{z_{ij} - \mu}{\sigma} + \beta) =
          \phi(\gamma \, \tfrac{\max_j z_{ij} - \mu}{\sigma} + \beta), \qquad \gamma \ge 0

Of n k messages n remain to be normalised. Only the mean and the variance still see all of them; the gradient that comes
back through these two is a linear function of z, which one pass computes. With 20 neighbours this is a good part of the
time of a point-cloud network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

RISING = (nn.LeakyReLU, nn.ReLU)


def largest(rest: nn.Module, pairs: Tensor) -> Tensor:
    """max over k of `rest`, applied to rows: (n, k, d) -> (n, c)."""
    if not _ends_normalised(rest):
        return rest(pairs.flatten(0, 1)).unflatten(0, pairs.shape[:2]).max(1).values
    assert isinstance(rest, nn.Sequential)
    *before, norm, activation = rest
    assert isinstance(norm, nn.BatchNorm1d)
    z = pairs.flatten(0, 1)
    for step in before:
        z = step(z)
    return activation(_normalised_max(z.unflatten(0, pairs.shape[:2]), norm))


def _ends_normalised(rest: nn.Module) -> bool:
    """Whether this is a sequence that ends in a batch normalisation with factors and a rising activation."""
    if not isinstance(rest, nn.Sequential) or len(rest) < 2:
        return False
    norm, last = rest[-2], rest[-1]
    rising = isinstance(last, RISING) and getattr(last, "negative_slope", 0.0) >= 0
    return rising and type(norm) is nn.BatchNorm1d and norm.affine and norm.track_running_stats


def _normalised_max(z: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """max_j of the batch normalisation of z (n, k, c) -> (n, c), and the running statistics brought up to date."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    if not norm.training:
        factor = norm.weight * (norm.running_var + norm.eps).rsqrt()
        return (_foremost(z, norm.weight) - norm.running_mean) * factor + norm.bias
    norm.num_batches_tracked.add_(1)
    share = norm.momentum if norm.momentum is not None else 1 / float(norm.num_batches_tracked)
    with torch.no_grad():
        mean, var = torch.batch_norm_update_stats(z.flatten(0, 1), norm.running_mean, norm.running_var, share)
    apply: Callable[..., Tensor] = _NormalisedMax.apply
    return apply(z, norm.weight, norm.bias, mean, (var + norm.eps).rsqrt())


def _foremost(z: Tensor, weight: Tensor) -> Tensor:
    """(n, c): the largest over k where the factor is positive, the smallest where it is negative."""
    down = weight < 0
    return torch.where(down, z.amin(1), z.amax(1)) if bool(down.any()) else z.amax(1)


class _NormalisedMax(torch.autograd.Function):
    """From z, the factor and the offset, with the mean and 1 / standard deviation of z: gradients know they are z's."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        value = _foremost(z, weight)
        ctx.save_for_backward(z, weight, mean, scale, value)
        return (value - mean) * scale * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        z, weight, mean, scale, value = ctx.saved_tensors
        d_bias, d_weight = d.sum(0), (d * (value - mean) * scale).sum(0)
        factor = weight * scale
        d_z = (z == value[:, None]).to(z.dtype)  # whoever is foremost; several share it equally
        d_z *= (factor * d / d_z.sum(1))[:, None]
        # Through mean and variance: -factor / (n k) * (sum d + (z - mean) scale sum (d normalised)), for all messages.
        share = -factor / (z.shape[0] * z.shape[1])
        d_z += share * (d_bias - mean * scale * d_weight)
        return d_z.addcmul_(share * scale * d_weight, z), d_weight, d_bias, None, None
