"""The rows of other processes that this one's edges need: all of them, or those that are asked for.

Both move the same numbers into the same sums; they differ in what is sent. Gathering sends each row to everybody.
Asking sends a row only to those whose edges start at it, but has to pick it out, and first to say which. The processes
count, and ask if the rows asked for are at most `ASKING_PAYS` of those that gathering would send.

With rows in no order, k edges into each of n / p own rows and any source as likely as another, a row of somebody else
is needed with probability 1 - exp(-k / p): nearly all of them for two processes and k = 5, one in thirteen for 64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from latentgraph.distributed.collectives import count_all, send_rows
from latentgraph.distributed.partition import Partition

ASKING_PAYS = 0.75


@dataclass(frozen=True, eq=False)
class Halo:
    """Where the ends of edges are found, after the rows of other processes have come.

    Attributes
    ----------
    partition : whose rows are whose
    places : for each wanted node, the row of `bring(h)` that is its own; of the shape in which they were asked for
    num_sources : rows of `bring(h)`
    own : place of this process's first row; the others follow
    asked : how many rows this process asks of each; None if all are gathered
    given : (m,) own rows that others ask for, in the order of the askers
    to : how many of these go to each
    """

    partition: Partition
    places: Tensor
    num_sources: int
    own: int
    asked: tuple[int, ...] | None = None
    given: Tensor | None = None
    to: tuple[int, ...] = ()

    @classmethod
    def around(cls, wanted: Tensor, partition: Partition) -> Halo:
        """Of nodes by their numbers in the population. All processes call it at the same time."""
        team, n, device = partition.team, partition.num_nodes, wanted.device
        start, stop = partition.start, partition.stop
        needed = torch.zeros(n, dtype=torch.bool, device=device)
        needed[wanted.reshape(-1)] = True
        needed[start:stop] = False
        others = needed.nonzero()[:, 0]
        bounds = torch.tensor(partition.starts[1:-1], dtype=torch.long, device=device)
        owner = torch.bucketize(others, bounds, right=True)
        counts = count_all(owner.bincount(minlength=team.size).tolist(), team)
        if sum(map(sum, counts)) > ASKING_PAYS * n * (team.size - 1):
            return cls(partition, wanted, n, start)
        mine, to = counts[team.rank], [count[team.rank] for count in counts]
        given = send_rows(others, mine, to, team) - start
        slot = needed.cumsum(0).add_(stop - start - 1)  # of others, behind the own rows
        own = (wanted >= start) & (wanted < stop)
        places = torch.where(own, wanted - start, slot.index_select(0, wanted.reshape(-1)).view_as(wanted))
        return cls(partition, places, stop - start + len(others), 0, tuple(mine), given, tuple(to))

    def bring(self, h: Tensor) -> Tensor:
        """(own, ...) of each process -> (num_sources, ...) where `places` point to. Differentiable."""
        if self.asked is None or self.given is None:
            return self.partition.gather(h)
        come = send_rows(h.index_select(0, self.given), self.to, self.asked, self.partition.team)
        return torch.cat([h, come])
