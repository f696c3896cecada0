"""Exact k-subset marginals, straight through."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.gradients.candidates import candidates, exponential, log_p_of
from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.k_subsets import sample_subsets, subset_marginals
from latentgraph.gradients.straight_through import as_one
from latentgraph.graph import LatentGraph


@dataclass
class Subsets(Gradient):
    r"""Neighbours from the law of k-subsets, :math:`P(S) \propto \prod_{j \in S} p_{ij}`, whose marginals are known:

    .. math:: w_{ij} = z_{ij} \text{ with the gradient of } \mu_{ij} = P(j \in S)

    z is 1 for the k sampled candidates and 0 for the others. Another law than that of Gumbel-top-k, with the same
    parameters: it is sampled here, anew, among the candidates, also when predicting. They are the k that Gumbel-top-k
    has sampled and the nearest others. Where these are all nodes, sample and marginals are exact; otherwise they are
    those of the law on this set, which is itself random.

    Parameters
    ----------
    count : candidates of a node, see `candidates`
    """

    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise InputError(f"count={self.count}; it must be positive.")

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
        over = candidates(graph, self.count, guests=guests)
        # By number, not by who was sampled first: the noise is addressed by candidate, the order is part of the draw.
        over = over.sort(dim=1).values
        theta, k = log_p_of(graph, over), graph.neighbors.shape[1]
        noise = exponential(over, guests=guests, keys=keys, generator=generator)
        taken = sample_subsets(theta, k, -(-noise).expm1())
        order = taken.to(torch.uint8).argsort(dim=1, descending=True, stable=True)  # the sampled ones first
        over = over.gather(1, order)
        found = replace(graph, neighbors=over[:, :k], log_p=theta.gather(1, order)[:, :k].reshape(-1))
        if not graph.log_p.requires_grad:
            return found
        weights = as_one(subset_marginals(theta, k), taken.to(theta.dtype)).gather(1, order)
        return replace(found, weights=weights, candidates=over)
