"""Sampled edges count 1 in the forward pass; in the backward pass they are taken for their probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from latentgraph.deadline import log_arrived
from latentgraph.errors import InputError
from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.softmax import sampled_softmax
from latentgraph.graph import LatentGraph


@dataclass
class StraightThrough(Gradient):
    r"""Weights :math:`w_{ij} = 1` whose gradient is taken to be that of :math:`s_{ij}`.

    Parameters
    ----------
    of : "softmax", :math:`s_{ij} = k \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}`: what one edge gains the
        others lose. "p", :math:`s_{ij} = p_{ij} = e^{-t \Delta^2}`: each edge for itself; it vanishes where all
        neighbours are far in units of :math:`1 / \sqrt t`. With a threshold T (`latentgraph.degrees.Threshold`) "p" is
        the chance that the edge is there, :math:`1 - \exp(-p_{ij} e^{-T})`, through which T learns, too
    """

    of: Literal["softmax", "p"] = "softmax"

    def __post_init__(self) -> None:
        if self.of not in ("softmax", "p"):
            raise InputError(f"of={self.of!r} is not known; choose 'softmax' or 'p'.")

    def weigh(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        assert graph.neighbors is not None
        assert graph.log_p is not None
        if not graph.log_p.requires_grad:
            return graph  # weights of 1 without a gradient
        if self.of == "softmax":
            soft = sampled_softmax(graph)
        elif graph.cutoff is None:
            soft = graph.per_node(graph.log_p.exp())
        else:
            soft = graph.per_node(log_arrived(graph.log_p - graph.cutoff).exp())
        return replace(graph, weights=as_one(soft, 1.0 if graph.kept is None else graph.kept.to(soft.dtype)))


def as_one(soft: Tensor, hard: float | Tensor = 1.0) -> Tensor:
    """`hard`, to the last bit, with the gradient of `soft`."""
    return (soft - soft.detach()) + hard
