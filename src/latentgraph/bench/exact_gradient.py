"""A problem so small that the gradient of the expected loss can be computed by going through all graphs.

n = 5 nodes choose k = 2 neighbours each: 6^5 = 7,776 graphs. Two graph convolutions on fixed features predict a class
for each node; the loss is the mean cross-entropy. What is learned is the embedding x_hat, which says who is near whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, permutations, product

import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph import blocks
from latentgraph.geometry import Euclidean
from latentgraph.gradients import Both, Gradient, Softmax, Subsets
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline, SampleMeanBaseline
from latentgraph.stacks import gcn

CONVOLUTIONS = 2
SETTLE = 40  # steps after which a moving average has forgotten how it began


class Problem:
    """Random features (n, 3), classes (n,), an embedding (n, 2) and a network, all of double precision.

    Copies of the problem are graphs of one batch: as many independent gradients come from one pass.
    """

    def __init__(self, temperature: float, *, n: int = 5, k: int = 2, classes: int = 3, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.n, self.k = n, k
        self.temperature = torch.tensor(temperature, dtype=torch.float64)
        self.x = 2 * torch.randn(n, 3, generator=generator, dtype=torch.float64)
        self.y = torch.randint(classes, (n,), generator=generator)
        self.x_hat = torch.randn(n, 2, generator=generator, dtype=torch.float64)
        self.net = gcn([3, 8, classes]).double().requires_grad_(False)
        for weight in self.net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * (weight.shape[-1] ** -0.5) * 2)

    def losses(self, graph: LatentGraph) -> Tensor:
        """(copies, n) cross-entropy of each node."""
        copies = graph.num_nodes // self.n
        out = self.net(self.x.repeat(copies, 1), graph)
        return F.cross_entropy(out, self.y.repeat(copies), reduction="none").view(copies, self.n)

    def true_gradient(self, gradient: Gradient) -> Tensor:
        """(n, 2) gradient of the expected loss, under the law and with the weights that `gradient` has."""
        x_hat = self.x_hat.clone().requires_grad_()
        sets = torch.tensor(list(combinations(range(self.n - 1), self.k)))  # places among the others of a node
        log_p = -self.temperature * Euclidean().sq_cdist(x_hat, x_hat)
        others = torch.tensor([[j for j in range(self.n) if j != i] for i in range(self.n)])
        chance = _set_chances(log_p.gather(1, others).exp(), sets, ordered=not isinstance(gradient, Subsets))
        choice = torch.tensor(list(product(range(len(sets)), repeat=self.n)))  # (graphs, n)
        chance_of_graph = chance[torch.arange(self.n), choice].prod(1)
        neighbors = others[torch.arange(self.n)[:, None], sets[choice]]  # (graphs, n, k)
        first = torch.arange(len(choice))[:, None, None] * self.n
        expected = chance_of_graph @ self._on(neighbors, first, x_hat, gradient)
        (found,) = torch.autograd.grad(expected, x_hat)
        return found

    def _on(self, neighbors: Tensor, first: Tensor, x_hat: Tensor, gradient: Gradient) -> Tensor:
        """(graphs,) loss on given graphs. Weights other than 1 are part of it."""
        graphs = len(neighbors)
        log_p = -self.temperature * (x_hat[:, None] - x_hat[neighbors]).square().sum(-1)
        copies = x_hat.repeat(graphs, 1)
        graph = LatentGraph(
            copies, self.temperature, Euclidean(), neighbors=(neighbors + first).flatten(0, 1), log_p=log_p.flatten()
        )
        if isinstance(gradient, Softmax | Both):  # the others have weights of 1 in the forward pass
            graph = gradient.weigh(graph)
        return self.losses(graph).mean(1)

    def estimates(self, gradient: Gradient, samples: int, copies: int, generator: torch.Generator) -> Tensor:
        """(copies, n, 2): so many independent estimates, each the mean over `samples` sampled graphs."""
        batch = torch.arange(copies).repeat_interleave(self.n)
        x_hat = self.x_hat.repeat(copies, 1).requires_grad_()
        dgm = DiscreteDGM(torch.nn.Identity(), self.k, temperature=float(self.temperature), gradient=gradient)
        dgm.double().requires_grad_(False)
        with _small_blocks():
            if isinstance(gradient.baseline, MovingAverageBaseline):
                with torch.no_grad():
                    for _ in range(SETTLE):
                        gradient.baseline(-self.losses(dgm(x_hat, batch=batch, generator=generator)).flatten())
            graphs = [dgm(x_hat, batch=batch, generator=generator) for _ in range(samples)]
            losses = torch.stack([self.losses(graph).flatten() for graph in graphs])  # (samples, copies n)
            total = losses.sum() / (samples * self.n)
            if gradient.baseline is not None:
                learned = [
                    gradient.graph_loss([graph], delta)
                    for graph, delta in zip(graphs, _deltas(gradient.baseline, -losses.detach()), strict=True)
                ]
                total = total + torch.stack(learned).sum() / (samples * self.n)
            (found,) = torch.autograd.grad(total, x_hat)
        return found.view(copies, self.n, -1)


def _deltas(baseline: torch.nn.Module, reward: Tensor) -> Tensor:
    if isinstance(baseline, SampleMeanBaseline):
        return baseline(reward)
    return torch.stack([baseline(r) for r in reward])


@contextmanager
def _small_blocks() -> Iterator[None]:
    """Of 128 x 128 pairs: in a large one with many tiny graphs, nearly all pairs would be of different graphs."""
    before = blocks.BLOCK
    blocks.BLOCK = 1 << 14
    try:
        yield
    finally:
        blocks.BLOCK = before


def _set_chances(p: Tensor, sets: Tensor, *, ordered: bool) -> Tensor:
    """(n, sets) probability of each set of places, by rows of p (n, m): draw after draw, or in proportion to products.

    Draw after draw (Plackett-Luce) a set comes in any order.
    """
    if not ordered:
        product_of = p[:, sets].prod(2)
        return product_of / product_of.sum(1, keepdim=True)
    total = torch.zeros(len(p), len(sets), dtype=p.dtype)
    for order in permutations(range(sets.shape[1])):
        left, chance = p.sum(1, keepdim=True), torch.ones_like(total)
        for place in order:
            chosen = p[:, sets[:, place]]
            chance = chance * chosen / left
            left = left - chosen
        total = total + chance
    return total
