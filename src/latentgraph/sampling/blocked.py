"""Backend "torch": a block of rows against all its candidates, on any device."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes, other_graph, row_blocks
from latentgraph.errors import InputError
from latentgraph.sampling.noise import exponential_noise, exponential_noise_of_pairs, largest_gumbel
from latentgraph.sampling.population import Population

# Single precision resolves values of this size to 5e-4. Rows that choose among worse (an outlier far from everybody)
# are done again in double precision, or their noise would be rounded away.
_COARSE = -8192.0

_FEW = 0.25  # part of all pairs up to which it pays to pick out those that can win


def blocked_top_k(population: Population, k: int, temperature: float, seed: int | None) -> Tensor:
    """For each of the rows, the k candidates j with the largest log p_ij + G_ij, largest first: (r, k).

    G = -log(E) with E ~ Exp(1) is standard Gumbel. `seed=None` leaves the noise out: the k nearest neighbours.
    """
    x_hat, points, geometry = population.x_hat, population.points, population.geometry
    rows, batch = population.rows, population.batch
    if batch is None:
        rows_per_graph = [len(rows)]
    else:
        order = batch.index_select(0, rows).argsort(stable=True)
        rows = rows.index_select(0, order)
        graph_number = torch.unique_consecutive(batch, return_inverse=True)[1].index_select(0, rows)
        rows_per_graph = graph_number.bincount(minlength=int(graph_sizes(batch, len(x_hat)).numel())).tolist()

    chosen = torch.empty(len(rows), k, dtype=torch.long, device=x_hat.device)
    worst = torch.empty(len(rows), dtype=x_hat.dtype, device=x_hat.device)
    for block in row_blocks(rows_per_graph, graph_sizes(batch, len(points)).tolist()):
        here = rows[block.row_start : block.row_stop]
        columns = torch.arange(block.start, block.stop, device=x_hat.device)
        value = geometry.sq_cdist(x_hat.index_select(0, here), points[block.start : block.stop]).mul_(-temperature)
        if population.skip_self:
            value.scatter_(1, (here - block.start)[:, None], -torch.inf)
        foreign = other_graph(batch, here, block)
        if foreign is not None:
            value.masked_fill_(foreign, -torch.inf)
        # Only differences within a row matter: without their common part they keep the digits of the noise.
        nearest = value.amax(1, keepdim=True)
        value -= nearest
        keys = population.keys.index_select(0, here)
        best, place = value.topk(k, dim=1) if seed is None else _noisy_top_k(value, k, seed, keys, columns)
        chosen[block.row_start : block.row_stop] = place + block.start
        worst[block.row_start : block.row_stop] = best[:, -1] + nearest[:, 0]

    # Not `worst < _COARSE`: a temperature above the range of single precision gives nan for coincident points.
    coarse = (~(worst >= _COARSE)).nonzero()[:, 0]
    if x_hat.dtype == torch.float64:
        if bool((~(worst > -torch.inf)).any()):  # then a masked candidate may be among the chosen
            raise InputError(
                f"log p = -t dist^2 overflows to -inf with temperature={temperature} and coordinates up to "
                f"{float(x_hat.abs().max()):.3g}. Scale one of them down, and check the training for divergence."
            )
    elif len(coarse):
        exact = replace(population, x_hat=x_hat.double(), points=points.double(), rows=rows.index_select(0, coarse))
        chosen[coarse] = blocked_top_k(exact, k, temperature, seed)
    if batch is None:
        return chosen
    return torch.empty_like(chosen).index_copy_(0, order, chosen)


def _noisy_top_k(value: Tensor, k: int, seed: int, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The k largest of `value` (r, c) plus Gumbel noise in each row, and their places.

    Noise is bounded, so most pairs cannot win, and need none: k near candidates get theirs first, and whoever is so
    far behind the worst of them that the largest noise would not do is out.
    """
    k_th = _lower_bound(value, k, seed, rows, columns)
    reach = largest_gumbel(value.dtype) + 4 * torch.finfo(value.dtype).eps * k_th.abs()  # with room for rounding
    row, column = (value >= (k_th - reach)[:, None]).nonzero(as_tuple=True)
    if len(row) > value.numel() * _FEW:
        value -= exponential_noise(seed, rows, columns, value.dtype).log_()
        noisy, place = value.topk(k, dim=1)
        return noisy, place
    noise = exponential_noise_of_pairs(seed, rows.index_select(0, row), columns.index_select(0, column), value.dtype)
    # The survivors of each row side by side, in a matrix as wide as the most that a row has.
    count = row.bincount(minlength=len(value))
    slot = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count).index_select(0, row)
    noisy = value.new_full((len(value), max(int(count.max()), k)), -torch.inf)
    noisy[row, slot] = value[row, column] - noise.log_()
    place = column.new_zeros(noisy.shape)
    place[row, slot] = column
    best, slot = noisy.topk(k, dim=1)
    return best, place.gather(1, slot)


def _lower_bound(value: Tensor, k: int, seed: int, rows: Tensor, columns: Tensor) -> Tensor:
    """A value that at least k candidates of each row reach with their noise: (r,)."""
    groups = min(4 * k, len(columns))
    width = len(columns) // groups
    # The best of each group, then the best k of these: cheaper than the best k of all, and hardly worse.
    best, place = value[:, : groups * width].unflatten(1, (groups, width)).max(2)
    near, group = best.topk(k, dim=1)
    column = place.gather(1, group) + group * width
    pairs = rows[:, None].expand_as(column).reshape(-1), columns.index_select(0, column.reshape(-1))
    noise = exponential_noise_of_pairs(seed, *pairs, value.dtype)
    return (near - noise.log_().view_as(near)).amin(1)
