"""From an embedding to edge probabilities. Everything stays in log space: p_ij = exp(-t dist^2) underflows early."""

from __future__ import annotations

import torch
from torch import Tensor

from latentgraph.blocks import Block, all_rows, other_graph, recomputed, row_blocks
from latentgraph.geometry import Geometry
from latentgraph.sampling.small_graphs import others_in_graph

SOME = 1 << 20  # edges at a time


def edge_log_p(x_hat: Tensor, edge_index: Tensor, temperature: Tensor, geometry: Geometry) -> Tensor:
    r"""Unnormalised log-probability of chosen edges, the paper's equation (2) in log space.

    .. math:: \log p_{ij} = -t \, \Delta(\hat x_i, \hat x_j)^2

    Parameters
    ----------
    x_hat : (n, d_hat) points of `geometry`
    edge_index : (2, e), row 0 the source j, row 1 the target i
    temperature : 0-d, positive

    Returns
    -------
    (e,) differentiable in `x_hat` and `temperature`
    """

    def of_some(source: Tensor, target: Tensor) -> Tensor:
        # index_select, not x_hat[...]: its backward is repeatable with several threads.
        return -temperature * geometry.sq_dist(x_hat.index_select(0, source), x_hat.index_select(0, target))

    if torch.is_grad_enabled() or edge_index.shape[1] <= SOME:
        return of_some(edge_index[0], edge_index[1])
    # Without a gradient the points at the ends need not all be in memory: ten million pairs would take a gigabyte.
    return torch.cat([of_some(*part) for part in edge_index.split(SOME, dim=1)])


def logistic_adjacency(
    x_hat: Tensor, temperature: Tensor, threshold: Tensor, geometry: Geometry, batch: Tensor | None = None
) -> Tensor:
    r"""The dense adjacency of a continuous graph, zero between different graphs of a batch.

    .. math:: a_{ij} = \sigma\left(t \, (T - \Delta(\hat x_i, \hat x_j)^2)\right)

    The formula printed in the paper has the opposite sign, under which a *grows* with the distance.

    Returns
    -------
    (n, n) differentiable in `x_hat`, `temperature` and `threshold`
    """
    block = Block(0, len(x_hat), 0, len(x_hat))
    return adjacency_block(block, x_hat, temperature, threshold, geometry, batch)


def adjacency_block(
    block: Block,
    x_hat: Tensor,
    temperature: Tensor,
    threshold: Tensor,
    geometry: Geometry,
    batch: Tensor | None,
    *,
    log: bool = False,
) -> Tensor:
    """Rows and columns of a block of the logistic adjacency, or of its logarithm."""
    sq_dist = geometry.sq_cdist(x_hat[block.rows], x_hat[block.columns])
    logit = temperature * (threshold - sq_dist)
    adjacency = torch.nn.functional.logsigmoid(logit) if log else logit.sigmoid()
    foreign = other_graph(batch, torch.arange(block.row_start, block.row_stop, device=x_hat.device), block)
    return adjacency if foreign is None else adjacency.masked_fill(foreign, -torch.inf if log else 0.0)


def plackett_luce(
    x_hat: Tensor,
    neighbors: Tensor,
    temperature: Tensor,
    geometry: Geometry,
    *,
    loop: bool = False,
    batch: Tensor | None = None,
    first_row: int = 0,
    kept: Tensor | None = None,
) -> Tensor:
    r"""Exact log-likelihood of the ordered neighbours of each node under Gumbel-top-k sampling.

    The k largest of log p_ij + Gumbel noise, in order, are k draws without replacement (Plackett-Luce):

    .. math:: \log P(j_1, \dots, j_k \mid i) = \sum_{r=1}^k \Big( \log p_{i j_r}
              - \log \sum_{j \notin \{j_1 \dots j_{r-1}\}} p_{ij} \Big)

    Parameters
    ----------
    x_hat : (n, d_hat)
    neighbors : (n, k) as `gumbel_top_k` returns them, in order of arrival
    loop, batch : as they were for the sample; they decide which candidates j there were
    first_row : where `neighbors` are those of some nodes only: the number of the first of them, whom the others follow
    kept : (n, k) bool, where node i has only its first k_i neighbours: the likelihood of these. The later ones are as
        good as never drawn

    Returns
    -------
    (n,) differentiable in `x_hat` and `temperature`; memory O(n k + block). Zero for nodes of graphs with fewer than k
    candidates (`DiscreteDGM(fill=True)`), for which nothing was drawn
    """
    drawn = (others_in_graph(batch, len(x_hat)) + int(loop) >= neighbors.shape[1]).to(x_hat.device)
    # The mass never chosen, then the chosen ones added from the last to the first: every normaliser is a sum of what it
    # contains, and nothing is subtracted that could cancel.
    log_mass = log_rest(x_hat, neighbors, temperature, geometry, loop=loop, batch=batch, first_row=first_row)
    log_chosen = log_p_of_neighbors(x_hat, neighbors, temperature, geometry, first_row=first_row)
    total = torch.zeros_like(log_mass)
    for r in reversed(range(neighbors.shape[1])):
        log_mass = torch.logaddexp(log_mass, log_chosen[:, r])
        step = log_chosen[:, r] - log_mass
        total = total + (step if kept is None else step * kept[:, r])
    return total.masked_fill(~drawn[: len(total)], 0.0)


def log_p_of_neighbors(
    x_hat: Tensor, neighbors: Tensor, temperature: Tensor, geometry: Geometry, *, first_row: int = 0
) -> Tensor:
    """(n, k) log p of neighbours (n, k); `first_row` as in `plackett_luce`."""

    def of_some(neighbors: Tensor, choosing: Tensor) -> Tensor:
        chosen = x_hat.index_select(0, neighbors.reshape(-1)).view(*neighbors.shape, -1)
        return -temperature * geometry.sq_dist(chosen, choosing[:, None])

    n, k = neighbors.shape
    choosing = x_hat[first_row : first_row + n]
    if torch.is_grad_enabled() or n * k <= SOME:
        return of_some(neighbors, choosing)
    at_once = max(1, SOME // k)
    return torch.cat([of_some(*part) for part in zip(neighbors.split(at_once), choosing.split(at_once), strict=True)])


def log_rest(
    x_hat: Tensor,
    neighbors: Tensor,
    temperature: Tensor,
    geometry: Geometry,
    *,
    loop: bool = False,
    batch: Tensor | None = None,
    first_row: int = 0,
    among: int | None = None,
) -> Tensor:
    r""":math:`\log \sum_{j \notin \mathcal N_i} p_{ij}` over the candidates that are not among the neighbours (n, k).

    Parameters
    ----------
    loop, batch, first_row : as in `plackett_luce`
    among : where the rows choose among the first nodes only: how many these are

    Returns
    -------
    (n,) differentiable in `x_hat` and `temperature`; -inf where no candidate is left. Memory O(n + block)
    """
    num_candidates = len(x_hat) if among is None else among

    def rows_of(block: Block, x_hat: Tensor, temperature: Tensor) -> Tensor:
        rows = torch.arange(block.row_start, block.row_stop, device=x_hat.device)
        chosen = neighbors.index_select(0, rows) - block.start
        rows = rows + first_row
        log_w = -temperature * geometry.sq_cdist(x_hat.index_select(0, rows), x_hat[block.columns])
        gone = torch.zeros_like(log_w, dtype=torch.bool).scatter_(1, chosen, True)
        if not loop:
            gone.scatter_(1, (rows - block.start)[:, None], True)
        foreign = other_graph(batch, rows, block)
        if foreign is not None:
            gone |= foreign
        return _masked_logsumexp(log_w, gone)

    some = len(neighbors) != len(x_hat)
    walk = row_blocks([len(neighbors)], [num_candidates]) if some else all_rows(batch, len(x_hat))
    return recomputed(rows_of, walk, x_hat, temperature, parameters=geometry.learned())


def _masked_logsumexp(values: Tensor, gone: Tensor) -> Tensor:
    """Row-wise logsumexp of what is not `gone`; -inf with gradient zero (not nan) for a row of which all is gone."""
    empty = gone.all(1)
    lowest = values.masked_fill(gone & ~empty[:, None], -torch.inf)
    return lowest.logsumexp(1).masked_fill(empty, -torch.inf)
