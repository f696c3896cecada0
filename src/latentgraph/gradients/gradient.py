"""What an estimator of the graph's gradient is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from latentgraph.graph import LatentGraph


class Gradient:
    """How a sampled graph learns: by the weights of its edges, by the rewards of its nodes, or by both.

    This one does neither: the edges count the same, and f learns nothing from the task.

    Attributes
    ----------
    samples : graphs that a training step needs
    baseline : what rewards are compared with; None: no rewards are used
    """

    samples: int = 1
    baseline: nn.Module | None = None

    @property
    def spreads_rewards(self) -> bool:
        """Whether the graph loss credits nodes with the rewards of others, which targets of whole graphs forbid."""
        return False

    def weigh(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        """A graph as it was sampled by Gumbel-top-k -> the graph on which features diffuse, mostly with weights.

        The last `guests` rows are new ones, known to the noise by `keys` (guests,): see `DiscreteDGM.forward`.
        """
        return graph

    def graph_loss(self, graphs: Sequence[LatentGraph], delta: Tensor) -> Tensor:
        """What is added to the loss: the graphs of all modules, expected minus actual reward (n,) -> 0-d."""
        return delta.new_zeros(())
