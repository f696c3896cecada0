r"""A x for the weights of a continuous graph in flat space, pair by pair in O(n) memory, with its gradients by hand.

With the logits :math:`l_{ij} = t \, (T - |z_i - z_j|^2)` and the weights :math:`a_{ij} = \sigma(l_{ij})` of centred
points z, and G the gradient of some loss in the logits,

.. math:: \nabla_{z_i} = -2 t \sum_j (G_{ij} + G_{ji}) (z_i - z_j), \qquad
          \nabla_t = \frac{1}{t} \sum_{ij} G_{ij} l_{ij}, \qquad \nabla_T = t \sum_{ij} G_{ij}.

`FlatPairs` has the logits and these sums; what turns a gradient of the result into G is all that is left to say for
each kind of diffusion. Features are held as (c, n): products of a tile with few columns are slow the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from latentgraph.blocks import Block, graph_sizes, other_graph, pair_tiles
from latentgraph.geometry import Euclidean, Geometry

NEVER = 0.8  # what is tiny^0.8 times as large as the rest, 1e-30 in single precision, is zero
SPREAD = 1e5  # largest t |z|^2, z centred, at which the gradient in z keeps four digits of single precision


def is_flat(geometry: Geometry, x_hat: Tensor, temperature: Tensor, batch: Tensor | None) -> bool:
    """Whether `FlatPairs` applies: Euclidean, and no graph is huge in units of the distance 1 / sqrt(t) that counts.

    Apple's devices have no double precision.
    """
    if not isinstance(geometry, Euclidean) or x_hat.device.type == "mps":
        return False
    with torch.no_grad():
        spread = temperature * _centred(x_hat.double(), batch).square().sum(1).amax()
        return bool((temperature > 0) & (spread <= SPREAD))


def negligible(dtype: torch.dtype) -> float:
    """Logarithm of a factor that makes any weight vanish beside others.

    Smaller ones would soon be denormal, and a processor may take ten times as long for a denormal number.
    """
    return NEVER * math.log(torch.finfo(dtype).tiny)


def flat_product(x_hat: Tensor, temperature: Tensor, threshold: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
    """A x, (n, n) times (n, c), where `is_flat`; differentiable once in all four."""
    return in_full_precision(_Product, [x_hat, temperature, threshold, x], batch)


class FlatPairs:
    """Logits of the pairs of a block, and the gradients in z, t and T collected from gradients in the logits.

    |z_i - z_j|^2 = |z_i|^2 + |z_j|^2 - 2 z_i z_j loses the digits of close pairs, therefore it is computed in double
    precision: one matrix product, [2t z_i | t (T - |z_i|^2) | 1] times [z_j | 1 | -t |z_j|^2].
    """

    def __init__(self, x_hat: Tensor, temperature: Tensor, threshold: Tensor, batch: Tensor | None) -> None:
        z, t = _centred(x_hat.double(), batch), temperature.double()
        square = z.square().sum(1, keepdim=True)
        one = torch.ones_like(square)
        self.left = torch.cat([2 * t * z, t * (threshold - square), one], dim=1)
        self.right = torch.cat([z, one, -t * square], dim=1)
        self.batch, self.dtype, self.temperature = batch, x_hat.dtype, t
        self.lowest = torch.finfo(self.dtype).min / 4
        own = t.detach() * threshold.detach()  # logit of a node with itself, which no other exceeds
        self.floor = float(own.clamp(max=0)) + negligible(self.dtype)
        self.z_and_one = torch.cat([z, one], dim=1).to(x_hat.dtype).T.contiguous()
        self.sums = torch.zeros_like(self.z_and_one)  # of (G + G^T) [z | 1]
        self.grad_times_logit = torch.zeros_like(t)

    def logit(self, block: Block, *, keep_all: bool = False) -> Tensor:
        """(rows, columns) of l; between different graphs so low that a = 0, but finite: zero times it is zero.

        So it is for pairs with a negligible weight, unless `keep_all`.
        """
        logit = (self.left[block.rows] @ self.right[block.columns].T).to(self.dtype)
        if not keep_all:
            F.threshold(logit, self.floor, self.lowest, inplace=True)
        foreign = other_graph(self.batch, torch.arange(block.row_start, block.row_stop, device=logit.device), block)
        return logit if foreign is None else logit.masked_fill_(foreign, self.lowest)

    def collect(self, block: Block, logit: Tensor, grad: Tensor) -> None:
        """Take the part of G that belongs to a block."""
        add_both_ways(self.sums, self.z_and_one, block, grad)
        self.grad_times_logit += torch.dot(grad.flatten(), logit.flatten())

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """In z, t and T, of all that was collected."""
        z, t, degree = self.z_and_one[:-1], self.temperature, self.sums[-1]
        grad_z = -2 * t.to(self.dtype) * (degree * z - self.sums[:-1])
        grad_t, grad_threshold = self.grad_times_logit / t, t * degree.sum() / 2
        return grad_z.T.contiguous(), grad_t.to(self.dtype), grad_threshold.to(self.dtype)


def add_both_ways(out: Tensor, columns: Tensor, block: Block, matrix: Tensor) -> None:
    """out += columns (M + M^T) in place, for the matrix M that is zero outside of the block; both are (c, n)."""
    out[:, block.rows] += columns[:, block.columns] @ matrix.T
    out[:, block.columns] += columns[:, block.rows] @ matrix


def in_full_precision(function: type[torch.autograd.Function], tensors: list[Tensor], *options: Any) -> Tensor:
    """Apply the function to tensors of one precision, outside of autocast: its sums have thousands of terms."""
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors if tensor.dim()), torch.float32)
    with torch.autocast(tensors[0].device.type, enabled=False):
        out: Tensor = function.apply(*(tensor.to(dtype) for tensor in tensors), *options)
    return out


Backward = Callable[[Any, Tensor], tuple[Tensor | None, ...]]


def by_hand(backward: Backward) -> Backward:
    """A backward pass that autograd does not look into, also in full precision."""

    @wraps(backward)
    def run(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grad.device.type, enabled=False):
            return backward(ctx, grad)

    return once_differentiable(run)


class _Product(torch.autograd.Function):
    """Y = A X. A is symmetric: each tile serves for its mirror image too, and one on the diagonal counts half."""

    @staticmethod
    def forward(
        ctx: Any, x_hat: Tensor, temperature: Tensor, threshold: Tensor, x: Tensor, batch: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x_hat, temperature, threshold, x)
        ctx.batch = batch
        pairs = FlatPairs(x_hat, temperature, threshold, batch)
        columns = x.T.contiguous()
        out = torch.zeros_like(columns)
        for tile in pair_tiles(batch, len(x)):
            add_both_ways(out, columns, tile, _half_if_diagonal(tile, pairs.logit(tile).sigmoid_()))
        return out.T.contiguous()

    @staticmethod
    @by_hand
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_hat, temperature, threshold, x = ctx.saved_tensors
        in_graph, in_x = any(ctx.needs_input_grad[:3]), ctx.needs_input_grad[3]
        pairs = FlatPairs(x_hat, temperature, threshold, ctx.batch)
        columns = grad.T.contiguous()
        grad_x = torch.zeros_like(columns)
        left, right = torch.cat([grad, x], dim=1), torch.cat([x, grad], dim=1)
        for tile in pair_tiles(ctx.batch, len(x)):
            logit = pairs.logit(tile)
            weight = logit.sigmoid()
            if in_graph:
                # dL/da_ij + dL/da_ji = g_i x_j + x_i g_j, times da/dl = a (1 - a)
                in_weight = left[tile.rows] @ right[tile.columns].T
                in_logit = torch.ops.aten.sigmoid_backward(in_weight, weight)
                pairs.collect(tile, logit, _half_if_diagonal(tile, in_logit))
            if in_x:
                add_both_ways(grad_x, columns, tile, _half_if_diagonal(tile, weight))
        return *pairs.gradients(), grad_x.T.contiguous(), None


def _half_if_diagonal(tile: Block, matrix: Tensor) -> Tensor:
    return matrix.mul_(0.5) if tile.row_start == tile.start else matrix


def _centred(z: Tensor, batch: Tensor | None) -> Tensor:
    """Points of each graph about their mean: distances stay, and squares become as small as they can."""
    sizes = graph_sizes(batch, len(z)).to(z.device)
    graph = torch.arange(len(sizes), device=z.device).repeat_interleave(sizes)
    total = z.new_zeros(len(sizes), z.shape[1]).index_add(0, graph, z)
    return z - (total / sizes[:, None]).index_select(0, graph)
