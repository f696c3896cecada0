"""The methods that are compared on documents: the paper's networks in all their variants, ours, and simple ones.

The paper's networks (`PaperDGM`, preset "paper") are built and trained as it says, where it says something: Adam with a
rate of 0.01, graph loss, moving average, consensus of 8. The others are trained with dropout, weight decay and early
stopping, as is usual (preset "best").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.baselines import simple
from latentgraph.baselines.dgcnn import DGCNN
from latentgraph.baselines.ensemble import Ensemble
from latentgraph.baselines.gcn import GAT, GCN, SkipGCN
from latentgraph.baselines.knn_gcn import KnnGCN
from latentgraph.baselines.method import Method, NetworkMethod, Population
from latentgraph.baselines.mlp import MLP
from latentgraph.experiments.dgm_method import DGM
from latentgraph.experiments.recipe import Recipe
from latentgraph.geometry import Euclidean, PoincareBall, Product, Sphere
from latentgraph.presets import citation_net, dgcnn
from latentgraph.sparse import LastSeen
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Builder, edge_conv, gat, gcn, identity, mlp
from latentgraph.training import classification, mean_probability_nll

TEMPERATURE = 4.0  # where t starts: the paper does not say. Calibrated to tiny initial distances it would be 10^4
BASE = "dDGM"  # k = 5, Euclidean, d = 4, one graph module, f = g = gcn
LONGER = "dDGM, 5 times the steps"
WITH_ITSELF = {k: f"dDGM, k={k}, itself among them" for k in (1, 3, 5)}  # as in the paper's Algorithm 1
OURS = "dDGM, best"
PLAIN_KNN = "kNN-GCN, plain distance"
SKIP = "GCN with skip"  # the control for OURS, which has skip connections, too
GEOMETRIES = {
    "hyperbolic": PoincareBall(),
    "sphere": Sphere(),
    "product": Product([(Euclidean(), 2), (PoincareBall(), 2)]),
    "product of spheres": Product([(Sphere(), 2), (Sphere(), 2)]),
}
BUILDERS: dict[str, Builder] = {"gcn": gcn, "gat": gat, "mlp": mlp, "id": identity, "edgeconv": edge_conv}

Make = Callable[[int, int], Method]  # (seed, steps at most) -> method


class PaperDGM(DGM):
    """The paper's network. No weight decay, of which the paper does not speak.

    The weights of the step with the best validation accuracy are kept. The likelihood, by which the other networks
    stop, is no guide here: without regularisation it turns worse long before the accuracy does.
    """

    weight_decay = 0.0
    eval_every = 25

    def training(self, population: Population) -> dict[str, Any]:
        return {**super().training(population), "task": replace(classification(), score=errors)}


def errors(probability: Tensor, y: Tensor) -> Tensor:
    """Share of wrong answers; of two networks with the same share, the one of the better likelihood is better."""
    return (probability.argmax(1) != y).float().mean() + 1e-4 * mean_probability_nll(probability, y)


class DocumentDGCNN(DGCNN):
    """Neighbours are found among 32 learned features: among thousands of words it would take hours."""

    def network(self, population: Population) -> nn.Module:
        net = dgcnn(32, population.num_classes)
        net.pre = nn.Sequential(SparseLinear(population.x.shape[1], 32), nn.ReLU())
        return net


class DocumentKnnGCN(KnnGCN):
    """The nearest rows, found once; by their angle where no entry is negative, as in counts of words."""

    by_angle = True
    _edges = LastSeen[Tensor | None]()  # of all seeds: a search among the words of PubMed takes a minute

    def graph(self, population: Population) -> Tensor | None:
        return self._edges.get(
            population.x, lambda: super(DocumentKnnGCN, self).graph(self._placed(population)), self.by_angle
        )

    def _placed(self, population: Population) -> Population:
        x = population.x.to_dense()
        return replace(population, x=directions(x)) if self.by_angle and not bool((x < 0).any()) else population


class PlainKnnGCN(DocumentKnnGCN):
    """The same by plain distance."""

    by_angle = False


def directions(x: Tensor) -> Tensor:
    """(n, d + 1) rows of length one, whose distances are in the order of their angles.

    A row of zeros, a document without words, points in a direction of its own. Left at the origin it would be nearer to
    most documents than any other one is: the fifteen of CiteSeer would be nearly everybody's neighbours.
    """
    empty = (x == 0).all(1, keepdim=True)
    return F.normalize(torch.cat([x, empty.to(x)], 1))


def _paper(times: int = 1, **variant: Any) -> Make:
    """The paper's network with `times` as many steps as the others get."""

    def make(seed: int, steps: int) -> Method:
        steps *= times
        build = partial(citation_net, temperature=TEMPERATURE, **variant)
        return PaperDGM(build, seed, steps=steps, patience=max(steps // 3, 100))

    return make


PAPER: dict[str, Make] = {
    BASE: _paper(),
    **{f"{BASE}, k={k}": _paper(k=k) for k in (1, 3, 10, 20)},
    **{name: _paper(k=k, loop=True) for k, name in WITH_ITSELF.items()},
    **{f"{BASE}, {name}": _paper(geometry=geometry) for name, geometry in GEOMETRIES.items()},
    **{f"{BASE}, d={d}": _paper(embed_dim=d) for d in (2, 6, 8)},
    **{f"{BASE}, {count} modules": _paper(dgm_layers=count) for count in (2, 3)},
    **{f"{BASE}, f={name}": _paper(f=BUILDERS[name]) for name in ("gat", "mlp", "id")},
    **{f"{BASE}, g={name}": _paper(g=BUILDERS[name]) for name in ("gat", "edgeconv")},
    **{f"no DGM, g={name}": _paper(dgm_layers=0, g=BUILDERS[name]) for name in ("gcn", "gat", "edgeconv")},
    LONGER: _paper(times=5),
}


def network(kind: type[NetworkMethod], most: int = 1000, patience: int = 100) -> Make:
    """At most 1,000 steps: hardly a network is still learning then."""
    return lambda seed, steps: kind(seed, steps=min(most, steps), patience=patience)


COMPARED: dict[str, Make] = {
    "ridge": lambda seed, steps: simple.linear_classifier(strengths=simple.STRENGTHS, refit=False),
    "logistic regression": lambda seed, steps: simple.logistic_regression(strengths=simple.STRENGTHS, refit=False),
    "MLP": network(MLP),
    "kNN-GCN": network(DocumentKnnGCN),
    "DGCNN": network(DocumentDGCNN, 100, 50),
    "GCN": network(GCN),
    SKIP: network(SkipGCN),
    "GAT": network(GAT),
    "GCN, 8 members": lambda seed, steps: Ensemble(lambda one: GCN(one, steps=min(1000, steps), patience=100), seed),
    OURS: network(Recipe, 240, 80),
}
# These learn too slowly, or nothing, from rows that sum to one: their rows sum to the mean number of words instead.
LARGER_FEATURES = (*PAPER, "DGCNN", "GAT", "kNN-GCN", PLAIN_KNN)
WITHOUT_CHANCE = ("ridge", "logistic regression")  # the same for every seed

METHODS: dict[str, Make] = {**PAPER, **COMPARED}
