"""Denoising on the learned graph: f learns to find neighbours that know what a row does not show."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.pretraining.embedding import Embedding
from latentgraph.pretraining.method import Method, Objective, check_count, check_share
from latentgraph.pretraining.rows import draw_hidden, draw_rows, hide, rows_of


def denoising_loss(graph: LatentGraph, x: Tensor, hidden: Tensor) -> Tensor:
    r"""Squared error of features that are guessed from the sampled neighbours, where they were hidden.

    .. math:: \operatorname{mean}_{(i, c) \text{ hidden}}
              \Big( x_{ic} - \sum_{j \in \mathcal N_i} q_{ij} x_{jc} \Big)^2, \qquad
              q_{ij} = \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}

    x (n, d) are the true features, also of the neighbours, and hidden (n, d) says what f did not see. The loss has no
    weights of its own: only a better graph makes it smaller. Which neighbours are sampled has no gradient, their
    weights q have.
    """
    assert graph.neighbors is not None
    assert graph.log_p is not None
    q = graph.log_p.view_as(graph.neighbors).softmax(1).to(x.dtype)
    guess = weighted_sum_over_neighbors(graph.neighbors, q, x, graph.backwards)
    return (x - guess).square().mul(hidden).sum() / hidden.sum().clamp_min(1)


@dataclass(frozen=True)
class Denoising(Method):
    """Hide features, sample a graph from the rest, and guess them from the neighbours; see `denoising_loss`.

    Parameters
    ----------
    share : of the features of each row that are hidden from f: other rows' values take their places, in sparse
        features zeros
    k : neighbours that are sampled for each row among those of the step
    batch_size : rows of a step
    """

    share: float = 0.3
    k: int = 10
    batch_size: int = 1024

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_count("k", self.k, 2)
        check_count("batch_size", self.batch_size, 3)

    def begin(
        self, embedding: Embedding, x: Tensor, edge_index: Tensor | None, generator: torch.Generator
    ) -> Objective:
        return _DenoisingLoss(self, embedding, x, edge_index)


class _DenoisingLoss(Objective):
    def __init__(self, options: Denoising, embedding: Embedding, x: Tensor, edge_index: Tensor | None) -> None:
        super().__init__()
        self.options, self.embedding, self.x, self.edge_index = options, embedding, x, edge_index
        k = min(options.k, min(options.batch_size, len(x)) - 1)
        # It samples among points that f has placed already. Its temperature is its own: that of the graph module is set
        # when f is trained.
        self.sampler = DiscreteDGM(nn.Identity(), k, geometry=embedding.geometry)

    def forward(self, generator: torch.Generator) -> Tensor:
        rows = draw_rows(len(self.x), self.options.batch_size, generator).to(self.x.device)
        whole = rows_of(self.x, rows)
        hidden = draw_hidden(len(rows), self.x, self.options.share, generator)
        changed = hide(whole, hidden, self.x, generator)
        x_hat = self.embedding.of_rows(changed, rows, self.x, self.edge_index)
        return denoising_loss(self.sampler(x_hat, generator=generator), whole.to_dense(), hidden)
