"""latentgraph: learn the graph between samples end to end with the task that uses it."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    "Euclidean": "geometry",
    "PoincareBall": "geometry",
    "Sphere": "geometry",
    "Product": "geometry",
    "gumbel_top_k": "sampling",
    "nearest": "sampling",
    "LatentGraph": "graph",
    "edge_frequencies": "graph",
    "edge_homophily": "graph",
    "DiscreteDGM": "layers",
    "ContinuousDGM": "layers",
    "graph_loss": "loss",
    "MovingAverageBaseline": "loss",
    "SampleMeanBaseline": "loss",
    "DGMNet": "model",
    "consensus": "model",
    "DGMClassifier": "estimators",
    "DGMRegressor": "estimators",
    "InputError": "errors",
}

__all__ = sorted(_HOME)  # type checkers read the imports below

if TYPE_CHECKING:
    from latentgraph.errors import InputError as InputError
    from latentgraph.estimators import DGMClassifier as DGMClassifier
    from latentgraph.estimators import DGMRegressor as DGMRegressor
    from latentgraph.geometry import Euclidean as Euclidean
    from latentgraph.geometry import PoincareBall as PoincareBall
    from latentgraph.geometry import Product as Product
    from latentgraph.geometry import Sphere as Sphere
    from latentgraph.graph import LatentGraph as LatentGraph
    from latentgraph.graph import edge_frequencies as edge_frequencies
    from latentgraph.graph import edge_homophily as edge_homophily
    from latentgraph.layers import ContinuousDGM as ContinuousDGM
    from latentgraph.layers import DiscreteDGM as DiscreteDGM
    from latentgraph.loss import MovingAverageBaseline as MovingAverageBaseline
    from latentgraph.loss import SampleMeanBaseline as SampleMeanBaseline
    from latentgraph.loss import graph_loss as graph_loss
    from latentgraph.model import DGMNet as DGMNet
    from latentgraph.model import consensus as consensus
    from latentgraph.sampling import gumbel_top_k as gumbel_top_k
    from latentgraph.sampling import nearest as nearest


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: torch takes seconds, `latentgraph --help` must not wait for it."""
    if name not in _HOME:
        raise AttributeError(f"module 'latentgraph' has no attribute {name!r}")
    return getattr(import_module(f"latentgraph.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
