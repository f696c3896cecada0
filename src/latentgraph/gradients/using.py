"""Which gradient a network uses."""

from __future__ import annotations

from torch import nn

from latentgraph.errors import InputError
from latentgraph.gradients.gradient import Gradient
from latentgraph.layers import DiscreteDGM


def use(net: nn.Module, gradient: Gradient) -> None:
    """Let all sampling graph modules of a network use this gradient from now on."""
    modules = _sampling(net)
    if not modules:
        raise InputError(f"{gradient!r} is for sampled graphs, but the network has no DiscreteDGM that samples one.")
    for module in modules:
        module.gradient = gradient


def gradient_of(net: nn.Module) -> Gradient | None:
    """The gradient of a network's graph modules; None if they have none."""
    found = {id(module.gradient): module.gradient for module in _sampling(net)}
    if len(found) > 1:
        raise InputError(
            f"the graph modules have different gradients: {', '.join(map(repr, found.values()))}. Give all of them the "
            "same, or pass gradient= to fit."
        )
    return next(iter(found.values()), None)


def _sampling(net: nn.Module) -> list[DiscreteDGM]:
    return [module for module in net.modules() if isinstance(module, DiscreteDGM) and module.noise]
