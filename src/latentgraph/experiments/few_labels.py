"""The recipe that our validation chose for few labels without a graph: f starts where features are alike.

With five labels a class there is too little to learn a graph from nothing. So f begins as the principal directions of
the features, whose nearest rows are good neighbours already, and training moves it on from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.diffusion import Graph
from latentgraph.dropout import Dropout
from latentgraph.errors import InputError
from latentgraph.experiments.citation_methods import errors
from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.sparse import LastSeen
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack
from latentgraph.training import classification

DIRECTIONS = 64  # principal directions of features that are more than these
DROPOUT = 0.5
SCALE = 4.0


class Hops(nn.Module):
    r"""Smoothing on a sampled graph, several times: half a node's own, half the weighted mean of its neighbours.

    .. math:: h_i \leftarrow \tfrac 1 2 h_i + \tfrac 1 2 \sum_{j \in \mathcal N_i} q_{ij} h_j, \qquad
              q_{ij} = \operatorname{softmax}_{j \in \mathcal N_i} \log p_{ij}
    """

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if not isinstance(graph, LatentGraph) or graph.neighbors is None or graph.log_p is None:
            raise InputError("Hops smooths on a sampled graph; it got another one.")
        q = graph.log_p.view(graph.neighbors.shape).softmax(1)
        for _ in range(self.times):
            x = (x + weighted_sum_over_neighbors(graph.neighbors, q, x, graph.backwards)) / 2
        return x


class UnitRows(nn.Module):
    """Rows of length one: distances between them tell angles."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=1)


def weighted(x: Tensor) -> Tensor:
    """Rows of length `SCALE`; a feature that most rows lack counts by how rare it is, log(n / rows that have it).

    Sparse in, sparse out. Words of documents are weighted so; columns of a table, which few rows lack, are not.
    """
    dense = x.to_dense()
    present = (dense != 0).sum(0)
    if int(present.sum()) < dense.numel() / 2:
        dense = dense * (len(dense) / present.clamp_min(1)).log()
    rows = SCALE * F.normalize(dense, dim=1)
    return rows.to_sparse_csr() if x.layout is torch.sparse_csr else rows


def principal_directions(x: Tensor, most: int = DIRECTIONS) -> Tensor:
    """(m, d) directions in which the rows of features (n, d) are spread most; all d coordinates if they are few."""
    if x.shape[1] <= most:
        return torch.eye(x.shape[1])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.svd_lowrank(x.to_dense(), most, niter=4)[2].T


class Started(NetworkMethod):
    """f: principal directions, unit rows. g: features smoothed on the sampled graph, and a classifier.

    Parameters
    ----------
    k : sampled neighbours
    learned : whether training moves f on from where it starts
    """

    lr, hops, hidden, temperature = 1e-2, 3, 64, 40.0

    def __init__(
        self, seed: int = 0, *, steps: int = 200, patience: int = 60, k: int = 20, learned: bool = True
    ) -> None:
        super().__init__(seed, steps=steps, patience=patience)
        self.k, self.learned = k, learned
        self._weighted = LastSeen[Tensor]()

    def graph(self, population: Population) -> Tensor | None:
        return None

    def fit(self, population: Population) -> Self:
        return super().fit(self._prepared(population))

    def predict_proba(self, population: Population) -> Tensor:
        return super().predict_proba(self._prepared(population))

    def _prepared(self, population: Population) -> Population:
        return replace(population, x=self._weighted.get(population.x, lambda: weighted(population.x)))

    def network(self, population: Population) -> nn.Module:
        features, classes = population.x.shape[1], population.num_classes
        start = principal_directions(population.x)
        first = SparseLinear(features, len(start), bias=False)
        with torch.no_grad():
            first.weight.copy_(start)
        first.weight.requires_grad_(self.learned)
        dgm = DiscreteDGM(Stack(first, UnitRows()), min(self.k, len(population.x) - 1), temperature=self.temperature)
        dgm.log_temperature.requires_grad_(False)
        if self.hidden:
            g = Stack(
                SparseLinear(features, self.hidden, dropout=DROPOUT),
                Hops(self.hops),
                nn.ReLU(),
                Dropout(DROPOUT),
                nn.Linear(self.hidden, classes),
            )
        else:
            g = Stack(SparseLinear(features, classes, dropout=DROPOUT), Hops(self.hops))
        return DGMNet([(dgm, g)])

    def training(self, population: Population) -> dict[str, Any]:
        """Stop by the accuracy: with so few labels the likelihood turns worse within ten steps."""
        return {"eval_samples": 4, "task": replace(classification(), score=errors)}
