r"""Batches of a population whose graph is too large for every training step.

A node's output depends on the neighbours it samples, on theirs, and so on. There are two ways to cut a batch out of
that:

`RandomRows`: a random part of the rows is a population of its own. Its neighbours are exact draws for that part. A
first neighbour of a row has the density :math:`\propto e^{-t \Delta^2}` over the part, as it has over all rows: near
rows are fewer, but the neighbourhood is as wide. What differs is that k rows of few are drawn without replacement.

`ClosedBatches`: seed rows, and the rows that they sample among *all* rows, so that the batch is closed under the seeds'
neighbours. The seeds' edges are exact draws for the whole population. What seeds learn from rows further away is exact
with as many `hops` as there are convolutions; with fewer, the outermost rows choose within the batch.

Both are functions of (step, generator) for `training.fit`, and tell `MovingAverageBaseline` by `node_id` which nodes
they have drawn. Features may be a tensor, or an array on the disk (`numpy.load(..., mmap_mode="r")`): only the rows of
a batch are read.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.probability import log_p_of_neighbors
from latentgraph.training import NodeSet

LABELLED = 8  # one in so many rows of a random batch has a target, if there are enough
BLOCK = 1 << 16  # rows that are embedded at a time


class Rows(Protocol):
    """Features by row: a tensor, an array, or an array on the disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


def take(x: Rows, rows: Tensor) -> Tensor:
    """The rows (m,) of x as a tensor; those on a disk are read in the order in which they lie there."""
    if isinstance(x, Tensor):
        return x.index_select(0, rows.to(x.device))
    order = rows.argsort()
    found = torch.as_tensor(np.asarray(x[rows[order].numpy()]))
    return torch.empty_like(found).index_copy_(0, order, found)


class RandomRows:
    """Random rows as a population of their own: a function of (step, generator) for `training.fit`.

    Parameters
    ----------
    x, y, mask, weight : of all n rows, as in `NodeSet`; x may be on the disk
    size : rows of a batch, drawn without replacement. Labelled and other rows are drawn in proportion, but at least one
        row in eight has a target that counts, if there are so many

    Examples
    --------
    >>> batches = RandomRows(torch.randn(100, 3), torch.arange(100) % 2, size=20)
    >>> nodes = batches(1, torch.Generator().manual_seed(0))
    >>> nodes.x.shape, nodes.node_id.unique().shape
    (torch.Size([20, 3]), torch.Size([20]))
    """

    def __init__(
        self, x: Rows, y: Tensor, size: int, *, mask: Tensor | None = None, weight: Tensor | None = None
    ) -> None:
        if not 2 <= size <= len(x):
            raise InputError(f"size={size}, but a batch has between 2 and {len(x)} rows, which is all of them.")
        self.x, self.y, self.mask, self.weight = x, y, mask, weight
        self.labelled, self.others = _apart(y, mask, len(x))
        share = round(size * len(self.labelled) / len(x))
        wanted = min(max(share, size // LABELLED, 1), len(self.labelled))
        self.wanted = max(wanted, size - len(self.others))
        self.size = size

    def __call__(self, step: int, generator: torch.Generator) -> NodeSet:
        parts = [(self.labelled, self.wanted), (self.others, self.size - self.wanted)]
        rows = torch.cat([part[torch.randperm(len(part), generator=generator)[:count]] for part, count in parts])
        return NodeSet(
            take(self.x, rows),
            self.y[rows],
            None if self.mask is None else self.mask[rows],
            node_id=rows,
            weight=None if self.weight is None else self.weight[rows],
        )


class ClosedBatches:
    r"""Seed rows and the neighbours that they sample among all rows: a function of (step, generator) for `fit`.

    Let :math:`B_0` be the seeds and :math:`B_{h+1} = B_h \cup \bigcup_{i \in B_h} \mathcal N_i`, with
    :math:`\mathcal N_i` sampled by `gumbel_top_k` among all rows. The batch is :math:`B_{hops}`. Rows of
    :math:`B_{hops - 1}` have these neighbours; the outermost ones sample among the batch.

    Exact: :math:`\mathcal N_i` of the seeds, in law, for the embedding without dropout; with as many hops as
    convolutions follow the graph module, also the seeds' outputs and their gradients, for the graph that was drawn.
    Approximated: with fewer hops, what comes from the outermost rows; with `among`, the population is that many random
    rows and the seeds; "plackett_luce", whose normaliser is over the batch.

    Train `batches.net`, not `net`: it shares the weights of `net`, and in training takes the neighbours that were
    drawn. In evaluation it is `net`. All sampled graphs of one step have the seeds' same neighbours, which leaves
    `SampleMeanBaseline` nothing to compare: use `MovingAverageBaseline`, or a convolution that is differentiable in
    the graph, such as `Attended`.

    Parameters
    ----------
    net : a `DGMNet` whose first layer has a `DiscreteDGM` with a node-wise f, and whose further layers use its graph
    x, y, mask : of all n rows, as in `NodeSet`; x may be on the disk
    seeds : labelled rows that are learned from in a step
    hops : how far the batch is closed
    among : candidates of a step, default all n rows. Embedding them and building their search tree is what a step costs

    Examples
    --------
    >>> from latentgraph.loss import MovingAverageBaseline
    >>> from latentgraph.stacks import gcn, mlp
    >>> from latentgraph.training import fit
    >>> x, y = torch.randn(300, 4), torch.arange(300) % 2
    >>> net = DGMNet([(DiscreteDGM(mlp([4, 2]), k=3), gcn([4, 2]))])
    >>> batches = ClosedBatches(net, x, y, seeds=20)
    >>> history = fit(batches.net, batches, baseline=MovingAverageBaseline(300), steps=3)
    >>> nodes = batches(4, torch.Generator())
    >>> int(nodes.mask.sum()), bool(len(nodes.x) > 20)
    (20, True)
    """

    def __init__(
        self,
        net: DGMNet,
        x: Rows,
        y: Tensor,
        *,
        seeds: int,
        hops: int = 1,
        among: int | None = None,
        mask: Tensor | None = None,
    ) -> None:
        first, *further = net.dgms
        if not isinstance(first, DiscreteDGM) or not all(isinstance(dgm, nn.Identity) for dgm in further):
            raise InputError("ClosedBatches needs a network whose first layer, and no other, has a DiscreteDGM.")
        if first.gradient is not None:
            raise InputError(
                f"{first.gradient!r} weighs the edges of graphs that were sampled among all nodes of a step, but these "
                "batches sample among others. Leave gradient out; use `Attended`, or give fit a baseline."
            )
        if first.degrees is not None:
            raise InputError("ClosedBatches draws k neighbours for each row: leave out degrees, or use RandomRows.")
        self.labelled, _ = _apart(y, mask, len(x))
        if not 1 <= seeds <= len(self.labelled):
            raise InputError(f"seeds={seeds}, but there are {len(self.labelled)} rows with a target that counts.")
        if hops < 1:
            raise InputError(f"hops={hops}; it must be at least 1.")
        if among is not None and not first.k < among <= len(x):
            raise InputError(f"among={among}, but there must be more than k={first.k} candidates and at most {len(x)}.")
        self.x, self.y = x, y
        self.seeds, self.hops, self.among = seeds, hops, among
        self.pre, self.dgm = net.pre, first
        self.given = _Given(first)
        layers = zip([self.given, *[None] * len(further)], net.diffusions, strict=True)
        self.net = DGMNet(
            list(layers), net.head, pre=net.pre, detach=net.detach, stack=net.stack, jump=net.jump
        )  # of the same modules: what it learns, `net` has learned

    @torch.no_grad()
    def __call__(self, step: int, generator: torch.Generator) -> NodeSet:
        dgm = self.dgm
        seeds = self.labelled[torch.randperm(len(self.labelled), generator=generator)[: self.seeds]]
        candidates = self._candidates(seeds, generator)
        x_hat = self._embedding(candidates)
        dgm._calibrate(x_hat, None)
        place = torch.searchsorted(candidates, seeds)  # from here on, rows are places among the candidates
        inside, chosen = place, place.new_empty(0, dgm.k)
        for _ in range(self.hops):
            new = inside[len(chosen) :]
            theirs = dgm._choose(x_hat, generator, loop=dgm.loop, query=new)
            chosen = torch.cat([chosen, theirs])
            more = theirs.unique()
            inside = torch.cat([inside, more[~torch.isin(more, inside)]])
        at = torch.empty(len(candidates), dtype=torch.long)
        at[inside] = torch.arange(len(inside))
        self.given.neighbors = at[chosen]
        rows = candidates[inside]
        mask = torch.arange(len(rows)) < len(seeds)
        return NodeSet(take(self.x, rows), self.y[rows], mask, node_id=rows)

    def _candidates(self, seeds: Tensor, generator: torch.Generator) -> Tensor:
        """The rows to choose among, in order."""
        if self.among is None:
            return torch.arange(len(self.x))
        some = torch.randperm(len(self.x), generator=generator)[: self.among]
        return torch.cat([seeds, some]).unique()

    def _embedding(self, rows: Tensor) -> Tensor:
        """x_hat of rows, in blocks; without dropout, as for prediction."""
        was = self.net.training
        self.net.eval()
        blocks = [self.dgm._embedding(self.pre(take(self.x, part)), None) for part in rows.split(BLOCK)]
        self.net.train(was)
        return torch.cat(blocks)


class _Given(nn.Module):
    """A `DiscreteDGM` whose first rows, in training, have neighbours that were drawn before; the others draw theirs."""

    def __init__(self, dgm: DiscreteDGM) -> None:
        super().__init__()
        self.dgm = dgm
        self.neighbors: Tensor | None = None  # (b, k) of the first b rows

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | LatentGraph | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        dgm = self.dgm
        if self.neighbors is None or not self.training:
            return dgm(x, edge_index, batch, generator=generator)
        x_hat = dgm._embedding(x, edge_index)
        query = torch.arange(len(self.neighbors), len(x))
        theirs = dgm._choose(x_hat.detach(), generator, loop=dgm.loop, query=query)
        neighbors = torch.cat([self.neighbors, theirs])
        log_p = log_p_of_neighbors(x_hat, neighbors, dgm.temperature, dgm.geometry).flatten()
        return LatentGraph(
            x_hat,
            dgm.temperature,
            dgm.geometry,
            neighbors=neighbors,
            log_p=log_p if dgm.noise else log_p.detach(),
            loop=dgm.loop,
            sampled=dgm.noise,
        )


def _apart(y: Tensor, mask: Tensor | None, n: int) -> tuple[Tensor, Tensor]:
    """Rows whose target counts, and the others."""
    if len(y) != n:
        raise InputError(f"y has {len(y)} entries but x has {n} rows; there must be one each.")
    labelled = NodeSet(y[:, None] if y.ndim == 1 else y, y, mask).rows
    if not len(labelled):
        raise InputError("no row has a target that counts: every one is -1 or NaN, or the mask is empty.")
    other = torch.ones(n, dtype=torch.bool)
    other[labelled] = False
    return labelled, other.nonzero()[:, 0]
