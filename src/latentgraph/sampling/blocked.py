"""Backend "torch": a block of rows against all its candidates, on any device."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes, other_graph, row_blocks
from latentgraph.errors import InputError
from latentgraph.sampling.noise import exponential_noise
from latentgraph.sampling.population import Population

# Single precision resolves values of this size to 5e-4. Rows that choose among worse (an outlier far from everybody)
# are done again in double precision, or their noise would be rounded away.
_COARSE = -8192.0


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
        value = -temperature * geometry.sq_cdist(x_hat.index_select(0, here), points[block.start : block.stop])
        if population.skip_self:
            value.masked_fill_(here[:, None] == columns, -torch.inf)
        foreign = other_graph(batch, here, block)
        if foreign is not None:
            value.masked_fill_(foreign, -torch.inf)
        # Only differences within a row matter: without their common part they keep the digits of the noise.
        nearest = value.amax(1, keepdim=True)
        value -= nearest
        if seed is not None:
            value -= exponential_noise(seed, population.keys.index_select(0, here), columns, value.dtype).log_()
        top = value.topk(k, dim=1)
        chosen[block.row_start : block.row_stop] = top.indices + block.start
        worst[block.row_start : block.row_stop] = top.values[:, -1] + nearest[:, 0]

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
