"""What decides on the number of neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from latentgraph.graph import LatentGraph


class Degrees(nn.Module, ABC):
    """From a graph with k neighbours for each node to one with at most k: a node keeps those that arrived first."""

    @abstractmethod
    def forward(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        """A graph as it was sampled by Gumbel-top-k -> the same with `kept`.

        The last `guests` rows are new ones, known to the noise by `keys` (guests,): see `DiscreteDGM.forward`.
        """


def first_arrivals(graph: LatentGraph, degrees: Tensor) -> LatentGraph:
    """Keep the first of each node's neighbours, as many as `degrees` (n,) says."""
    assert graph.neighbors is not None
    return graph.keep(torch.arange(graph.neighbors.shape[1], device=degrees.device) < degrees[:, None])
