r"""Edge convolution with the message ReLU(p_i + q_j) over all pairs of a continuous graph, channel by channel.

The cube of all messages, (n, n, c), is never formed, nor is a block of it: one channel of a block at a time stays in
the cache. The sum :math:`y_{ic} = \sum_j a_{ij} \, \text{ReLU}(p_{ic} + q_{jc})` has its gradients by hand. Of the
maximum only the pairs that win have gradients, one for each node and channel: once found, they are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from latentgraph import blocks
from latentgraph.blocks import Block, all_rows, other_graph
from latentgraph.continuous import FlatPairs, by_hand, in_full_precision


def flat_message_sum(
    x_hat: Tensor, temperature: Tensor, threshold: Tensor, p: Tensor, q: Tensor, batch: Tensor | None
) -> Tensor:
    """y (n, c) from p and q (n, c), where `is_flat`; differentiable once in all five."""
    return in_full_precision(_MessageSum, [x_hat, temperature, threshold, p, q], batch)


@torch.no_grad()
def strongest(weight_of: Callable[[Block], Tensor], p: Tensor, q: Tensor, batch: Tensor | None) -> Tensor:
    """(n, c) the node j at which a_ij (p_ic + q_jc) is largest; its ReLU is then the largest weighted message."""
    winner = torch.empty_like(p, dtype=torch.long)
    for block in _channel_blocks(batch, len(p)):
        weight = weight_of(block)
        foreign = other_graph(batch, torch.arange(block.row_start, block.row_stop, device=p.device), block)
        for channel in range(p.shape[1]):
            value = (p[block.rows, channel, None] + q[block.columns, channel]) * weight
            if foreign is not None:  # of weight zero, it would win over negative ones
                value.masked_fill_(foreign, -torch.inf)
            # max, of which only the places count: several times faster than argmax
            winner[block.rows, channel] = block.start + value.max(1).indices
    return winner


class _MessageSum(torch.autograd.Function):
    """The channels of p, q and the result are rows here, (c, n)."""

    @staticmethod
    def forward(
        ctx: Any, x_hat: Tensor, temperature: Tensor, threshold: Tensor, p: Tensor, q: Tensor, batch: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x_hat, temperature, threshold, p, q)
        ctx.batch = batch
        pairs = FlatPairs(x_hat, temperature, threshold, batch)
        p, q = p.T.contiguous(), q.T.contiguous()
        out = torch.empty_like(p)
        for block in _channel_blocks(batch, len(x_hat)):
            weight = pairs.logit(block).sigmoid_()
            for y_c, p_c, q_c in zip(out, p, q, strict=True):
                message = (p_c[block.rows, None] + q_c[block.columns]).relu_()
                y_c[block.rows] = message.mul_(weight).sum(1)
        return out.T.contiguous()

    @staticmethod
    @by_hand
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_hat, temperature, threshold, p, q = ctx.saved_tensors
        pairs = FlatPairs(x_hat, temperature, threshold, ctx.batch)
        g, p, q = grad.T.contiguous(), p.T.contiguous(), q.T.contiguous()
        grad_p, grad_q = torch.empty_like(p), torch.zeros_like(q)
        for block in _channel_blocks(ctx.batch, len(x_hat)):
            rows, others = block.rows, block.columns
            logit = pairs.logit(block)
            weight = logit.sigmoid()
            in_weight = torch.zeros_like(weight)
            for channel in range(len(p)):
                g_i = g[channel, rows]
                message = (p[channel, rows, None] + q[channel, others]).relu_()
                in_weight.addcmul_(message, g_i[:, None])
                alive = torch.ops.aten.threshold_backward(weight, message, 0)  # a_ij where the message is not cut off
                grad_p[channel, rows] = g_i * alive.sum(1)
                grad_q[channel, others] += g_i @ alive
            pairs.collect(block, logit, torch.ops.aten.sigmoid_backward(in_weight, weight))
        return *pairs.gradients(), grad_p.T.contiguous(), grad_q.T.contiguous(), None


def _channel_blocks(batch: Tensor | None, num_nodes: int) -> Iterator[Block]:
    """A quarter of the usual size: a block is gone through once for each channel, and should stay in the cache."""
    return all_rows(batch, num_nodes, max(1, blocks.BLOCK // 4))
