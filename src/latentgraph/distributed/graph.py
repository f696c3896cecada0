"""A sampled graph whose rows are shared by processes: each has sampled the neighbours of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from latentgraph.distributed.given import PartOfEdges
from latentgraph.distributed.halo import Halo
from latentgraph.distributed.partition import Partition
from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.graph import LatentGraph
from latentgraph.sparse import Structure


@dataclass(frozen=True, eq=False)
class PartOfGraph(LatentGraph):
    """The edges into the rows of this process.

    `x_hat`, `neighbors` and `log_p` are those of its rows; neighbours and edges have their numbers in the population.

    Attributes
    ----------
    everyone : (n, d_hat) the embedding of the whole population, differentiable
    halo : where the neighbours' features are found
    """

    everyone: Tensor | None = None
    halo: Halo | None = None

    @property
    def partition(self) -> Partition:
        return self._halo.partition

    @property
    def _halo(self) -> Halo:
        assert self.halo is not None
        return self.halo

    @property
    def all_x_hat(self) -> Tensor:
        assert self.everyone is not None
        return self.everyone

    @property
    def first_row(self) -> int:
        return self.partition.start

    @property
    def places(self) -> Tensor:
        return self._halo.places

    @property
    def num_sources(self) -> int:
        return self._halo.num_sources

    def sources(self, h: Tensor) -> Tensor:
        return self._halo.bring(h)

    @cached_property
    def edge_index(self) -> Tensor | None:
        """(2, e) the edges into the rows of this process, by their numbers in the population."""
        assert self.neighbors is not None
        target = self.partition.numbers(self.neighbors.device).repeat_interleave(self.neighbors.shape[1])
        return torch.stack([self.neighbors.reshape(-1), target])

    @cached_property
    def _edges(self) -> PartOfEdges:
        edge_index, halo = self.edge_index, self._halo
        assert edge_index is not None
        return PartOfEdges(edge_index, replace(halo, places=halo.places.reshape(-1)))

    @property
    def local_edges(self) -> Tensor:
        return self._edges.local_edges

    def normalised(self, dtype: torch.dtype) -> tuple[Tensor, Structure]:
        return self._edges.normalised(dtype)

    def mean_of_edges(self, values: Tensor) -> float | None:
        """Over the edges of all processes. All of them call it at the same time."""
        sum_and_count = torch.tensor([float(values.sum()), len(values)], dtype=torch.float64)
        found, count = self.partition.total(sum_and_count).tolist()
        return found / count if count else None

    def own_first(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._edges.own_first(x)

    def on_all(self, module: nn.Module, x: Tensor) -> Tensor:
        return self._edges.on_all(module, x)

    def whole(self) -> LatentGraph:
        """The graph of all rows, in every process. All of them call it at the same time."""
        assert self.neighbors is not None
        assert self.log_p is not None
        gather = self.partition.gather
        return LatentGraph(
            self.all_x_hat,
            self.temperature,
            self.geometry,
            neighbors=gather(self.neighbors),
            log_p=gather(self.log_p.view_as(self.neighbors)).flatten(),
            loop=self.loop,
            sampled=self.sampled,
        )

    def _weighted_edges(self, min_weight: float) -> tuple[Tensor, Tensor]:
        raise InputError("this is one process's part of a graph: export what `whole()` returns (in all processes).")


def part_of_graph(
    x_hat: Tensor,
    everyone: Tensor,
    neighbors: Tensor,
    partition: Partition,
    temperature: Tensor,
    geometry: Geometry,
    *,
    loop: bool,
    sampled: bool,
) -> PartOfGraph:
    """Put a part together: own embedding (own, d_hat), that of all (n, d_hat), own neighbours (own, k)."""
    chosen = everyone.index_select(0, neighbors.reshape(-1))
    choosing = x_hat.repeat_interleave(neighbors.shape[1], 0)
    log_p = -temperature * geometry.sq_dist(chosen, choosing)
    return PartOfGraph(
        x_hat,
        temperature,
        geometry,
        neighbors=neighbors,
        log_p=log_p if sampled else log_p.detach(),
        loop=loop,
        sampled=sampled,
        everyone=everyone,
        halo=Halo.around(neighbors, partition),
    )
