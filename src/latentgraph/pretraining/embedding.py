"""What is pre-trained: the way from features to the graph embedding."""

from __future__ import annotations

from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry
from latentgraph.graph import on_graph
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.pretraining.rows import with_rows
from latentgraph.stacks import Stack


class Embedding(nn.Module):
    """Features (n, d), an input graph or None -> x_hat (n, d_hat), points of the geometry."""

    def __init__(self, embed: nn.Module, geometry: Geometry) -> None:
        super().__init__()
        self.embed = embed
        self.geometry = geometry

    def forward(self, x: Tensor, edge_index: Tensor | None = None) -> Tensor:
        return self.geometry.project(on_graph(self.embed, x, edge_index))

    def of_rows(self, changed: Tensor, rows: Tensor, x: Tensor, edge_index: Tensor | None) -> Tensor:
        """x_hat (b, d_hat) of the rows (b,) of x, whose features are `changed` (b, d).

        Without a graph, f sees these rows alone. With one it sees all rows, the others as they are.
        """
        if edge_index is None:
            return self(changed)
        return self(with_rows(x, rows, changed), edge_index).index_select(0, rows)


def embedding_of(module: nn.Module, geometry: Geometry | None) -> Embedding:
    """The embedding of a graph module, of the first one of a network, or of a function f in a geometry."""
    if isinstance(module, DGMNet | DiscreteDGM | ContinuousDGM):
        if geometry is not None:
            raise InputError(
                f"geometry={geometry!r}, but a {type(module).__name__} has its own. Leave it out, or pass f alone."
            )
        found = _of_net(module) if isinstance(module, DGMNet) else _of_dgm(module)
    else:
        found = Embedding(module, geometry or Euclidean())
    if not any(p.requires_grad for p in found.parameters()):
        raise InputError(
            f"{type(found.embed).__name__} has no weights to train: pass an f that has some, such as an MLP."
        )
    return found


def _of_dgm(dgm: DiscreteDGM | ContinuousDGM) -> Embedding:
    return Embedding(dgm.embed, dgm.geometry.detached())  # a curvature that is learned waits for the task


def _of_net(net: DGMNet) -> Embedding:
    """What the first graph module does to the features; those of later ones see features that the task has shaped."""
    dgm = net.dgms[0]
    if not isinstance(dgm, DiscreteDGM | ContinuousDGM):
        raise InputError("the first layer of the network has no graph module, so it has no f to train.")
    return Embedding(Stack(net.pre, dgm.embed), dgm.geometry.detached())
