r"""Whom a node may choose, and how probably: what most priors are about.

With the weights of pairs, :math:`w_{ij} = p_{ij} = e^{-t \Delta^2}` of a discrete graph, and
:math:`w_{ij} = a_{ij} = \sigma(t (T - \Delta^2))` of a continuous one,

.. math:: P_{ij} = \frac{w_{ij}}{\sum_l w_{il}}

over all candidates l of i: the nodes of its graph, itself only with `loop=True`. In a discrete graph
:math:`P_{ij}` is the probability that the first sampled neighbour of i is j; in a continuous one the share of j in all
weights of i. Everything is computed in log space, in blocks of rows that the backward pass computes again: O(n)
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph.blocks import Block, graph_sizes, other_graph, recomputed, row_blocks
from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.graph import LatentGraph

# (log w, pairs that are none, the block) of some rows, and more -> a result for each row
OfRows = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Law:
    """The weights of all pairs of a population.

    Attributes
    ----------
    x_hat : (n, d_hat)
    temperature, geometry, batch, loop : as in `LatentGraph`
    threshold : of a continuous graph; None: a discrete one
    k : sampled neighbours of a node of a discrete graph, on average
    """

    x_hat: Tensor
    temperature: Tensor
    geometry: Geometry
    threshold: Tensor | None
    batch: Tensor | None
    loop: bool
    k: float

    @classmethod
    def of(cls, graph: LatentGraph) -> Law:
        if graph.neighbors is not None and not graph.sampled:
            raise InputError(
                "a graph of nearest neighbours (noise=False) has no probabilities that a prior could be about. Use "
                "DiscreteDGM with noise, ContinuousDGM, or a prior on the embedding alone (TreeLike)."
            )
        k = 1.0 if graph.neighbors is None else float(graph.degrees.double().mean())
        loop = graph.loop and graph.neighbors is not None
        return cls(graph.x_hat, graph.temperature, graph.geometry, graph.threshold, graph.batch, loop, k)

    @cached_property
    def sizes(self) -> Tensor:
        """(graphs,) nodes of each graph."""
        return graph_sizes(self.batch, len(self.x_hat)).to(self.x_hat.device)

    @cached_property
    def number(self) -> Tensor:
        """(n,) the number of each node's graph: 0, 0, ..., 1, ..."""
        return torch.arange(len(self.sizes), device=self.x_hat.device).repeat_interleave(self.sizes)

    @property
    def candidates(self) -> Tensor:
        """(n,) how many candidates each node has."""
        return (self.sizes - int(not self.loop)).index_select(0, self.number)

    def mean_of_graphs(self, h: Tensor) -> Tensor:
        """Numbers (n, ...) of nodes -> (n, ...), the mean over each node's graph."""
        total = h.new_zeros(len(self.sizes), *h.shape[1:]).index_add(0, self.number, h)
        return (total / self.sizes.view(-1, *[1] * (h.ndim - 1))).index_select(0, self.number)

    def part(self, count: int | None, generator: torch.Generator | None) -> Law:
        """At most `count` random nodes as a population of their own: their law has the same width, among fewer."""
        chosen = self.some(count, generator)
        if chosen is None:
            return self
        batch = None if self.batch is None else self.batch.index_select(0, chosen)
        return replace(self, x_hat=self.x_hat.index_select(0, chosen), batch=batch)

    def some(self, count: int | None, generator: torch.Generator | None) -> Tensor | None:
        """At most `count` random nodes in ascending order; None for all, for which nothing is drawn."""
        n = len(self.x_hat)
        if count is None or count >= n:
            return None
        return torch.randperm(n, generator=generator)[:count].sort().values.to(self.x_hat.device)

    def over_rows(self, function: OfRows, *more: Tensor, rows: Tensor | None = None) -> Tensor:
        """Concatenate `function(log_w, gone, block, *more)` over blocks of `rows`, ascending, default all.

        log w and gone, the mask of pairs that are no candidates, are (rows, columns) of the block; log w has numbers
        there, too.
        """
        n, device = len(self.x_hat), self.x_hat.device
        rows = torch.arange(n, device=device) if rows is None else rows
        rows_per_graph = self.number.index_select(0, rows).bincount(minlength=len(self.sizes)).tolist()
        learned = [self.x_hat, self.temperature, *([] if self.threshold is None else [self.threshold])]

        def of_block(block: Block, *inputs: Tensor) -> Tensor:
            here = rows[block.rows]
            log_w = self._log_w(here, block, *inputs[: len(learned)])
            return function(log_w, self._gone(here, block), block, *inputs[len(learned) :])

        walk = row_blocks(rows_per_graph, self.sizes.tolist())
        return recomputed(of_block, walk, *learned, *more, parameters=self.geometry.learned())

    def log_w(self) -> tuple[Tensor, Tensor]:
        """log w and `gone` of all pairs, (n, n) each: for populations that are small."""
        n = len(self.x_hat)
        rows, whole = torch.arange(n, device=self.x_hat.device), Block(0, n, 0, n)
        return self._log_w(rows, whole, self.x_hat, self.temperature, self.threshold), self._gone(rows, whole)

    def _log_w(
        self, rows: Tensor, block: Block, x_hat: Tensor, temperature: Tensor, threshold: Tensor | None = None
    ) -> Tensor:
        sq_dist = self.geometry.sq_cdist(x_hat.index_select(0, rows), x_hat[block.columns])
        return -temperature * sq_dist if threshold is None else F.logsigmoid(temperature * (threshold - sq_dist))

    def _gone(self, rows: Tensor, block: Block) -> Tensor:
        columns = torch.arange(block.start, block.stop, device=rows.device)
        gone = torch.zeros(len(rows), len(columns), dtype=torch.bool, device=rows.device)
        if not self.loop:
            gone |= rows[:, None] == columns
        foreign = other_graph(self.batch, rows, block)
        return gone if foreign is None else gone | foreign


def log_share(log_w: Tensor, gone: Tensor) -> Tensor:
    """log P (rows, columns) from log w; -inf where there is no candidate. A row without any has finite gradients."""
    nobody = gone.all(1, keepdim=True)
    log_p = log_w.masked_fill(gone & ~nobody, -torch.inf).log_softmax(1)
    return log_p.masked_fill(gone, -torch.inf)


def log_totals(law: Law) -> Tensor:
    r"""(n,) :math:`\log \sum_j w_{ij}`; -inf for a node without candidates."""

    def of_rows(log_w: Tensor, gone: Tensor, block: Block) -> Tensor:
        nobody = gone.all(1)
        total = log_w.masked_fill(gone & ~nobody[:, None], -torch.inf).logsumexp(1)
        return total.masked_fill(nobody, -torch.inf)

    return law.over_rows(of_rows)


def in_degrees(law: Law) -> Tensor:
    r"""(n,) how much each node is chosen: :math:`\sum_i P_{ij}`, or :math:`\sum_i a_{ij}` of a continuous graph.

    Weights are symmetric, so a row of blocks has all that a column sum needs: :math:`P_{ij} = w_{ji} / \sum_l w_{il}`.
    """
    totals = log_totals(law)
    if law.threshold is not None:
        return totals.exp()

    def of_rows(log_w: Tensor, gone: Tensor, block: Block, totals: Tensor) -> Tensor:
        return (log_w - totals[block.columns]).masked_fill(gone, -torch.inf).exp().sum(1)

    return law.over_rows(of_rows, totals)
