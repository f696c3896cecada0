"""How processes share a training: the rows of one population, or different graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from latentgraph.checkpoint import Checkpoint
from latentgraph.distributed.agreement import begin_alike, first_decides
from latentgraph.distributed.collectives import add_gradients, count_all, gather, gather_same, total
from latentgraph.distributed.group import Team
from latentgraph.distributed.partition import Partition
from latentgraph.distributed.population import as_whole, batch_norm
from latentgraph.errors import InputError
from latentgraph.sampling.noise import draw_seed
from latentgraph.working import Alone, Labelled, labelled_here, nodes_of_step

if TYPE_CHECKING:
    from latentgraph.node_set import Batches, NodeSet


class _Shared:
    """What both ways have in common."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.options: dict[str, Any] = {}

    @property
    def first(self) -> bool:
        return self.team.first

    def labelled(self, nodes: NodeSet) -> Labelled:
        here = labelled_here(nodes)
        counts = tuple(count for (count,) in count_all([len(here.rows)], self.team))
        of_all = partial(gather, sizes=counts, team=self.team)
        return Labelled(
            here.rows,
            of_all(here.y),
            None if here.weight is None else of_all(here.weight),
            of_all(here.node_id),
            counts,
            sum(counts[: self.team.rank]),
        )

    def of_all(self, values: Tensor, labelled: Labelled) -> Tensor:
        return gather_same(values, labelled.counts, self.team)

    def total(self, x: Tensor) -> Tensor:
        return total(x, self.team)

    def add_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        add_gradients((p for group in optimizer.param_groups for p in group["params"]), self.team)

    def agreed(self, stop: bool) -> bool:
        return bool(total(torch.tensor(int(stop)), self.team))

    def load(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        return first_decides(checkpoint.load, self.team)


class SharedRows(_Shared):
    """Every process has some rows of one population, and samples the edges into them."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition.team)
        self.partition = partition
        self.options = {"partition": partition}
        self._known: dict[int, tuple[NodeSet, Labelled]] = {}

    @contextmanager
    def around(self, nets: list[nn.Module], train: Batches, generator: torch.Generator) -> Iterator[None]:
        begin_alike(nets, self.team)
        with self.seeing(nets):
            yield

    @contextmanager
    def seeing(self, nets: list[nn.Module]) -> Iterator[None]:
        with ExitStack() as stack:
            for net in nets:
                stack.enter_context(as_whole(net, self.partition))
            yield

    def nodes(self, train: Batches, step: int, generator: torch.Generator) -> NodeSet:
        if not hasattr(train, "x"):
            raise InputError(
                "processes share the rows of one node set; for a sequence of them use sharing=Shards(team)."
            )
        return nodes_of_step(train, step, generator)

    @property
    def validating(self) -> SharedRows:
        return self

    @contextmanager
    def sampling(self, generator: torch.Generator) -> Iterator[torch.Generator]:
        yield generator

    def labelled(self, nodes: NodeSet) -> Labelled:
        """Asked once of each node set: they stay the same."""
        if id(nodes) not in self._known:
            found = super().labelled(nodes)
            if not len(found.y):
                raise InputError("no process has a labelled row: every target is -1 or NaN, or the masks are empty.")
            self._known[id(nodes)] = nodes, found
        return self._known[id(nodes)][1]


class Shards(_Shared):
    """Every process has node sets of its own: many small graphs, a step taking as many sets as there are processes.

    A sequence of node sets is dealt like cards: process r of p takes numbers r, p + r, 2 p + r, ... A function that
    makes node sets is called for all processes in each, with the same generator: they draw what one process would draw
    in p steps. Noise and dropout differ from process to process. Batch normalisation goes over all processes.

    Parameters
    ----------
    team : the processes
    """

    @contextmanager
    def around(self, nets: list[nn.Module], train: Batches, generator: torch.Generator) -> Iterator[None]:
        self._set_temperatures(nets[0], train, generator)
        begin_alike(nets, self.team)
        with self.seeing(nets):
            yield

    @contextmanager
    def seeing(self, nets: list[nn.Module]) -> Iterator[None]:
        normalised = [module for net in nets for module in net.modules() if isinstance(module, nn.BatchNorm1d)]
        for module in normalised:
            module.forward = partial(self._batch_norm, module)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for module in normalised:
                vars(module).pop("forward", None)

    def _batch_norm(self, module: nn.BatchNorm1d, x: Tensor) -> Tensor:
        n = int(total(torch.tensor(len(x)), self.team)) if module.training or module.running_mean is None else len(x)
        return batch_norm(module, x, n, self.total)

    @property
    def validating(self) -> Alone:
        """Every process validates on all of the validation set."""
        return Alone()

    @torch.no_grad()
    def _set_temperatures(self, net: nn.Module, train: Batches, generator: torch.Generator) -> None:
        """By the first node set, for all processes; each would take its own otherwise."""
        if self.first and any(not bool(flag) for name, flag in net.named_buffers() if name.endswith("calibrated")):
            copy = generator.clone_state()
            nodes = nodes_of_step(train, 1, copy)
            with torch.random.fork_rng():
                net(nodes.x, nodes.edge_index, nodes.batch, generator=copy)

    def nodes(self, train: Batches, step: int, generator: torch.Generator) -> NodeSet:
        size, rank = self.team.size, self.team.rank
        if hasattr(train, "x"):
            raise InputError(
                "the training set is one node set, and sharing=Shards deals several. Give a sequence of them or a "
                "function, or share its rows: sharing=Partition.of(len(x), team)."
            )
        first = (step - 1) * size + 1
        if isinstance(train, Sequence):
            return nodes_of_step(train, first + rank, generator)
        return [nodes_of_step(train, first + other, generator) for other in range(size)][rank]

    @contextmanager
    def sampling(self, generator: torch.Generator) -> Iterator[torch.Generator]:
        """Streams of its own for each process, all from the one generator that a checkpoint keeps."""
        seed = (draw_seed(generator) + self.team.rank * 0x9E3779B97F4A7C15) % (1 << 62)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield torch.Generator().manual_seed(seed)
