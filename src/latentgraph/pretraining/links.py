"""Link prediction: f learns to place nodes such that the input graph can be read from their distances."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.layers import ContinuousDGM
from latentgraph.pretraining.embedding import Embedding
from latentgraph.pretraining.method import Method, Objective, check_count, check_share
from latentgraph.pretraining.pairs import codes_of, draw_non_edges, edge_codes, pairs_of
from latentgraph.probability import edge_log_p


def link_loss(
    x_hat: Tensor, edges: Tensor, others: Tensor, temperature: Tensor, threshold: Tensor, geometry: Geometry
) -> Tensor:
    r"""Logistic loss of telling edges from other pairs by a = sigmoid(t (T - dist^2)), as in a continuous graph.

    .. math:: -\frac{1}{2} \operatorname{mean}_{ij \in E} \log a_{ij}
              - \frac{1}{2} \operatorname{mean}_{ij \notin E} \log (1 - a_{ij})

    edges (2, m) and others (2, l) are pairs of rows of x_hat (n, d_hat).
    """
    near = temperature * threshold + edge_log_p(x_hat, edges, temperature, geometry)
    far = temperature * threshold + edge_log_p(x_hat, others, temperature, geometry)
    return -(F.logsigmoid(near).mean() + F.logsigmoid(-far).mean()) / 2


def area_under_curve(positive: Tensor, negative: Tensor) -> float:
    """The share of pairs of a positive and a negative in which the positive is larger; ties count half.

    >>> area_under_curve(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 1.0]))
    0.875
    """
    ordered = negative.sort().values
    below, not_above = (torch.searchsorted(ordered, positive, right=right) for right in (False, True))
    return float((below + not_above).double().mean() / (2 * len(negative)))


@dataclass(frozen=True)
class Links(Method):
    """Link prediction on an input graph, whichever way its edges point.

    In each step a part of the edges is asked for, beside as many pairs without an edge. f does not see the edges that
    are asked for: one that works on the graph would only have to repeat them. All rows are embedded in every step.

    Parameters
    ----------
    held_out : share of the edges that are never learned from. How well they are told from other pairs decides when to
        stop and which weights to keep: "auc" in the history, and 1 - auc under "validation". 0: none
    asked : share of the other edges that a step asks for
    batch_size : edges of a step at most
    """

    held_out: float = 0.1
    asked: float = 0.2
    batch_size: int = 65536

    def __post_init__(self) -> None:
        check_share("held_out", self.held_out, zero=True)
        check_share("asked", self.asked)
        check_count("batch_size", self.batch_size, 1)

    def begin(
        self, embedding: Embedding, x: Tensor, edge_index: Tensor | None, generator: torch.Generator
    ) -> Objective:
        if edge_index is None:
            raise InputError(
                "pre-training by links needs an input graph, but there is none. Pass edge_index=..., or use "
                "'contrastive' or 'denoising'."
            )
        return _LinkLoss(self, embedding, x, edge_index, generator)


class _LinkLoss(Objective):
    def __init__(
        self, options: Links, embedding: Embedding, x: Tensor, edge_index: Tensor, generator: torch.Generator
    ) -> None:
        super().__init__()
        n = len(x)
        self.edges = edge_codes(edge_index, n)
        order = torch.randperm(len(self.edges), generator=generator).to(x.device)
        held = round(options.held_out * len(self.edges))
        if options.held_out:
            held = max(held, 1)
        if len(self.edges) - held < 1:
            raise InputError(
                f"the input graph joins {len(self.edges)} pairs of different nodes, of which {held} would be held "
                "out: too few to learn from. Use 'contrastive' or 'denoising'."
            )
        self.held = pairs_of(self.edges[order[:held]], n)
        self.learned = self.edges[order[held:]]
        self.far = pairs_of(draw_non_edges(self.edges, n, max(held, 1), generator), n)
        codes = codes_of(edge_index, n)
        kept = ~torch.isin(codes, self.edges[order[:held]])
        self.seen, self.seen_codes = edge_index[:, kept], codes[kept]
        self.count = min(options.batch_size, max(1, round(options.asked * len(self.learned))))
        self.x, self.embedding = x, embedding
        # t and T start from the embedding's own distances; the graph module sets its own later.
        self.scale = ContinuousDGM(nn.Identity(), geometry=embedding.geometry)

    def forward(self, generator: torch.Generator) -> Tensor:
        n = len(self.x)
        chosen = torch.randperm(len(self.learned), generator=generator)[: self.count]
        asked = self.learned[chosen.to(self.x.device)]
        others = draw_non_edges(self.edges, n, len(asked), generator)
        x_hat = self.embedding(self.x, self.seen[:, ~torch.isin(self.seen_codes, asked)])
        graph = self.scale(x_hat)
        t, threshold, geometry = graph.temperature, graph.threshold, graph.geometry
        assert threshold is not None
        return link_loss(x_hat, pairs_of(asked, n), pairs_of(others, n), t, threshold, geometry)

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        if not self.held.shape[1]:
            return {}
        x_hat = self.embedding(self.x, self.seen)
        one = x_hat.new_ones(())
        near, far = (edge_log_p(x_hat, pairs, one, self.embedding.geometry) for pairs in (self.held, self.far))
        auc = area_under_curve(near, far)
        return {"validation": 1 - auc, "auc": auc}
