"""Graphs in which nodes have different numbers of neighbours: which of the k that arrived first does a node keep?

One idea in each file, all with the interface of `Degrees`. Give one to `DiscreteDGM(..., k=most, degrees=...)`.
"""

from latentgraph.degrees.degrees import Degrees
from latentgraph.degrees.imposed import GivenDegrees, RandomDegrees
from latentgraph.degrees.threshold import Threshold

__all__ = ["Degrees", "GivenDegrees", "RandomDegrees", "Threshold"]
