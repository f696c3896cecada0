"""The differentiable graph modules: from node features to a graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from latentgraph.blocks import graph_sizes
from latentgraph.curvature import LearnedCurvature
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry
from latentgraph.graph import AnyGraph, LatentGraph, on_graph
from latentgraph.probability import log_p_of_neighbors
from latentgraph.sampling import gumbel_top_k, nearest
from latentgraph.sampling.small_graphs import with_small_graphs

if TYPE_CHECKING:
    import latentgraph.degrees  # by its full name: priors and reports have a Degrees, too
    from latentgraph.distributed.partition import Partition
    from latentgraph.gradients import Gradient


class _DGM(nn.Module):
    """What both kinds share: the embedding f, its geometry, and the temperature t = exp(log_temperature)."""

    def __init__(
        self, embed: nn.Module, geometry: Geometry | LearnedCurvature | None, temperature: float | None
    ) -> None:
        super().__init__()
        if temperature is not None and not (math.isfinite(temperature) and temperature > 0):
            raise InputError(
                f"temperature={temperature} but it must be positive and finite. "
                "Leave it out to have it set from the data at the first call."
            )
        self.embed = embed
        self.space = geometry or Euclidean()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature or 1.0)))
        self.calibrated: Tensor
        self.register_buffer("calibrated", torch.tensor(temperature is not None))

    @property
    def geometry(self) -> Geometry:
        """Where f's output lives; with the curvature of the moment, if it is learned."""
        return self.space() if isinstance(self.space, LearnedCurvature) else self.space

    @property
    def temperature(self) -> Tensor:
        """t > 0. Learned through its logarithm, so that no step can make it negative."""
        return self.log_temperature.exp()

    def _embedding(self, x: Tensor, graph: AnyGraph | None) -> Tensor:
        return self.geometry.project(on_graph(self.embed, x, graph))


class DiscreteDGM(_DGM):
    r"""Discrete differentiable graph module (dDGM): k sampled neighbours for each node.

    .. math:: \hat X = f(X), \qquad \log p_{ij} = -t \, \Delta(\hat x_i, \hat x_j)^2, \qquad
              \mathcal N_i = \operatorname{arg\,top}_k (\log p_i + G_i)

    The sample itself has no gradient; `graph.log_p` has, and `graph_loss` uses it. Other ways are in
    `latentgraph.gradients`.

    Parameters
    ----------
    embed : f, any module: node-wise (an MLP, `nn.Identity()`) or on the input graph (any PyG convolution, or
        `latentgraph.stacks.gcn`)
    k : neighbours for each node
    geometry : where f's output lives, default `Euclidean()`; `LearnedCurvature(...)` for one whose curvature is learned
    temperature : initial t. None sets it at the first call, such that a node typically hesitates between
        about 3 k candidates
    loop : whether a node may choose itself, as in the paper's algorithm: it mostly will, for p_ii = 1 is the largest
    backend : sampler, see `gumbel_top_k`
    noise : False takes the k nearest neighbours instead of sampling, which with f = id is DGCNN's graph
    gradient : how f learns from the task, one of `latentgraph.gradients`: it gives weights to the edges, or a loss to
        `training.fit`. None: no weights, and `fit` says which loss
    degrees : which of the k a node keeps, one of `latentgraph.degrees`: nodes then have different numbers of
        neighbours, at most k. None: all k
    fill : what to do with graphs of k nodes or fewer, which are common where every sample is a graph of its own. False
        is an error; True gives each of their nodes all others, and itself in the places that are left

    Examples
    --------
    >>> dgm = DiscreteDGM(nn.Linear(8, 2), k=3)
    >>> graph = dgm(torch.randn(10, 8))
    >>> graph.edge_index.shape, graph.log_p.requires_grad
    (torch.Size([2, 30]), True)
    """

    def __init__(
        self,
        embed: nn.Module,
        k: int = 5,
        *,
        geometry: Geometry | LearnedCurvature | None = None,
        temperature: float | None = None,
        loop: bool = False,
        backend: str = "auto",
        noise: bool = True,
        gradient: Gradient | None = None,
        degrees: latentgraph.degrees.Degrees | None = None,
        fill: bool = False,
    ) -> None:
        super().__init__(embed, geometry, temperature)
        if fill and loop:
            raise InputError("fill=True puts a node itself where others are missing, loop=True anywhere: choose one.")
        if fill and degrees is not None:
            raise InputError("fill=True gives nodes of small graphs all others, degrees takes some away: choose one.")
        self.k = k
        self.loop = loop
        self.backend = backend
        self.noise = noise
        self.gradient = gradient
        self.degrees = degrees
        self.fill = fill

    def forward(
        self,
        x: Tensor,
        edge_index: AnyGraph | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        guests: int = 0,
        keys: Tensor | None = None,
        partition: Partition | None = None,
    ) -> LatentGraph:
        """Features (n, d), optional input graph and graph ids -> a sampled graph.

        The last `guests` rows are new ones: they choose among the others, and nobody chooses them. So a guest's graph
        does not depend on the other guests; `keys` (guests,) name them to the noise, see `gumbel_top_k`.

        With a `partition` x holds the rows of this process, and the graph the edges into them: the same edges as if
        one process had all rows. See `latentgraph.distributed`.
        """
        x_hat = self._embedding(x, edge_index)
        if partition is not None:
            if guests or batch is not None:
                raise InputError("processes share the rows of one graph: leave out batch and guests.")
            return self._part(x_hat, partition, generator)
        if guests and batch is not None:
            raise InputError("guests join one graph: leave out batch.")
        residents = x_hat[: len(x_hat) - guests]
        if self.noise:
            self._calibrate(residents, batch)
        # Guests get a copy of the generator: drawing for them as well would change what the residents draw next.
        copy = (generator or torch.default_generator).clone_state() if guests else None
        if self.fill:
            neighbors = with_small_graphs(
                lambda points, graphs: self._choose(points, generator, batch=graphs), residents, self.k, batch
            )
        else:
            neighbors = self._choose(residents, generator, loop=self.loop, batch=batch)
        if guests:
            keys = -1 - torch.arange(guests, device=x.device) if keys is None else keys
            theirs = self._choose(x_hat[len(residents) :], copy, candidates=residents, keys=keys)
            neighbors = torch.cat([neighbors, theirs])
        log_p = log_p_of_neighbors(x_hat, neighbors, self.temperature, self.geometry).flatten()
        if not self.noise:
            log_p = log_p.detach()  # what was not sampled has no likelihood to learn by
        graph = LatentGraph(
            x_hat,
            self.temperature,
            self.geometry,
            neighbors=neighbors,
            log_p=log_p,
            batch=batch,
            loop=self.loop,
            sampled=self.noise,
        )
        if self.degrees is not None:
            graph = self.degrees(graph, guests=guests, keys=keys, generator=generator)
        if self.gradient is None or not self.noise:
            return graph
        return self.gradient.weigh(graph, guests=guests, keys=keys, generator=generator)

    def _part(self, x_hat: Tensor, partition: Partition, generator: torch.Generator | None) -> LatentGraph:
        """The neighbours of this process's rows, among all rows."""
        from latentgraph.distributed.graph import part_of_graph

        if self.degrees is not None:
            raise InputError("where processes share the rows, every node has k neighbours: leave out degrees.")
        everyone = partition.gather(x_hat)
        if self.noise:
            self._calibrate(everyone.detach(), None)
        seed = partition.draw_seed(generator) if self.noise else None
        neighbors = self._choose(everyone.detach(), seed, loop=self.loop, query=partition.numbers(x_hat.device))
        temperature, geometry = self.temperature, self.geometry
        return part_of_graph(
            x_hat, everyone, neighbors, partition, temperature, geometry, loop=self.loop, sampled=self.noise
        )

    def _choose(
        self, x_hat: Tensor, generator: torch.Generator | int | None, *, keys: Tensor | None = None, **among: Any
    ) -> Tensor:
        """k neighbours for each row: sampled, or without noise the nearest."""
        if not self.noise:
            return nearest(x_hat, self.k, geometry=self.geometry, backend=self.backend, **among)
        return gumbel_top_k(
            x_hat,
            self.k,
            self.temperature.detach(),
            geometry=self.geometry,
            keys=keys,
            generator=generator,
            backend=self.backend,
            **among,
        )

    @torch.no_grad()
    def _calibrate(self, x_hat: Tensor, batch: Tensor | None) -> None:
        if not self.calibrated:
            sq_dist, share = sampled_distances(x_hat, self.geometry, batch)
            self.log_temperature.fill_(math.log(_temperature_for(sq_dist, perplexity=3 * self.k * share)))
            self.calibrated.fill_(True)

    def extra_repr(self) -> str:
        return f"k={self.k}, geometry={self.geometry.detached()}, loop={self.loop}, noise={self.noise}"


class ContinuousDGM(_DGM):
    r"""Continuous differentiable graph module (cDGM): a weight for every pair.

    .. math:: \hat X = f(X), \qquad a_{ij} = \sigma\left(t \, (T - \Delta(\hat x_i, \hat x_j)^2)\right)

    Parameters
    ----------
    embed, geometry, temperature : as in `DiscreteDGM`
    threshold : initial T, the squared distance at which a = 1/2. None sets it at the first call to the squared
        distance within which a node typically has 10 neighbours

    Examples
    --------
    >>> graph = ContinuousDGM(nn.Linear(8, 2), threshold=1.0)(torch.randn(10, 8))
    >>> graph.adj.shape
    torch.Size([10, 10])
    """

    NEIGHBORS = 10  # how many a node starts with

    def __init__(
        self,
        embed: nn.Module,
        *,
        geometry: Geometry | LearnedCurvature | None = None,
        temperature: float | None = None,
        threshold: float | None = None,
    ) -> None:
        super().__init__(embed, geometry, temperature)
        self.threshold = nn.Parameter(torch.tensor(1.0 if threshold is None else float(threshold)))
        self.threshold_calibrated: Tensor
        self.register_buffer("threshold_calibrated", torch.tensor(threshold is not None))

    def forward(
        self,
        x: Tensor,
        edge_index: AnyGraph | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        partition: Partition | None = None,
    ) -> LatentGraph:
        """Features (n, d), optional input graph and graph ids -> a weighted graph. Nothing is random here."""
        if partition is not None:
            raise InputError(
                "a continuous graph joins all pairs, and its rows cannot be shared by processes. Use DiscreteDGM, or "
                "start one process."
            )
        x_hat = self._embedding(x, edge_index)
        self._calibrate(x_hat, batch)
        return LatentGraph(x_hat, self.temperature, self.geometry, threshold=self.threshold, batch=batch)

    @torch.no_grad()
    def _calibrate(self, x_hat: Tensor, batch: Tensor | None) -> None:
        if self.calibrated and self.threshold_calibrated:
            return
        sq_dist, share = sampled_distances(x_hat, self.geometry, batch)
        if not self.calibrated:
            self.log_temperature.fill_(math.log(_temperature_for(sq_dist, perplexity=3 * self.NEIGHBORS * share)))
            self.calibrated.fill_(True)
        if not self.threshold_calibrated and sq_dist.numel():
            nth = min(max(1, round(self.NEIGHBORS * share)), sq_dist.shape[1])
            self.threshold.fill_(float(sq_dist.kthvalue(nth, dim=1).values.median()))
            self.threshold_calibrated.fill_(True)

    def extra_repr(self) -> str:
        return f"geometry={self.geometry.detached()}"


_SAMPLE_COLUMNS = 1 << 15
_SAMPLE_PAIRS = 1 << 19


def sampled_distances(x_hat: Tensor, geometry: Geometry, batch: Tensor | None) -> tuple[Tensor, float]:
    """Squared distances (rows, columns) from some nodes of the largest graph to its others, never to themselves.

    Also the share of the graph's nodes that the columns are: 1 up to 32,768 nodes.
    """
    if not len(x_hat) or not x_hat.isfinite().all():
        raise InputError(
            f"the embedding of {len(x_hat)} nodes {'has NaN or infinite values' if len(x_hat) else 'is empty'}: no "
            "temperature can be set from it. Check the features for missing values."
        )
    sizes = graph_sizes(batch, len(x_hat))
    largest = int(sizes.argmax())
    start, n = int(sizes[:largest].sum()), int(sizes[largest])
    columns = _spaced(n, min(n, _SAMPLE_COLUMNS), x_hat.device) + start
    m = len(columns)
    rows = _spaced(m, min(m, max(16, _SAMPLE_PAIRS // m)), x_hat.device)
    points = x_hat.index_select(0, columns).double()
    sq_dist = geometry.sq_cdist(points.index_select(0, rows), points)
    others = torch.arange(m, device=x_hat.device) != rows[:, None]
    return sq_dist[others].view(len(rows), m - 1), m / n


def _spaced(n: int, count: int, device: torch.device) -> Tensor:
    """`count` of the numbers 0 .. n-1, evenly spaced. In double precision: single cannot count beyond 2^24."""
    return torch.linspace(0, n - 1, count, dtype=torch.float64, device=device).long()


def _temperature_for(sq_dist: Tensor, perplexity: float) -> float:
    """The t at which softmax(-t dist^2) has the wanted perplexity (effective number of candidates) on average.

    The perplexity falls from the number of candidates at t = 0 to that of the nearest (1, or more where points
    coincide), so bisection on log t finds it. Where points coincide, twice as many as do are wanted: a node that sees
    only its copies, at distance zero, would never learn. Where all distances are equal no t matters, and 1 is returned.
    """
    sq_dist = sq_dist - sq_dist.amin(1, keepdim=True)
    scale = float(sq_dist.mean()) if sq_dist.numel() else 0.0
    if not scale > 0:
        return 1.0
    wanted = math.log(min(max(perplexity, 2.0), 0.5 * (sq_dist.shape[1] + 1)))
    nearest = float((sq_dist <= 1e-9 * scale).sum(1).log().mean())
    wanted = max(wanted, min(nearest + math.log(2), (nearest + math.log(sq_dist.shape[1])) / 2))
    low, high = math.log(1e-3 / scale), math.log(1e9 / scale)
    for _ in range(30):
        middle = (low + high) / 2
        log_p = (-math.exp(middle) * sq_dist).log_softmax(1)
        entropy = float(-(log_p.exp() * log_p).sum(1).mean())
        low, high = (middle, high) if entropy > wanted else (low, middle)
    return math.exp(middle)
