"""Weights and rewards together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.rewards import PlackettLuce, Reinforce
from latentgraph.gradients.softmax import Softmax
from latentgraph.graph import LatentGraph


@dataclass
class Both(Gradient):
    r"""The weights of a `Softmax`, and a graph loss from rewards: the two terms of one derivative,

    .. math:: \nabla_\theta \, E_A[L(A, w_\theta(A))] = E_A[\nabla_\theta L(A, w_\theta(A))
              + L \, \nabla_\theta \log P_\theta(A)]

    The task loss has the first; `PlackettLuce` adds the second, and the sum is unbiased. The other weights estimate the
    whole derivative by themselves: with rewards it would be counted twice.

    >>> Both(Softmax(), PlackettLuce(samples=8)).samples
    8
    """

    weights: Softmax
    rewards: Reinforce | PlackettLuce

    @property
    def samples(self) -> int:  # type: ignore[override]
        return self.rewards.samples

    @property
    def baseline(self) -> nn.Module | None:  # type: ignore[override]
        return self.rewards.baseline

    @property
    def spreads_rewards(self) -> bool:
        return self.rewards.spreads_rewards

    def weigh(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        return self.weights.weigh(graph)

    def graph_loss(self, graphs: Sequence[LatentGraph], delta: Tensor) -> Tensor:
        return self.rewards.graph_loss(graphs, delta)
