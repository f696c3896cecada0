r"""Graph attention over all pairs of a continuous graph in flat space, with its gradients by hand.

.. math:: \alpha_{ij} \propto a_{ij} \exp(s_{ij}), \quad s_{ij} = \text{LeakyReLU}(u_i + v_j), \quad
          y_i = \sum_j \alpha_{ij} h_j

Both factors may underflow, their exponents do not: :math:`a = \sigma(l) = e^{\min(l, 0)} \max(a, 1 - a)`, where the
last factor is between 1/2 and 1. With :math:`E_{ij} = \alpha_{ij} \, (g_i h_j - g_i y_i)`, the gradient in
:math:`\log \alpha_{ij}` before normalisation, the gradient in the logit is :math:`E_{ij} (1 - a_{ij})`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.functional import leaky_relu

from latentgraph import blocks
from latentgraph.blocks import Block, all_rows
from latentgraph.continuous import FlatPairs, by_hand, in_full_precision, negligible


def flat_attention(
    x_hat: Tensor,
    temperature: Tensor,
    threshold: Tensor,
    h: Tensor,
    u: Tensor,
    v: Tensor,
    slope: float,
    batch: Tensor | None,
) -> Tensor:
    """y (n, heads, c) from h (n, heads, c), u and v (n, heads), where `is_flat`; differentiable once in all six."""
    return in_full_precision(_Attention, [x_hat, temperature, threshold, h, u, v], slope, batch)


class _Attention(torch.autograd.Function):
    """Keeps of each row and head the result and the logarithm of the sum that normalises it."""

    @staticmethod
    def forward(
        ctx: Any,
        x_hat: Tensor,
        temperature: Tensor,
        threshold: Tensor,
        h: Tensor,
        u: Tensor,
        v: Tensor,
        slope: float,
        batch: Tensor | None,
    ) -> Tensor:
        pairs = FlatPairs(x_hat, temperature, threshold, batch)
        columns = h.permute(1, 2, 0).contiguous()
        out, log_norm = torch.empty_like(columns), torch.empty_like(u)
        for block in _blocks(batch, len(h)):
            rows = block.rows
            logit = pairs.logit(block, keep_all=True)
            weight = logit.sigmoid()
            share = torch.maximum(weight, 1 - weight)
            low = logit.clamp_(max=0)
            for head in range(h.shape[1]):
                exponent = leaky_relu(u[rows, head, None] + v[block.columns, head], slope).add_(low)
                largest = exponent.amax(1)
                attention = _exp(exponent.sub_(largest[:, None])).mul_(share)
                norm = attention.sum(1)
                out[head, :, rows] = columns[head, :, block.columns] @ attention.T / norm
                log_norm[rows, head] = largest + norm.log()
        y = out.permute(2, 0, 1).contiguous()
        ctx.save_for_backward(x_hat, temperature, threshold, h, u, v, y, log_norm)
        ctx.slope, ctx.batch = slope, batch
        return y

    @staticmethod
    @by_hand
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_hat, temperature, threshold, h, u, v, y, log_norm = ctx.saved_tensors
        pairs = FlatPairs(x_hat, temperature, threshold, ctx.batch)
        mean = (grad * y).sum(-1)  # g_i y_i, the mean of g_i h_j under the attention
        columns, g = h.permute(1, 2, 0).contiguous(), grad.permute(1, 2, 0).contiguous()
        grad_h, grad_u, grad_v = torch.zeros_like(columns), torch.zeros_like(u), torch.zeros_like(v)
        for block in _blocks(ctx.batch, len(h)):
            rows, others = block.rows, block.columns
            logit = pairs.logit(block, keep_all=True)
            weight = logit.sigmoid()
            rest = 1 - weight
            share, low = torch.maximum(weight, rest), logit.clamp(max=0)
            total = torch.zeros_like(logit)
            for head in range(h.shape[1]):
                score = u[rows, head, None] + v[others, head]
                exponent = leaky_relu(score, ctx.slope).add_(low).sub_(log_norm[rows, head, None])
                attention = _exp(exponent).mul_(share)
                grad_h[head, :, others] += g[head, :, rows] @ attention
                inner = g[head, :, rows].T @ columns[head, :, others]
                in_exponent = inner.sub_(mean[rows, head, None]).mul_(attention)
                total += in_exponent
                in_score = torch.ops.aten.leaky_relu_backward(in_exponent, score, ctx.slope, False)
                grad_u[rows, head] = in_score.sum(1)
                grad_v[others, head] += in_score.sum(0)
            pairs.collect(block, logit, total.mul_(rest))
        return *pairs.gradients(), grad_h.permute(2, 0, 1).contiguous(), grad_u, grad_v, None, None


def _exp(exponent: Tensor) -> Tensor:
    """In place; zero where it is negligible beside 1, the order of the largest in a row.

    Not by an exponent of -inf: exp takes twenty times as long for it on some processors.
    """
    least = negligible(exponent.dtype)
    return F.threshold(exponent.clamp_(min=least).exp_(), 2 * math.exp(least), 0.0, inplace=True)


def _blocks(batch: Tensor | None, num_nodes: int) -> Iterator[Block]:
    """Half of the usual size: about ten numbers for each pair are alive at a time."""
    return all_rows(batch, num_nodes, max(1, blocks.BLOCK // 2))
