"""Which rows of a population are whose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from latentgraph.distributed.collectives import from_first, gather, gather_same, total
from latentgraph.distributed.group import Team
from latentgraph.errors import InputError
from latentgraph.sampling.noise import draw_seed

if TYPE_CHECKING:
    from latentgraph.node_set import NodeSet


@dataclass(frozen=True)
class Partition:
    """The rows of one population, shared by the processes of a team: each has a run of them.

    Attributes
    ----------
    sizes : how many rows each process has, in order
    team : the processes
    """

    sizes: tuple[int, ...]
    team: Team

    @classmethod
    def of(cls, num_nodes: int, team: Team) -> Partition:
        """Shares that differ by one row at most."""
        if num_nodes < team.size:
            raise InputError(
                f"{num_nodes} rows cannot be shared by {team.size} processes; each needs one at least. Start fewer."
            )
        share, rest = divmod(num_nodes, team.size)
        return cls(tuple(share + (rank < rest) for rank in range(team.size)), team)

    @property
    def num_nodes(self) -> int:
        """Of the whole population."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> list[int]:
        """The first row of each process, and the number of all rows."""
        return [0, *accumulate(self.sizes)]

    @property
    def start(self) -> int:
        return self.starts[self.team.rank]

    @property
    def stop(self) -> int:
        return self.starts[self.team.rank + 1]

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        return slice(self.start, self.stop)

    def numbers(self, device: torch.device | None = None) -> Tensor:
        """(own,) the numbers of this process's rows in the population."""
        return torch.arange(self.start, self.stop, device=device)

    def gather(self, x: Tensor) -> Tensor:
        """(own, ...) of each process -> (n, ...) of all, differentiable."""
        return gather(x, self.sizes, self.team)

    def gather_same(self, x: Tensor) -> Tensor:
        """The same, for what all processes compute alike: see `collectives.gather_same`."""
        return gather_same(x, self.sizes, self.team)

    def total(self, x: Tensor) -> Tensor:
        """The sum over processes, differentiable."""
        return total(x, self.team)

    def draw_seed(self, generator: torch.Generator | None) -> int:
        """One number from the generator, the first process's for all: they sample one graph together."""
        return int(from_first(torch.tensor(draw_seed(generator)), self.team))

    def part(self, nodes: NodeSet) -> NodeSet:
        """The rows of this process of a node set that holds all of them."""
        from latentgraph.distributed.given import PartOfEdges

        if nodes.batch is not None:
            raise InputError(
                "a partition shares the rows of one graph; a node set with batch holds several. Use Shards."
            )
        if len(nodes.x) != self.num_nodes:
            raise InputError(f"the node set has {len(nodes.x)} rows; the partition is of {self.num_nodes}.")
        if nodes.x.layout is not torch.strided:
            raise InputError("sparse features cannot be shared by processes yet: pass x.to_dense().")
        names = ("x", "y", "mask", "node_id", "weight")
        cut = {name: value[self.rows] for name in names if (value := getattr(nodes, name)) is not None}
        if nodes.node_id is None:
            cut["node_id"] = self.numbers(nodes.x.device)
        edges = PartOfEdges.of(nodes.edge_index, self) if isinstance(nodes.edge_index, Tensor) else nodes.edge_index
        return replace(nodes, **cut, edge_index=edges)
