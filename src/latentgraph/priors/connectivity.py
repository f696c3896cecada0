"""A graph should not fall apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from latentgraph.graph import LatentGraph
from latentgraph.priors.law import Law, log_share
from latentgraph.priors.prior import Prior, positive


@dataclass(eq=False)
class Connectivity(Prior):
    r"""The links that hold a graph together: those of its heaviest spanning tree.

    .. math:: L = \frac{1}{n - 1} \sum_{\{i, j\} \in \mathcal T} \max(0, \log c - \log b_{ij}), \qquad
              \mathcal T = \operatorname*{arg\,max}_{\text{spanning trees}} \sum_{\{i, j\} \in \mathcal T} \log b_{ij}

    with :math:`b_{ij} = k (P_{ij} + P_{ji})`, the number of edges that are expected between i and j (drawn with
    replacement), and in a continuous graph :math:`b_{ij} = a_{ij}`. Whatever two parts the nodes are cut into, the
    heaviest link between them is in the tree: if no link of the tree costs anything, no cut is without a link of weight
    c.

    By the matrix-tree theorem the determinant of the Laplacian sums :math:`\prod b_{ij}` over all spanning trees; this
    is its largest term. Both the determinant and the smallest eigenvalues lose a graph that has fallen apart:
    :math:`b = e^{-40}` between two parts is less than the rounding of one. The logarithm of one link is not.

    Parameters
    ----------
    enough : c, the weight from which on a link costs nothing. Weights of a continuous graph are below 1: there, by
        default, all links of the tree count
    nodes : so many random nodes in every step, as a population of their own, whose number n above stands for. All
        their pairs are in memory

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> x = torch.tensor([[0.0], [1.0], [20.0], [21.0]])
    >>> graph = DiscreteDGM(torch.nn.Identity(), k=1, temperature=1.0)(x)
    >>> Connectivity()(graph, x, x)  # one link of three: (19^2 - 1^2 - log 2) / 3
    tensor(119.7690, grad_fn=<MeanBackward0>)
    """

    enough: float = 1.0
    nodes: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "enough", "nodes")

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        links = tree_links(Law.of(graph).part(self.nodes, generator))
        if not len(links):
            return links.new_zeros(())
        return (math.log(self.enough) - links).relu().mean()


def tree_links(law: Law) -> Tensor:
    """(links,) log b of the heaviest spanning tree; of a batch, of the tree of each graph."""
    log_w, gone = law.log_w()
    one_way = log_share(log_w, gone) if law.threshold is None else log_w
    forth, back = one_way.flatten(), one_way.T.flatten()
    with torch.no_grad():
        both = (torch.logaddexp(one_way, one_way.T) if law.threshold is None else one_way).masked_fill(gone, -torch.inf)
        place = _heaviest_tree(both)
    forth, back = forth.index_select(0, place), back.index_select(0, place)
    return torch.logaddexp(forth, back) + math.log(law.k) if law.threshold is None else forth


def _heaviest_tree(log_b: Tensor) -> Tensor:
    """(links,) places i n + j of the links in the flat, symmetric matrix (n, n); -inf where there is none."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    i, j = np.triu_indices(len(log_b), 1)
    value = log_b.double().cpu().numpy()[i, j]
    there = value > -np.inf
    i, j, value = i[there], j[there], value[there]
    # scipy takes a cost of zero for no link, so the smallest becomes one.
    cost = value.max(initial=-np.inf) - value + 1
    tree = minimum_spanning_tree(csr_array((cost, (i, j)), shape=log_b.shape)).tocoo()
    return torch.as_tensor(tree.row.astype(np.int64) * len(log_b) + tree.col, device=log_b.device)
