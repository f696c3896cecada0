"""A recipe for few labels without a graph, chosen by validation accuracy: features smoothed over alike rows.

With five labels a class there is too little to learn a graph from: moved on by the labels, f fits them and loses the
others. So f is the principal directions of the features and stays there; what is learned is the classifier on
features that were smoothed over sampled neighbours. `learned=True` is the attempt to learn f as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.diffusion import Graph
from latentgraph.dropout import Dropout
from latentgraph.errors import InputError
from latentgraph.experiments.citation_methods import directions, errors
from latentgraph.gather import weighted_sum_over_neighbors
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.sparse import LastSeen
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack
from latentgraph.training import classification

DIRECTIONS = 64  # principal directions, of features that are more than these
SCALE = 4.0  # length of a row of features
HIDDEN, DROPOUT = 64, 0.5


class Hops(nn.Module):
    r"""Smoothing on a sampled graph, several times: half a node's own, half the mean of its neighbours.

    .. math:: h_i \leftarrow \tfrac 1 2 h_i + \tfrac 1 2 \sum_{j \in \mathcal N_i} q_{ij} h_j

    with q = 1/k, or, if `by_probability`, softmax over the neighbours of log p, through which f learns.
    """

    def __init__(self, times: int, *, by_probability: bool = False) -> None:
        super().__init__()
        self.times, self.by_probability = times, by_probability

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if not isinstance(graph, LatentGraph) or graph.neighbors is None or graph.log_p is None:
            raise InputError("Hops smooths on a sampled graph; it got another one.")
        log_p = graph.log_p.view(graph.neighbors.shape)
        q = (log_p if self.by_probability else torch.zeros_like(log_p)).softmax(1).to(x.dtype)
        for _ in range(self.times):
            x = (x + weighted_sum_over_neighbors(graph.neighbors, q, x, graph.backwards)) / 2
        return x


class UnitRows(nn.Module):
    """Rows of length one: distances between them tell angles. See `directions` for rows of zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return directions(x)


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


class Smoothed(NetworkMethod):
    """f: principal directions, unit rows. g: a hidden layer, smoothed on the sampled graph, and a linear classifier.

    Parameters
    ----------
    k : sampled neighbours
    hops : how often features are smoothed
    temperature : t of log p = -t dist^2; with 40 hardly another than the nearest rows are sampled
    learned : whether the labels move f on from where it starts
    """

    lr = 3e-3

    def __init__(
        self,
        seed: int = 0,
        *,
        steps: int = 100,
        patience: int = 40,
        k: int = 40,
        hops: int = 6,
        temperature: float = 40.0,
        learned: bool = False,
    ) -> None:
        super().__init__(seed, steps=steps, patience=patience)
        self.k, self.hops, self.temperature, self.learned = k, hops, temperature, learned
        self._weighted = LastSeen[Tensor]()

    def graph(self, population: Population) -> Tensor | None:
        return None

    def features(self, population: Population) -> Tensor:
        return self._weighted.get(population.x, lambda: weighted(population.x))

    def network(self, population: Population) -> nn.Module:
        features, classes = population.x.shape[1], population.num_classes
        start = principal_directions(self.features(population))
        first = SparseLinear(features, len(start), bias=False)
        with torch.no_grad():
            first.weight.copy_(start)
        first.weight.requires_grad_(self.learned)
        k = min(self.k, len(population.x) - 1)
        dgm = DiscreteDGM(Stack(first, UnitRows()), k, temperature=self.temperature)
        dgm.log_temperature.requires_grad_(False)
        g = Stack(
            SparseLinear(features, HIDDEN, dropout=DROPOUT),
            Hops(self.hops, by_probability=self.learned),
            nn.ReLU(),
            Dropout(DROPOUT),
            nn.Linear(HIDDEN, classes),
        )
        return DGMNet([(dgm, g)])

    def training(self, population: Population) -> dict[str, Any]:
        """Stop by the accuracy: with so few labels the likelihood turns worse within ten steps."""
        return {"eval_samples": 4, "task": replace(classification(), score=errors)}
