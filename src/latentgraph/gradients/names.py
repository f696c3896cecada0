"""Gradients by name, for the estimators and the command line."""

from __future__ import annotations

from latentgraph.errors import InputError
from latentgraph.gradients.both import Both
from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.implicit import Implicit
from latentgraph.gradients.rewards import PlackettLuce, Reinforce
from latentgraph.gradients.softmax import Softmax
from latentgraph.gradients.straight_through import StraightThrough
from latentgraph.gradients.subsets import Subsets
from latentgraph.loss import MovingAverageBaseline

NAMES = (
    "softmax",
    "straight_through",
    "implicit",
    "subsets",
    "reinforce",
    "plackett_luce",
    "softmax+reinforce",
    "softmax+plackett_luce",
)


def by_name(name: str, *, num_nodes: int, convolutions: int) -> Gradient:
    """A gradient with its usual settings.

    Parameters
    ----------
    name : one of `NAMES`
    num_nodes : of the population, for moving averages
    convolutions : on the sampled graph: so far does an edge matter
    """
    if name == "softmax":
        return Softmax()
    if name == "straight_through":
        return StraightThrough()
    if name == "implicit":
        return Implicit()
    if name == "subsets":
        return Subsets()
    if name == "reinforce":
        return Reinforce(MovingAverageBaseline(num_nodes))
    if name == "plackett_luce":
        return PlackettLuce(hops=convolutions - 1)
    if name == "softmax+reinforce":
        return Both(Softmax(), Reinforce(MovingAverageBaseline(num_nodes)))
    if name == "softmax+plackett_luce":
        return Both(Softmax(), PlackettLuce(hops=convolutions - 1))
    raise InputError(f"gradient={name!r} is not known; choose one of {', '.join(map(repr, NAMES))}.")
