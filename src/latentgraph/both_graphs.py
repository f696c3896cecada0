"""Convolutions on the learned graph and the input graph: their union, or a mixture of both."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from latentgraph.diffusion import Graph
from latentgraph.errors import InputError
from latentgraph.graph import AnyGraph, LatentGraph, on_graph


class Mixture(nn.Module):
    r"""A convolution on the learned graph A and on the input graph B, mixed with a learned share:

    .. math:: z = a \, g(A, x) + (1 - a) \, g(B, x), \qquad a = \sigma(\text{logit}) \in (0, 1)

    For a graph convolution this is one on the mixed adjacency, :math:`(a \hat A + (1 - a) \hat B) X \Theta + b` with
    the normalised :math:`\hat A, \hat B`. Any g will do, on any kind of learned graph, with or without weights. In a
    `DGMNet` the input graph is the `edge_index` of the call.

    Parameters
    ----------
    learned : g, for the learned graph
    given : another g for the input graph; default the same, with the same weights
    share : initial a

    Examples
    --------
    >>> from latentgraph.diffusion import GCN
    >>> from latentgraph.layers import DiscreteDGM
    >>> from latentgraph.model import DGMNet
    >>> net = DGMNet([(DiscreteDGM(nn.Linear(4, 2), k=3), Mixture(GCN(4, 2)))])
    >>> out, graphs = net(torch.randn(10, 4), edge_index=torch.tensor([[0, 1], [1, 0]]))
    >>> net.diffusions[0].share.item()
    0.5
    """

    def __init__(self, learned: nn.Module, given: nn.Module | None = None, *, share: float = 0.5) -> None:
        super().__init__()
        if not 0 < share < 1:
            raise InputError(f"share={share} but the share of the learned graph must be between 0 and 1.")
        self.learned = learned
        self.given = given
        self.logit = nn.Parameter(torch.tensor(math.log(share / (1 - share))))

    @property
    def share(self) -> Tensor:
        """a, the share of the learned graph."""
        return self.logit.sigmoid()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        given = on_graph(self.learned if self.given is None else self.given, x, _given(graph, self))
        return torch.lerp(given, on_graph(self.learned, x, graph), self.share.to(given.dtype))


class Union(nn.Module):
    r"""A convolution on the edges of both graphs, :math:`\mathcal E_A \cup \mathcal E_B`; an edge of both counts once.

    The edges count the same, so a learned graph with weights (`latentgraph.gradients`) is refused: the gradient would
    not know the way. f learns by rewards here; with weights, use a `Mixture`.

    Parameters
    ----------
    convolution : any that takes an edge list, ours or PyG's, or a stack of them

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> from latentgraph.model import DGMNet
    >>> from latentgraph.stacks import gcn
    >>> net = DGMNet([(DiscreteDGM(nn.Linear(4, 2), k=3), Union(gcn([4, 8, 2])))])
    >>> out, graphs = net(torch.randn(10, 4), edge_index=torch.tensor([[0, 1], [1, 0]]))
    >>> out.shape
    torch.Size([10, 2])
    """

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return on_graph(self.convolution, x, self._joined(graph))

    def _joined(self, graph: Graph) -> Tensor:
        given = _given(graph, self)
        if not isinstance(given, Tensor):
            raise InputError("several processes share this graph; a union needs it in one. Use Mixture.")
        if isinstance(graph, Tensor):
            return given
        assert isinstance(graph, LatentGraph)
        if graph.edge_index is None or graph.weights is not None:
            kind = (
                "a continuous graph joins all pairs" if graph.edge_index is None else "the learned edges have weights"
            )
            raise InputError(f"{kind}, and edges of the input graph do not. Use Mixture, or a DiscreteDGM and rewards.")
        return union(graph.edge_index, given, graph.num_nodes)


def union(first: Tensor, second: Tensor, num_nodes: int) -> Tensor:
    """(2, a) and (2, b) edges -> those of either, each once, sorted by target.

    >>> union(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 2], [0, 0]]), num_nodes=3)
    tensor([[1, 2, 0],
            [0, 0, 1]])
    """
    source, target = torch.cat([first, second], dim=1)
    pairs = (target * num_nodes + source).unique()
    return torch.stack([pairs % num_nodes, pairs // num_nodes])


def _given(graph: Graph, module: nn.Module) -> AnyGraph:
    """The input graph, which `DGMNet` leaves with the learned one."""
    if not isinstance(graph, LatentGraph):
        return graph
    if graph.given is None:
        raise InputError(
            f"{type(module).__name__} works on the learned and on the input graph, but there is no input graph. "
            "Pass edge_index=... to the DGMNet."
        )
    return graph.given
