"""How many neighbours count."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from latentgraph.graph import LatentGraph
from latentgraph.priors.law import Law, log_totals
from latentgraph.priors.prior import Prior, positive


@dataclass(eq=False)
class Sparsity(Prior):
    r"""The mean number of neighbours that count, as a share of all possible ones, or against a wanted number D.

    .. math:: L = \sum_i d_i \, / \, \sum_i m_i \qquad \text{or} \qquad L = (\log \bar d - \log D)^2

    A continuous graph joins all pairs, and :math:`d_i = \sum_{j \ne i} a_{ij}` of at most :math:`m_i = n - 1`. A
    discrete one has k edges a node, whatever is learned: what can be sparse are the weights of those that were sampled.

    .. math:: d_i = 1 \, / \sum_{j \in \mathcal N_i} v_{ij}^2, \qquad
              v_i = \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}

    from 1, where one neighbour has all the weight, to :math:`m_i = k`. This matters to convolutions that weigh the
    sampled edges by their probabilities (`Attended`, `gradients.Softmax`); elsewhere use `Entropy`.

    Parameters
    ----------
    degree : D; None: the fewer the better

    Examples
    --------
    >>> from latentgraph.layers import ContinuousDGM
    >>> x = torch.tensor([[0.0], [0.1], [9.0]])
    >>> graph = ContinuousDGM(torch.nn.Identity(), temperature=50.0, threshold=1.0)(x)
    >>> Sparsity()(graph, x, x)  # one of three pairs
    tensor(0.3333, grad_fn=<DivBackward0>)
    """

    degree: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "degree")

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        law = Law.of(graph)
        log_degree, possible = (log_totals(law), law.candidates) if graph.neighbors is None else _of_edges(graph)
        if self.degree is None:
            return log_degree.exp().sum() / possible.sum().clamp_min(1)
        some = (possible > 0).nonzero()[:, 0]
        if not len(some):
            return log_degree.new_zeros(())
        log_mean = log_degree.index_select(0, some).logsumexp(0) - math.log(len(some))
        return (log_mean - math.log(self.degree)).square()


def _of_edges(graph: LatentGraph) -> tuple[Tensor, Tensor]:
    """log d (n,) and m (n,) of the sampled edges of a discrete graph; those that fill up small graphs do not count."""
    assert graph.neighbors is not None
    assert graph.log_p is not None
    filled = ~graph.per_node(graph.not_filled, missing=False)
    nobody = filled.all(1, keepdim=True)
    log_v = graph.per_node(graph.log_p).masked_fill(filled & ~nobody, -torch.inf).log_softmax(1)
    log_d = -(2 * log_v).logsumexp(1)
    return log_d.masked_fill(nobody[:, 0], -torch.inf), (~filled).sum(1)
