"""Wishes about a learned graph, each as a number that is added to the loss of the task.

One idea in each file, all with the interface of `Prior`. Give some to `training.fit(..., priors=[...])`. `Anneal` is a
schedule of the temperature, `training.fit(..., anneal=...)`.
"""

from latentgraph.priors.anneal import Anneal
from latentgraph.priors.connectivity import Connectivity
from latentgraph.priors.degrees import Degrees, power_law
from latentgraph.priors.entropy import Entropy
from latentgraph.priors.prior import Prior
from latentgraph.priors.smoothness import Smoothness
from latentgraph.priors.sparsity import Sparsity
from latentgraph.priors.tree_like import TreeLike

__all__ = [
    "Anneal",
    "Connectivity",
    "Degrees",
    "Entropy",
    "Prior",
    "Smoothness",
    "Sparsity",
    "TreeLike",
    "power_law",
]
