"""What the estimators do together: every process has the whole table, and the rows are shared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentgraph.distributed.agreement import first_decides
from latentgraph.distributed.collectives import count_all
from latentgraph.distributed.graph import PartOfGraph
from latentgraph.distributed.group import Team
from latentgraph.distributed.partition import Partition
from latentgraph.errors import InputError
from latentgraph.estimators.forest import Forest
from latentgraph.graph import LatentGraph
from latentgraph.model import consensus
from latentgraph.node_set import NodeSet

Array = NDArray[Any]


def partition_of(x: Array, y: Tensor, seed: int, team: Team) -> tuple[int, Partition]:
    """The first process's seed for all, and whose rows are whose. Refuses tables that are not the same."""
    digest = hashlib.blake2b(np.ascontiguousarray(x).tobytes() + y.numpy().tobytes(), digest_size=7).digest()
    told = count_all([int.from_bytes(digest, "little"), seed], team)
    if len({code for code, _ in told}) > 1:
        raise InputError(
            "the processes were given different tables; each needs all rows and all targets, in the same order. Read "
            "the same file in each of them."
        )
    return told[0][1], Partition.of(len(x), team)


def grow_together(
    x: Array, y: Array, known: Array, outputs: int, trees: int, seed: int, partition: Partition
) -> tuple[Forest, Tensor]:
    """The first process grows the forest; each asks it about its own rows; all get all opinions."""

    def plant() -> dict[str, Tensor]:
        forest, bags = Forest.plant(x, y, known, outputs, trees, seed)
        return {name: torch.as_tensor(value) for name, value in vars(forest).items()} | {"bags": torch.as_tensor(bags)}

    told = {name: value.numpy() for name, value in first_decides(plant, partition.team).items()}
    bags = told.pop("bags")
    forest = Forest(**told)
    opinion = forest.out_of_bag(x[partition.rows], bags, partition.start)
    return forest, partition.gather(torch.as_tensor(opinion))


def consensus_together(
    net: nn.Module,
    x: Tensor,
    edge_index: Tensor | None,
    samples: int,
    link: Callable[[Tensor], Tensor],
    generator: torch.Generator,
    partition: Partition,
) -> tuple[Tensor, list[LatentGraph]]:
    """`model.consensus` of all rows, in every process, and the last graph of each sample."""
    nodes = partition.part(NodeSet(x, torch.zeros(len(x)), edge_index=edge_index))
    mean, graphs = consensus(
        net, nodes.x, nodes.edge_index, samples=samples, link=link, generator=generator, partition=partition
    )
    last = [sample[-1] for sample in graphs]
    return partition.gather(mean), [graph.whole() for graph in last if isinstance(graph, PartOfGraph)]
