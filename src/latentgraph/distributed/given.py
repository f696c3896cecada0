"""The part of a graph whose edges end at this process's rows."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.distributed.halo import Halo
from latentgraph.distributed.partition import Partition
from latentgraph.distributed.population import as_it_is
from latentgraph.sparse import Structure, structure_of


class PartOfEdges:
    """Edges into the rows of this process, of an edge list of the whole population.

    Attributes
    ----------
    edge_index : (2, e) sources above targets, by their numbers in the population
    halo : where the sources are found
    """

    def __init__(self, edge_index: Tensor, halo: Halo) -> None:
        self.edge_index = edge_index
        self.halo = halo
        self._normalised: dict[torch.dtype, tuple[Tensor, Structure]] = {}

    @classmethod
    def of(cls, edge_index: Tensor, partition: Partition) -> PartOfEdges:
        """Of a list of all edges. All processes call it at the same time."""
        target = edge_index[1]
        mine = edge_index[:, ((target >= partition.start) & (target < partition.stop)).nonzero()[:, 0]]
        return cls(mine, Halo.around(mine[0], partition))

    @cached_property
    def local_edges(self) -> Tensor:
        """(2, e) sources by their place in `sources(h)`, above targets counted from this process's first row."""
        return torch.stack([self.halo.places, self.edge_index[1] - self.halo.partition.start])

    @cached_property
    def whole_edges(self) -> Tensor:
        """(2, e') the edges of all processes."""
        from latentgraph.distributed.collectives import count_all, gather

        team = self.halo.partition.team
        sizes = [count for (count,) in count_all([self.edge_index.shape[1]], team)]
        return gather(self.edge_index.T.contiguous(), sizes, team).T.contiguous()

    def sources(self, h: Tensor) -> Tensor:
        """(own, c) features of this process's rows -> the rows that edges start at."""
        return self.halo.bring(h)

    def on_all(self, module: nn.Module, x: Tensor) -> Tensor:
        """Call a module that knows edge lists only, on all rows; keep the own ones. Right for any, fast for none."""
        partition = self.halo.partition
        with as_it_is(module):
            out: Tensor = module(partition.gather(x), self.whole_edges)
        return out[partition.rows]

    def own_first(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of sources, the own ones above all others, and edges (2, e) from them to the own rows.

        As PyG's convolutions from some nodes to others expect them, which find loops by equal numbers.
        """
        source, target = self.local_edges
        is_loop = source == target + self.halo.own
        edges = torch.stack([torch.where(is_loop, target, source + len(x)), target])
        return torch.cat([x, self.sources(x)]), edges

    def normalised(self, dtype: torch.dtype) -> tuple[Tensor, Structure]:
        """The own rows of D^-1/2 (A + I) D^-1/2, as PyG's `GCNConv` has it: entries, and where they are."""
        if dtype not in self._normalised:
            self._normalised[dtype] = self._normalise(dtype)
        return self._normalised[dtype]

    @torch.no_grad()
    def _normalise(self, dtype: torch.dtype) -> tuple[Tensor, Structure]:
        partition = self.halo.partition
        n = partition.stop - partition.start
        source, target = self.local_edges
        self_place = torch.arange(n, device=source.device) + self.halo.own
        rest = (source != self_place.index_select(0, target)).nonzero()[:, 0]  # each row gets one loop, old or new
        source = torch.cat([source.index_select(0, rest), self_place])
        target = torch.cat([target.index_select(0, rest), self_place - self.halo.own])
        degree = target.bincount(minlength=n)
        scale = degree.to(dtype).pow(-0.5)
        theirs = self.halo.bring(scale[:, None])[:, 0]
        order = target.argsort(stable=True)
        source, target = source.index_select(0, order), target.index_select(0, order)
        weight = theirs.index_select(0, source) * scale.index_select(0, target)
        return weight, structure_of(F.pad(degree.cumsum(0), (1, 0)), source, self.halo.num_sources)
