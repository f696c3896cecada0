"""A graph to begin with: places of the nodes from which it is sampled nearly as it was, free to move."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.input_graph import InputGraph, as_edge_index

DENSE = 1000  # nodes up to which all eigenvectors are computed: faster than a search for some


class FreeEmbedding(nn.Module):
    r"""An f that does not look at features: each node's place is a parameter of its own, :math:`\hat x_i = w_i`.

    For a fixed set of nodes (transductive): there is no place for a new one. A node learns from its own edges and
    those to it, from nothing else: what is learned for one says nothing about another, as it does with a network f.

    Parameters
    ----------
    initial : (n, d_hat) where to begin

    Examples
    --------
    >>> import networkx as nx
    >>> from latentgraph.layers import DiscreteDGM
    >>> embed = FreeEmbedding.from_graph(nx.cycle_graph(30), num_nodes=30, dim=2)
    >>> graph = DiscreteDGM(embed, k=2, noise=False)(torch.randn(30, 5))  # the features play no part
    >>> graph.neighbors[10].sort().values
    tensor([ 9, 11])
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        if initial.ndim != 2 or not initial.is_floating_point():
            raise InputError(
                f"initial is a {initial.dtype} tensor of shape {tuple(initial.shape)}; it must be (n, d_hat)."
            )
        self.weight = nn.Parameter(initial.detach().clone())

    @classmethod
    def from_graph(cls, graph: InputGraph, num_nodes: int, dim: int) -> FreeEmbedding:
        """Begin near a graph between the nodes: an edge list, a scipy matrix or a networkx graph.

        The places are `spectral_embedding(graph, num_nodes, dim)`. The more dimensions, the more of its edges are
        among the most probable ones.
        """
        return cls(spectral_embedding(graph, num_nodes, dim))

    def forward(self, x: Tensor) -> Tensor:
        if len(x) != len(self.weight):
            raise InputError(
                f"there are places for {len(self.weight)} nodes, but {len(x)} rows came. A free embedding knows no new "
                "nodes: use a network for f, or all rows in every call."
            )
        return self.weight

    def extra_repr(self) -> str:
        return f"nodes={self.weight.shape[0]}, dim={self.weight.shape[1]}"


def spectral_embedding(graph: InputGraph, num_nodes: int, dim: int) -> Tensor:
    r"""Places of the nodes at which those joined by edges are near each other: (n, dim).

    With the normalised Laplacian :math:`I - D^{-1/2} A D^{-1/2}` of the graph without directions, its eigenvalues
    :math:`0 = \lambda_0 \le \lambda_1 \le \dots` and eigenvectors :math:`v_m`,

    .. math:: \hat x_{im} \propto \frac{v_m(i)}{\sqrt{d_i \lambda_m}}, \qquad m = 1, \dots, dim

    With all of them, squared distances would be commute times: how long a walker takes there and back. The mean of
    :math:`|\hat x_i|^2` is 1.
    """
    edges = as_edge_index(graph, num_nodes)
    if edges is None or not edges.shape[1]:
        raise InputError("there are no edges to begin with. Pass a graph with some, or start from a network f.")
    if not 1 <= dim < num_nodes:
        raise InputError(f"dim={dim}, but {num_nodes} nodes have between 1 and {num_nodes - 1} dimensions.")
    source, target = edges.numpy()
    other = source != target
    ones = np.ones(2 * int(other.sum()))
    ends = np.concatenate([source[other], target[other]]), np.concatenate([target[other], source[other]])
    adjacency = sp.csr_array((ones, ends), shape=(num_nodes, num_nodes))
    adjacency.data[:] = 1.0  # an edge that came twice, or both ways, counts once
    root = np.sqrt(np.maximum(adjacency.sum(1), 1.0))
    similar = sp.diags_array(1 / root) @ adjacency @ sp.diags_array(1 / root)  # I minus the Laplacian
    value, vector = _largest(similar, dim + 1)
    smoothness = np.maximum(1 - value[1:], 1e-3)  # zero in a graph of several parts, which are put apart
    places = vector[:, 1:] / root[:, None] / np.sqrt(smoothness)
    return torch.as_tensor(places / np.sqrt((places**2).sum(1).mean()), dtype=torch.get_default_dtype())


def _largest(matrix: sp.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a symmetric matrix, largest first, and their vectors as columns."""
    n = matrix.shape[0]
    if n <= DENSE or count >= n:
        value, vector = np.linalg.eigh(matrix.toarray())
    else:
        from scipy.sparse.linalg import eigsh

        value, vector = eigsh(matrix, count, which="LA", v0=np.linspace(1.0, 2.0, n))
    order = value.argsort()[::-1][:count]
    return value[order], vector[:, order]
