"""The methods that are compared on whole graphs: with the given graph, with a learned one, with both, with neither.

All networks have three layers of 32 features, whose outputs are summed over the nodes of a graph, and the same
classifier on top; they differ in the graph on which they work. Batch normalisation instead of the standardised
embedding of `recipe.Recipe`: a graph must not be seen differently for the graphs that stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from latentgraph.attended import Attended
from latentgraph.baselines import simple
from latentgraph.baselines.method import Population
from latentgraph.diffusion import GCN
from latentgraph.experiments.citation_methods import errors
from latentgraph.graph import LatentGraph
from latentgraph.graph_sets import GraphSet, graph_batches
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import SampleMeanBaseline
from latentgraph.model import DGMNet, consensus
from latentgraph.pooling import PooledNet, pool
from latentgraph.stacks import Stack, gcn
from latentgraph.training import classification, fit

HIDDEN, LAYERS, EMBEDDING, K = 32, 3, 8, 5
TEMPERATURE = 4.0
BATCH = 64  # graphs of a step
PATIENCE = 300

# (graphs, in which those to be tested on have the class -1; (g,) bool: those to stop by; seed, steps) -> (g,) classes
Method = Callable[[GraphSet, Tensor, int, int], Tensor]


def statistics(graphs: GraphSet) -> Tensor:
    """(g, s) what is quickly counted: nodes of each tag and degree, their shares, the numbers of nodes and links."""
    assert graphs.edge_index is not None
    nodes = graphs.graph_of_node.bincount()
    links = graphs.graph_of_node.index_select(0, graphs.edge_index[1]).bincount(minlength=len(nodes)) / 2
    counts = pool(graphs.x, graphs.batch, "sum")
    return torch.cat([counts, counts / nodes[:, None], nodes[:, None], links[:, None]], dim=1)


def majority(graphs: GraphSet, stop: Tensor, seed: int, steps: int) -> Tensor:
    return graphs.y[graphs.y >= 0].mode().values.expand(len(graphs))


def on_statistics(
    make: Callable[[int], simple.Simple], graphs: GraphSet, stop: Tensor, seed: int, steps: int
) -> Tensor:
    """A classifier of scikit-learn on standardised counts; it learns from the graphs to stop by, too, in the end."""
    x = statistics(graphs)
    known = x[graphs.y >= 0]
    x = (x - known.mean(0)) / known.std(0).clamp_min(1e-6)
    people = Population(x, graphs.y, int(graphs.y.max()) + 1, stop)
    return make(seed).fit(people).predict(people)


def network(
    build: Callable[[int], tuple[nn.Module, int]],
    graphs: GraphSet,
    stop: Tensor,
    seed: int,
    steps: int,
    *,
    graph_loss: bool = False,
    auxiliary: bool = False,
) -> Tensor:
    """Train by mini-batches of graphs, keep the weights that do best on the graphs to stop by; consensus of 8.

    Best by accuracy: on ENZYMES the likelihood turns worse after a few dozen steps, long before the accuracy does.
    """
    classes = int(graphs.y.max()) + 1
    known = graphs.y >= 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        body, width = build(graphs.x.shape[1])
        net = PooledNet(body, classifier(width, classes), how="sum")
        head = nn.Linear(EMBEDDING, classes) if auxiliary else None
    fit(
        net,
        graph_batches(graphs.select((known & ~stop).nonzero()[:, 0]), BATCH),
        validation=graphs.select(stop.nonzero()[:, 0]),
        task=replace(classification(), score=errors),
        baseline=SampleMeanBaseline() if graph_loss else None,
        # The graph loss of a graph sums over its nodes: so weighted, a node counts as in a set of nodes.
        graph_weight=len(graphs) / len(graphs.x),
        samples=2 if graph_loss else 1,
        auxiliary=head,
        steps=steps,
        patience=PATIENCE,
        lr=1e-2,
        weight_decay=5e-4,
        eval_every=20,
        eval_samples=4,
        seed=seed,
    )
    generator = torch.Generator().manual_seed(seed)
    probability, _ = consensus(net, graphs.x, graphs.edge_index, graphs.batch, generator=generator)
    return probability.argmax(1)


def classifier(width: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm1d(width), nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, classes)
    )


def gin_layer(a: int, b: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Linear(b, b), nn.ReLU()))


def plain(layer: Callable[[int, int], nn.Module], features: int) -> tuple[nn.Module, int]:
    """Three layers on the given graph, or on none."""
    widths = [features, *[HIDDEN] * LAYERS]
    layers = [(None, _normalised(layer(a, b), b)) for a, b in pairwise(widths)]
    return DGMNet(layers, jump=True), HIDDEN * LAYERS


def learned(layer: Callable[[int, int], nn.Module], given_graph: bool, features: int) -> tuple[nn.Module, int]:
    """Three layers on a learned graph, which the given one informs through f, or does not."""
    f = (
        gcn([features, HIDDEN, EMBEDDING])
        if given_graph
        else Stack(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, EMBEDDING))
    )
    dgm = DiscreteDGM(Stack(f, nn.BatchNorm1d(EMBEDDING, affine=False)), K, temperature=TEMPERATURE, fill=True)
    dgm.log_temperature.requires_grad_(False)
    widths = [features, *[HIDDEN] * LAYERS]
    modules: list[nn.Module | None] = [dgm, *[None] * (LAYERS - 1)]
    layers = [(m, _normalised(layer(a, b), b)) for m, (a, b) in zip(modules, pairwise(widths), strict=True)]
    return DGMNet(layers, jump=True), HIDDEN * LAYERS


class Beside(nn.Module):
    """Networks side by side: their rows next to each other, all their graphs."""

    def __init__(self, *nets: nn.Module) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(
        self, x: Tensor, edge_index: Tensor | None, batch: Tensor | None, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, list[LatentGraph]]:
        results = [net(x, edge_index, batch, generator=generator) for net in self.nets]
        return torch.cat([out for out, _ in results], dim=1), [graph for _, graphs in results for graph in graphs]


def both(features: int) -> tuple[nn.Module, int]:
    """GIN on the given graph and weighted edges on the learned one."""
    (given, a), (other, b) = plain(gin_layer, features), learned(Attended, True, features)
    return Beside(given, other), a + b


def _normalised(layer: nn.Module, width: int) -> nn.Module:
    return Stack(layer, nn.BatchNorm1d(width), nn.ReLU())


METHODS: dict[str, Method] = {
    "majority class": majority,
    "logistic regression on counts": partial(
        on_statistics, lambda seed: simple.logistic_regression(strengths=simple.STRENGTHS)
    ),
    "random forest on counts": partial(on_statistics, simple.random_forest),
    "MLP, pooled": partial(network, partial(plain, nn.Linear)),
    "GCN": partial(network, partial(plain, GCN)),
    "GIN": partial(network, partial(plain, gin_layer)),
    "dDGM, graph loss": partial(network, partial(learned, GCN, True), graph_loss=True),
    "dDGM, weighted edges": partial(network, partial(learned, Attended, True), auxiliary=True),
    "dDGM, weighted edges, f without the given graph": partial(
        network, partial(learned, Attended, False), auxiliary=True
    ),
    "GIN beside dDGM": partial(network, both, auxiliary=True),
}
