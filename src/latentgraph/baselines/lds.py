r"""LDS (Franceschi et al. 2019): a probability for every edge, learned by the validation loss of a trained network.

Two problems, one in the other: the weights w of a graph convolutional network minimise the training loss on graphs
sampled by the edge probabilities theta, and theta minimises the validation loss of these weights,

.. math:: \min_{\theta \in [0, 1]^{n \times n}} E_{A \sim \text{Ber}(\theta)} F(w_\theta, A) \quad\text{with}\quad
          w_\theta = \arg\min_w E_{A \sim \text{Ber}(\theta)} L(w, A).

The gradient of F goes through the last tau steps of training, not only through A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from latentgraph.baselines.method import Method, Population
from latentgraph.errors import InputError
from latentgraph.sampling import nearest
from latentgraph.training import mean_probability_nll

Weights = Mapping[str, Tensor]
SMALL = 1e-8  # Adam's, under the root
Loss = Callable[[Weights, Tensor], Tensor]  # of weights and a graph (n, n)


class LDS(Method):
    """Edge probabilities for all pairs, from the 10 nearest rows, and two graph convolutions with 16 hidden features.

    The rows to stop by have two halves, as published: one is the outer problem, the other decides when to stop. If
    there are none, a third of the rows to learn from takes their place. Memory is O(n^2).

    Parameters
    ----------
    seed : of the weights, of dropout, of the halves and of sampled graphs
    steps, patience : at most so many outer steps, each of `tau` steps of training and one of theta; stop after so many
        without a better score
    """

    inductive = False
    hidden, dropout, k, tau, samples = 16, 0.5, 10, 5, 16
    lr, weight_decay = 3e-2, 5e-4
    outer_lr = 0.1
    restart_after = 20  # outer steps without a lower training loss: the network starts again on the theta of then
    eval_every = 5

    def __init__(self, seed: int = 0, *, steps: int = 400, patience: int = 150) -> None:
        self.seed, self.steps, self.patience = seed, steps, patience

    def fit(self, population: Population) -> Self:
        with torch.random.fork_rng():
            search = self.start(population)
            best, best_step = float("inf"), 0
            for step in range(1, self.steps + 1):
                search.step()
                if step % self.eval_every and step < self.steps:
                    continue
                score = search.score()
                if score < best:
                    best, best_step = score, step
                    self.theta, self.weights = search.theta, search.trained.weights
                if step - best_step >= self.patience:
                    break
        self.net, self.x = search.net, search.x
        return self

    def predict(self, population: Population) -> Tensor:
        x = population.x.to_dense()
        if not torch.equal(x, self.x):
            raise InputError(
                f"LDS was fitted on {len(self.x)} rows and has a probability for each pair of these; it cannot predict "
                f"another population (here {len(x)} rows). Fit it on the population to be predicted, with the class -1 "
                "for the rows to be tested on, or take a method that is inductive."
            )
        return mean_probability(self.net, self.weights, x, self.theta, self.samples, self.seed).argmax(1)

    def start(self, population: Population) -> Search:
        """The state before the first outer step; each `step()` of it is one, for who wants to watch or to time it.

        Seeds the global random state, of which dropout and the weights are made.
        """
        torch.manual_seed(self.seed)
        return Search(self, population)


class Search:
    """Theta and weights on their way."""

    def __init__(self, options: LDS, population: Population) -> None:
        self.options = options
        self.x = population.x.to_dense()
        self.generator = torch.Generator().manual_seed(options.seed)
        self.parts = split(population, self.generator)
        self.y = population.y
        self.net = DenseGCN(self.x.shape[1], options.hidden, population.num_classes, options.dropout)
        self.theta = nearest_graph(self.x, options.k)
        self.restart()

    def restart(self) -> None:
        for layer in (self.net.first, self.net.second):
            layer.reset_parameters()
        self.trained = Trained.new({name: value.detach().clone() for name, value in self.net.named_parameters()})
        self.lowest, self.since = float("inf"), 0

    def step(self) -> None:
        """One outer step: tau steps of training, then one of theta against the hyper-gradient."""
        options = self.options
        self.net.train()
        found = hypergradient(
            self.theta,
            self.trained,
            inner=self._loss_on(self.parts.learn, options.weight_decay),
            outer=self._loss_on(self.parts.outer),
            draw=lambda theta: sample_graph(theta, self.generator),
            tau=options.tau,
            lr=options.lr,
        )
        self.trained = found.trained
        self.theta = (self.theta - options.outer_lr * found.gradient).clamp(0, 1)
        self.since = 0 if found.inner < self.lowest else self.since + 1
        self.lowest = min(self.lowest, found.inner)
        if self.since >= options.restart_after:
            self.restart()

    def score(self) -> float:
        """Negative log-likelihood of the rows that decide when to stop."""
        options, rows = self.options, self.parts.watched
        mean = mean_probability(self.net, self.trained.weights, self.x, self.theta, options.samples, options.seed)
        return float(mean_probability_nll(mean[rows], self.y[rows]))

    def _loss_on(self, rows: Tensor, decay: float = 0.0) -> Loss:
        def loss(weights: Weights, graph: Tensor) -> Tensor:
            out = functional_call(self.net, dict(weights), (self.x, graph))
            value = F.cross_entropy(out[rows], self.y[rows])
            return value + decay / 2 * sum(weight.square().sum() for weight in weights.values()) if decay else value

        return loss


class DenseGCN(nn.Module):
    """Two graph convolutions on a dense graph (n, n), whose entries may have gradients."""

    def __init__(self, inputs: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, hidden), nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        scale = (1 + graph.sum(1)).rsqrt()[:, None]

        def spread(h: Tensor) -> Tensor:  # D^-1/2 (A + I) D^-1/2 h, without another (n, n) matrix
            return scale * (graph @ (scale * h) + scale * h)

        x = spread(self.first(self.dropout(x))).relu()
        return spread(self.second(self.dropout(x)))


@dataclass(frozen=True)
class Trained:
    """Weights, and what Adam remembers of them: the running means of their slopes and squared slopes, and how many."""

    weights: Weights
    mean: Weights
    square: Weights
    count: int = 0

    @classmethod
    def new(cls, weights: Weights) -> Self:
        zeros = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        return cls(weights, zeros, zeros)

    def after(self, slopes: Weights, lr: float) -> Trained:
        """One step of Adam that can be differentiated: never zero under the root, where its slope is infinite."""
        count = self.count + 1
        mean = {name: 0.9 * self.mean[name] + 0.1 * slope for name, slope in slopes.items()}
        square = {name: 0.999 * self.square[name] + 0.001 * slope.square() for name, slope in slopes.items()}
        fair, fair_square = 1 - 0.9**count, 1 - 0.999**count  # the means began with zeros
        weights = {
            name: weight - lr * (mean[name] / fair) / (square[name] / fair_square + SMALL).sqrt()
            for name, weight in self.weights.items()
        }
        return Trained(weights, mean, square, count)

    def cut(self) -> Trained:
        """The same numbers, which do not know where they come from: a place to begin to differentiate."""
        weights = {name: weight.detach().requires_grad_() for name, weight in self.weights.items()}
        mean = {name: value.detach() for name, value in self.mean.items()}
        square = {name: value.detach() for name, value in self.square.items()}
        return Trained(weights, mean, square, self.count)


@dataclass(frozen=True)
class Found:
    """The hyper-gradient (n, n), the network after tau steps, and the training loss before the first of them."""

    gradient: Tensor
    trained: Trained
    inner: float


def hypergradient(
    theta: Tensor, trained: Trained, *, inner: Loss, outer: Loss, draw: Callable[[Tensor], Tensor], tau: int, lr: float
) -> Found:
    """Train for tau steps of Adam, each on a new graph, and differentiate the outer loss through them all.

    `draw` makes a graph from theta. Theta is symmetric: an entry's derivative is that of both entries of its pair.
    """
    theta = theta.detach().requires_grad_()
    trained = trained.cut()
    losses = []
    for _ in range(tau):
        loss = inner(trained.weights, draw(theta))
        losses.append(float(loss.detach()))
        slopes = torch.autograd.grad(loss, tuple(trained.weights.values()), create_graph=True)
        trained = trained.after(dict(zip(trained.weights, slopes, strict=True)), lr)
    (gradient,) = torch.autograd.grad(outer(trained.weights, draw(theta)), theta)
    return Found((gradient + gradient.T).fill_diagonal_(0), trained.cut(), losses[0])


def sample_graph(theta: Tensor, generator: torch.Generator) -> Tensor:
    """A symmetric graph (n, n) of zeros and ones, each pair joined with its probability.

    Its derivative with respect to theta is taken to be one (straight-through), so that pairs which were not drawn learn
    as well.
    """
    noise = torch.rand(theta.shape, generator=generator, dtype=theta.dtype)
    upper = (noise < theta.detach()).to(theta.dtype).triu(1)
    return upper + upper.T + (theta - theta.detach())


def nearest_graph(x: Tensor, k: int) -> Tensor:
    """(n, n) ones for pairs of which one is among the k nearest rows of the other, zeros elsewhere."""
    chosen = nearest(x, min(k, len(x) - 1))
    graph = x.new_zeros(len(x), len(x)).scatter(1, chosen, 1.0)
    return torch.maximum(graph, graph.T)


@torch.no_grad()
def mean_probability(net: nn.Module, weights: Weights, x: Tensor, theta: Tensor, samples: int, seed: int) -> Tensor:
    """(n, c) class probabilities, averaged over sampled graphs: the same ones for the same theta and seed."""
    net.eval()
    generator = torch.Generator().manual_seed(seed)
    graphs = (sample_graph(theta, generator) for _ in range(samples))
    outs = [functional_call(net, dict(weights), (x, graph)).softmax(1) for graph in graphs]
    return torch.stack(outs).mean(0)


class Parts(NamedTuple):
    """Row numbers: to train on, of the outer problem, to stop by."""

    learn: Tensor
    outer: Tensor
    watched: Tensor


def split(population: Population, generator: torch.Generator) -> Parts:
    """The rows with a known class in three parts, classes in proportion."""
    learn = population.learn.nonzero()[:, 0]
    stop = (population.known & ~population.learn).nonzero()[:, 0]
    if not len(stop):
        learn = _by_class(learn, population.y, generator)
        stop, learn = learn[::3], torch.cat([learn[1::3], learn[2::3]])
    stop = _by_class(stop, population.y, generator)
    return Parts(learn, stop[::2], stop[1::2] if len(stop) > 1 else stop)


def _by_class(rows: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
    """Rows in random order within their class, class by class: every k-th of them is a stratified sample."""
    rows = rows[torch.randperm(len(rows), generator=generator)]
    return rows[y[rows].argsort(stable=True)]
