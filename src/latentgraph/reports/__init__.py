"""What a learned graph says: does it join rows that belong together, who stands between classes, is it the same again?

All functions take a `LatentGraph`, or how often each edge was sampled, such as `graph_` of an estimator.
"""

from latentgraph.reports.classes import Bridge, Homophily, bridges, homophily
from latentgraph.reports.degrees import Degrees, degrees
from latentgraph.reports.numbers import Differences, differences
from latentgraph.reports.stability import Stability, stability

__all__ = [
    "Bridge",
    "Degrees",
    "Differences",
    "Homophily",
    "Stability",
    "bridges",
    "degrees",
    "differences",
    "homophily",
    "stability",
]
