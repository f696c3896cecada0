"""What helps a learned graph: the recipe for documents with one part changed at a time.

Judged by the validation accuracy alone, on other splits than those of the tables of test accuracies: the recipe is
chosen here, so the nodes to test on are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from latentgraph.attended import Attended, SkipDiffusion
from latentgraph.baselines.gcn import GCN
from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.both_graphs import Mixture, Union
from latentgraph.curvature import LearnedCurvature
from latentgraph.degrees import RandomDegrees, Threshold
from latentgraph.diffusion import Graph
from latentgraph.experiments.citation import MOST_STEPS, QUICK_STEPS, population
from latentgraph.experiments.citation_methods import errors
from latentgraph.experiments.experiment import Cell, Experiment, gain, mean_and_deviation, paired
from latentgraph.experiments.random_splits import SPLITS as TESTED
from latentgraph.experiments.random_splits import citations
from latentgraph.experiments.recipe import Recipe
from latentgraph.experiments.results import Results
from latentgraph.free_embedding import FreeEmbedding
from latentgraph.geometry import Euclidean, PoincareBall, Product, Sphere
from latentgraph.pretraining import pretrain
from latentgraph.priors import Anneal, Connectivity, Degrees, Entropy, Smoothness, Sparsity
from latentgraph.stacks import Stack
from latentgraph.text_table import Table
from latentgraph.training import classification

KEY = ("data", "part", "split")
SPLITS = 5
DATA = ("Cora", "CiteSeer")
STEPS, PATIENCE = 240, 80
RECIPE, BESIDE = "the recipe", "GCN on the given graph"
PROTOCOL = (
    "random splits 10 to 14, the number is the seed of the split and of the method: 500 nodes to stop by, to choose "
    "weights and for the accuracy shown; 500 are left out, the rest is learned from. At most 240 steps. Consensus of 8"
)

Settings = dict[str, Any]  # attributes of `Recipe`, and `more` arguments of `training.fit`


class Changed(Recipe):
    """The recipe with other settings, and at most its 240 steps unless these say otherwise."""

    more: Settings

    def __init__(self, settings: Settings, seed: int, *, steps: int) -> None:
        super().__init__(seed, steps=min(STEPS, steps), patience=PATIENCE)
        vars(self).update({"more": {}, **settings})

    def training(self, population: Population) -> dict[str, Any]:
        return {**super().training(population), **self.more}


class WithBothGraphs(Changed):
    """Each layer of g works on the learned and on the given graph: `join` says how."""

    join: Callable[[nn.Module], nn.Module]

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        kind = SkipDiffusion if self.join is Union else Attended  # a union has no weights
        return self.join(kind(in_features, out_features, dropout=self.dropout))


class OnlyNeighbours(Attended):
    """Without the skip connection: a node's own features come in as one of k + 1."""

    def __init__(self, in_features: int, out_features: int, *, dropout: float = 0.0) -> None:
        super().__init__(in_features, out_features, dropout=dropout)
        del self.skip
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return self._diffused(x, graph) + self.bias


class WithoutSkip(Changed):
    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        return OnlyNeighbours(in_features, out_features, dropout=self.dropout)


class Scaled(nn.Module):
    """Into the ball, where there is room: rows of length around 1/2."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x / math.sqrt(x.shape[1])


class InBall(Changed):
    def embed(self, population: Population) -> nn.Module:
        return Stack(super().embed(population), Scaled())


class FromGivenGraph(Changed):
    """Every node has a place of its own, which begins where the given graph puts it."""

    def embed(self, population: Population) -> nn.Module:
        embed = FreeEmbedding.from_graph(population.edge_index, len(population.x), self.embedding_dim)
        with torch.no_grad():
            embed.weight.mul_(math.sqrt(self.embedding_dim))  # the recipe's scale
        return embed


class Pretrained(Changed):
    """f is trained before, without labels."""

    method: str

    def network(self, population: Population) -> nn.Module:
        net = super().network(population)
        pretrain(net, population.x, population.edge_index, method=self.method, steps=min(100, self.steps))
        return net


def _priors(*priors: Any) -> Settings:
    return {"more": {"priors": priors}}


Make = Callable[[int, int], NetworkMethod]  # (seed, most steps) -> method


def _make(settings: Callable[[], Settings], kind: type[Changed] = Changed) -> Make:
    """`settings` is called for each run: modules among them are learned."""
    return lambda seed, steps: kind(settings(), seed, steps=steps)


def _with(**settings: Any) -> Make:
    return _make(lambda: settings)


CURVED = Product([(Euclidean(), 4), (PoincareBall(), 4)])
PARTS: dict[str, dict[str, Make]] = {
    "": {RECIPE: _with()},
    "neighbours": {
        **{f"k = {k}": _with(k=k) for k in (5, 10, 40)},
        "3 to 20 neighbours, drawn": _make(lambda: {"degrees": RandomDegrees([0.0] * 3 + [1.0] * 18)}),
        "as many as beat a learned threshold": _make(lambda: {"degrees": Threshold()}),
    },
    "embedding": {
        **{f"d = {d}": _with(embedding_dim=d) for d in (2, 4, 16)},
        "sphere": _with(geometry=Sphere()),
        "hyperbolic": _make(lambda: {"geometry": PoincareBall(), "temperature": 40.0}, InBall),
        "product of flat and hyperbolic": _make(lambda: {"geometry": CURVED, "temperature": 40.0}, InBall),
        "the same, curvature learned": _make(
            lambda: {"geometry": LearnedCurvature(CURVED), "temperature": 40.0}, InBall
        ),
        "f does not see the given graph": _with(given_graph=False),
        "free places, from the given graph": _make(dict, FromGivenGraph),
    },
    "temperature": {
        "t = 1": _with(temperature=1.0),
        "t = 16": _with(temperature=16.0),
        "t learned": _with(learn_temperature=True),
        "from t = 0.4 to 4 in 100 steps": _with(more={"anneal": Anneal(0.1, 1.0, 100)}),
    },
    "priors": {
        "perplexity 40": _with(**_priors(Entropy(40.0, weight=0.1))),
        "no hubs": _with(**_priors(Degrees(weight=0.1))),
        "in one piece": _with(**_priors(Connectivity(weight=0.1))),
        "smooth outputs": _with(**_priors(Smoothness("out", weight=1.0))),
        "10 neighbours count": _with(**_priors(Sparsity(10.0, weight=0.1))),
    },
    "given graph": {
        "mixture with the given graph": _make(lambda: {"join": Mixture}, WithBothGraphs),
        "union with the given graph": _make(lambda: {"join": Union}, WithBothGraphs),
    },
    "network": {
        "no skip connections": _make(dict, WithoutSkip),
        "width 32": _with(hidden=32),
        "width 128": _with(hidden=128),
    },
    "pre-training": {
        name: _make(partial(dict, method=name), Pretrained) for name in ("links", "contrastive", "denoising")
    },
    "training": {
        "no auxiliary loss": _with(more={"auxiliary": None}),
        "auxiliary loss x 0.3": _with(more={"auxiliary_weight": 0.3}),
        "auxiliary loss x 3": _with(more={"auxiliary_weight": 3.0}),
        "4 graphs a step": _with(more={"samples": 4}),
        "dropout 0.3": _with(dropout=0.3),
        "dropout 0.7": _with(dropout=0.7),
        "weight decay 0.0001": _with(weight_decay=1e-4),
        "weight decay 0.002": _with(weight_decay=2e-3),
        "learning rate 0.005": _with(lr=5e-3),
        "up to 1,000 steps, patience 200": _with(steps=1000, patience=200),
        "1 graph to predict": _with(samples=1),
        "32 graphs to predict": _with(samples=32),
        "the best accuracy is kept, not likelihood": _with(more={"task": replace(classification(), score=errors)}),
    },
}
METHODS: dict[str, Make] = {
    BESIDE: lambda seed, steps: GCN(seed, steps=steps, patience=100),
    **{name: make for group in PARTS.values() for name, make in group.items()},
}


def cells(splits: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    """Split by split, so that an interrupted run has pairs."""
    return [
        {"data": data, "part": name, "split": TESTED + split}
        for data in (DATA[:1] if quick else DATA)
        for split in range(splits)
        for name in METHODS
    ]


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, float]:
    """The accuracy on the nodes to choose by; those to test on are not looked at."""
    documents = citations(cell["data"], cell["split"], data_root)
    seen = population(documents, rows_sum_to_one=True)
    method = METHODS[cell["part"]](cell["split"], QUICK_STEPS if quick else MOST_STEPS).fit(seen)
    right = method.predict(seen) == documents.y
    found = {"validation": float(right[documents.validation].double().mean())}
    return found | {"steps": len(method.history.rows)}


def tables(results: Results) -> list[Table]:
    """Group by group; the difference from the recipe, split by split."""
    names = [(group, name) for group, parts in PARTS.items() for name in parts] + [("beside", BESIDE)]
    rows = [[group, name, *(text for data in DATA for text in _shown(results, data, name))] for group, name in names]
    header = ["", "what is other", *(f"{data}{what}" for data in DATA for what in ("", ", minus the recipe"))]
    title = "validation accuracy in %, mean ± deviation; difference in points, mean ± standard error"
    return [Table(title, header, rows)]


def _shown(results: Results, data: str, name: str) -> tuple[str, str]:
    other, recipe = (results.by("split", "validation", data=data, part=part) for part in (name, RECIPE))
    pairs = paired(other, recipe)
    accuracy = mean_and_deviation([first for first, _ in pairs], SPLITS)
    return accuracy, "-" if name == RECIPE else gain(pairs, SPLITS)


EXPERIMENTS = {"citation-parts": Experiment("parts", KEY, SPLITS, cells, compute, tables, PROTOCOL)}
