"""Estimators of the gradient of a sampled graph: how f learns, although which edges are sampled has no gradient.

One idea in each file, all with the interface of `Gradient`. Give one to `DiscreteDGM(..., gradient=...)` or to
`training.fit(..., gradient=...)`; the estimators and the command line know them by name (`by_name`).
"""

from latentgraph.gradients.both import Both
from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.implicit import Implicit
from latentgraph.gradients.names import NAMES, by_name
from latentgraph.gradients.rewards import PlackettLuce, Reinforce
from latentgraph.gradients.softmax import Softmax
from latentgraph.gradients.straight_through import StraightThrough
from latentgraph.gradients.subsets import Subsets

__all__ = [
    "NAMES",
    "Both",
    "Gradient",
    "Implicit",
    "PlackettLuce",
    "Reinforce",
    "Softmax",
    "StraightThrough",
    "Subsets",
    "by_name",
]
