"""What decides on the number of neighbours."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from latentgraph.graph import LatentGraph
from latentgraph.sampling.noise import draw_seed, exponential_noise_of_pairs


class Degrees(nn.Module):
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


def exponential_of_rows(
    rows: int, columns: int, *, guests: int, keys: Tensor | None, generator: torch.Generator | None
) -> Tensor:
    """Independent Exp(1) variables (rows, columns) in double precision, the same for a row whoever else is there.

    On the CPU. The last `guests` rows are known by their `keys`, the others by their numbers.
    """
    names = torch.arange(rows - guests)
    if guests:
        names = torch.cat([names, -1 - torch.arange(guests) if keys is None else keys.cpu()])
    column = torch.arange(columns).repeat(rows)
    noise = exponential_noise_of_pairs(draw_seed(generator), names.repeat_interleave(columns), column, torch.float64)
    return noise.view(rows, columns)
