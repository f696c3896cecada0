"""Contrastive learning: f learns to recognise a row of which a part of the features was exchanged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.geometry import Geometry
from latentgraph.layers import ContinuousDGM
from latentgraph.pretraining.embedding import Embedding
from latentgraph.pretraining.method import Method, Objective, check_count, check_share
from latentgraph.pretraining.rows import draw_hidden, draw_rows, hide, rows_of


def info_nce(first: Tensor, second: Tensor, temperature: Tensor, geometry: Geometry) -> Tensor:
    r"""InfoNCE with the log p of a graph module: who among b rows is the other view of this one?

    .. math:: -\frac{1}{2} \operatorname{mean}_i \Big( \log \frac{p_{ii}}{\sum_j p_{ij}}
              + \log \frac{p_{ii}}{\sum_j p_{ji}} \Big), \qquad
              \log p_{ij} = -t \, \Delta(\hat x_i, \hat x'_j)^2

    first, second : (b, d_hat) the embeddings of two views of the same rows
    """
    log_p = -temperature * geometry.sq_cdist(first, second)
    own = torch.arange(len(first), device=first.device)
    return (F.cross_entropy(log_p, own) + F.cross_entropy(log_p.T, own)) / 2


@dataclass(frozen=True)
class Contrastive(Method):
    """Two views of each row, in each of which a random part of the features comes from other rows; see `info_nce`.

    Parameters
    ----------
    share : of the features that are exchanged in a view; of sparse features, entries are set to zero
    batch_size : rows of a step, which are told from each other
    """

    share: float = 0.3
    batch_size: int = 1024

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_count("batch_size", self.batch_size, 2)

    def begin(
        self, embedding: Embedding, x: Tensor, edge_index: Tensor | None, generator: torch.Generator
    ) -> Objective:
        return _ContrastiveLoss(self, embedding, x, edge_index)


class _ContrastiveLoss(Objective):
    def __init__(self, options: Contrastive, embedding: Embedding, x: Tensor, edge_index: Tensor | None) -> None:
        super().__init__()
        self.options, self.embedding, self.x, self.edge_index = options, embedding, x, edge_index
        # Its temperature starts from the embedding's own distances; the graph module sets its own later.
        self.scale = ContinuousDGM(nn.Identity(), geometry=embedding.geometry)

    def forward(self, generator: torch.Generator) -> Tensor:
        rows = draw_rows(len(self.x), self.options.batch_size, generator).to(self.x.device)
        first, second = self._view(rows, generator), self._view(rows, generator)
        return info_nce(first, second, self.scale(first).temperature, self.embedding.geometry)

    def _view(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        hidden = draw_hidden(len(rows), self.x, self.options.share, generator)
        changed = hide(rows_of(self.x, rows), hidden, self.x, generator)
        return self.embedding.of_rows(changed, rows, self.x, self.edge_index)
