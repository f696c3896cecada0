"""What is learned from targets: classes, or numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.loss import Reward, accuracy_reward, negative_loss_reward
from latentgraph.model import softmax


@dataclass(frozen=True)
class Task:
    """What is learned: the loss, the reward of a sampled graph, and what a consensus averages.

    Attributes
    ----------
    loss : (out, y) of the labelled nodes -> 0-d; with a third argument, (m,) weights of these nodes, the weighted mean
    reward : (out, y) -> (m,) for each node, larger is better
    link : output -> what is averaged over sampled graphs
    score : (averaged output, y) -> 0-d, smaller is better; decides when to stop
    """

    loss: Callable[..., Tensor]
    reward: Reward
    link: Callable[[Tensor], Tensor]
    score: Callable[[Tensor, Tensor], Tensor]


def mean_probability_nll(probability: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood of averaged class probabilities: -mean log (1/S) sum_s p_s(y)."""
    return F.nll_loss(probability.clamp_min(1e-12).log(), y)


def classification(reward: Reward = accuracy_reward, *, class_weight: Tensor | None = None) -> Task:
    """Cross-entropy, the paper's reward, and early stopping on the likelihood of the mean probability."""

    def loss(out: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        of_class = None if class_weight is None else class_weight.to(out)
        if weight is None:
            return F.cross_entropy(out, y, weight=of_class)
        return _weighted_mean(F.cross_entropy(out, y, weight=of_class, reduction="none"), weight)

    return Task(loss, reward, softmax, mean_probability_nll)


def regression(reward: Reward | None = None) -> Task:
    """Mean squared error for outputs (n, c) and targets (n,) or (n, c)."""

    def squared(out: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        if weight is None:
            return F.mse_loss(out, y.view_as(out))
        return _weighted_mean((out - y.view_as(out)).square().mean(1), weight)

    return Task(squared, reward or negative_loss_reward, nn.Identity(), squared)


def _weighted_mean(loss: Tensor, weight: Tensor) -> Tensor:
    return (loss * weight).sum() / weight.sum()
