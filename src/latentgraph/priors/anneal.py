"""From many candidates to few: a temperature that follows a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.model import consensus

if TYPE_CHECKING:
    from latentgraph.node_set import NodeSet


@dataclass
class Anneal:
    r"""Multiply the temperature t of every graph module, along a geometric schedule: `training.fit(anneal=...)`.

    .. math:: t_s = t \, c_s, \qquad c_s = \text{start}^{1 - u} \, \text{end}^{u}, \qquad
              u = \min\left(1, \frac{s - 1}{\text{steps} - 1}\right) \text{ in step } s = 1, 2, \dots

    The larger t, the surer a node is of its nearest candidates: `Anneal(0.1, 1.0, 200)` begins with samples from far
    around and ends with those that the temperature was set for. t is what a module was given, or what is set from
    the nodes of the first step, then seen without dropout.

    The product is kept as the temperature of the module itself: it is saved with the network, what is validated
    is what was trained, and the weights that are kept have the temperature of their step.

    Parameters
    ----------
    start, end : factors in the first step, and from step `steps` on
    learn : whether t is learned as well. False fixes the temperatures of the network, also after the training

    Examples
    --------
    >>> [round(Anneal(0.25, 1.0, 3).factor(step), 3) for step in (1, 2, 3, 4)]
    [0.25, 0.5, 1.0, 1.0]
    """

    start: float
    end: float
    steps: int
    learn: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.start < math.inf and 0 < self.end < math.inf and self.steps >= 1):
            raise InputError(
                f"start={self.start}, end={self.end}, steps={self.steps}; the factors must be positive and finite, and "
                "there must be at least one step."
            )

    def factor(self, step: int) -> float:
        """c in step 1, 2, ..."""
        u = min(1.0, (step - 1) / (self.steps - 1)) if self.steps > 1 else 1.0
        return math.exp((1 - u) * math.log(self.start) + u * math.log(self.end))

    def hold(self, net: nn.Module) -> None:
        """Before an optimiser is made: take the temperatures out of what is learned."""
        if not self.learn:
            for log_temperature in _log_temperatures(net):
                log_temperature.requires_grad_(False)

    def begin(self, net: nn.Module, nodes: Callable[[torch.Generator], NodeSet], generator: torch.Generator) -> None:
        """Before the first step: set the temperatures that are not set yet, from its nodes, and multiply all of them.

        It draws from a copy of the generator, and from a copy of the global random state.
        """
        if any(not flag for name, flag in net.named_buffers() if name.endswith("calibrated")):
            copy = generator.clone_state()
            with torch.random.fork_rng():
                first = nodes(copy)
                consensus(
                    net,
                    first.x,
                    first.edge_index,
                    first.batch,
                    category=first.category,
                    samples=1,
                    generator=copy,
                )
        self._multiply(net, math.log(self.factor(1)))

    def advance(self, net: nn.Module, step: int) -> None:
        """Before step 2, 3, ...: from the factor of the last step to that of this one."""
        self._multiply(net, math.log(self.factor(step)) - math.log(self.factor(step - 1)))

    @torch.no_grad()
    def _multiply(self, net: nn.Module, log_factor: float) -> None:
        for log_temperature in _log_temperatures(net):
            log_temperature += log_factor


def _log_temperatures(net: nn.Module) -> list[Tensor]:
    found: list[Tensor] = [m.log_temperature for m in net.modules() if isinstance(m, DiscreteDGM | ContinuousDGM)]
    if not found:
        raise InputError("the network has no graph module whose temperature could be annealed.")
    return found
