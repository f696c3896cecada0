"""The estimators' network: a graph that starts as the table's own, and a prediction that starts as others' opinions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from latentgraph.attended import Attended, SkipDiffusion
from latentgraph.geometry import Geometry
from latentgraph.gradients import Gradient, Softmax
from latentgraph.graph import LatentGraph, on_graph
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.stacks import Stack, gcn, mlp

INPUTS = 32  # a layer with more takes smaller steps
CONVOLUTIONS = 2  # on the sampled graph
SMALL = 0.1  # what is learned on top of a start begins with so much of its usual size


class FromPrincipal(nn.Module):
    """f(x) = P x + c(x), where P begins as the first principal components of the rows and c, a network, small.

    A network with random weights mixes rows up, and few labels do not tell them apart again. The table itself knows
    which rows are alike: learning starts from there.
    """

    def __init__(self, correction: Stack, features: int, embedding_dim: int) -> None:
        super().__init__()
        self.correction = correction
        self.principal = nn.Linear(features, embedding_dim)

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Set P such that P x has mean zero and, summed over its components, the variance embedding_dim."""
        dim = self.principal.out_features
        mean = x.mean(0)
        axes = torch.svd_lowrank(x - mean, q=min(dim, *x.shape), niter=4)[2].T
        spread = float(((x - mean) @ axes.T).square().sum(1).mean().sqrt()) or 1.0
        self.principal.weight.zero_()
        self.principal.weight[: len(axes)] = axes * dim**0.5 / spread
        self.principal.bias.copy_(-self.principal.weight @ mean)
        _shrink_last(self.correction)

    def forward(self, x: Tensor, graph: Tensor | LatentGraph | None = None) -> Tensor:
        return self.principal(x) + on_graph(self.correction, x, graph)


class OnTop(nn.Module):
    """out = g(x, graph) + sum_m a_m o_m, with opinions o of the right answer in the last columns of x.

    All a start at one over their number.
    """

    def __init__(self, g: Stack, outputs: int, opinions: int) -> None:
        super().__init__()
        self.g = g
        self.outputs = outputs
        self.trust = nn.ParameterList(nn.Parameter(torch.tensor(1.0 / opinions)) for _ in range(opinions))
        _shrink_last(g)

    def forward(self, x: Tensor, graph: LatentGraph) -> Tensor:
        opinions = x[:, -self.outputs * len(self.trust) :].split(self.outputs, dim=1)
        return self.g(x, graph) + sum(trust * opinion for trust, opinion in zip(self.trust, opinions, strict=True))


@torch.no_grad()
def _shrink_last(stack: Stack) -> None:
    for weight in stack.steps[-1].parameters():
        weight.mul_(SMALL)


def network(
    features: int,
    outputs: int,
    k: int,
    *,
    hidden: int,
    embedding_dim: int,
    geometry: Geometry,
    dropout: float,
    input_graph: bool,
    opinions: int,
    gradient: Gradient,
) -> tuple[DGMNet, nn.Module]:
    """f, a graph, two convolutions on it, perhaps on top of opinions; and a head that teaches f directly."""
    widths = [features, hidden, embedding_dim]
    correction = gcn(widths, dropout=dropout) if input_graph else mlp(widths, dropout=dropout)
    # `Attended` has the weights of a softmax by itself.
    attended = isinstance(gradient, Softmax)
    convolution = Attended if attended else SkipDiffusion
    embed = FromPrincipal(correction, features, embedding_dim)
    dgm = DiscreteDGM(embed, k, geometry=geometry, gradient=None if attended else gradient)
    g = Stack(
        nn.Dropout(dropout),
        convolution(features, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        convolution(hidden, outputs),
    )
    return DGMNet([(dgm, OnTop(g, outputs, opinions) if opinions else g)]), nn.Linear(embedding_dim, outputs)


def adamw(net: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW whose steps change what a layer says about equally, be it wide or not.

    Adam moves every weight by about `lr`, so the output of a layer with a thousand inputs would jump. Its rate is
    divided by their number, and its decay, which is lr times weight_decay a step, is kept. Single numbers, such as the
    temperature, do not decay.
    """
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for weight in net.parameters():
        share = min(1.0, INPUTS / weight.shape[1]) if weight.ndim == 2 else 1.0
        decay = weight_decay / share if weight.ndim else 0.0
        group = {"params": [], "lr": lr * share, "weight_decay": decay}
        groups.setdefault((share, weight.ndim > 0), group)["params"].append(weight)
    return torch.optim.AdamW(list(groups.values()))
