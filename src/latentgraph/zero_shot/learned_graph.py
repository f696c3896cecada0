"""The paper's zero-shot network: SGCN on graphs that are learned from the word vectors, without the knowledge graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from latentgraph.diffusion import RowNormalised
from latentgraph.dropout import Dropout
from latentgraph.geometry import Sphere
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet
from latentgraph.presets import zero_shot_net
from latentgraph.stacks import Stack
from latentgraph.training import Batches, NodeSet
from latentgraph.zero_shot.classes import Classes, subsample
from latentgraph.zero_shot.network import RowNetwork
from latentgraph.zero_shot.rings import with_rings


class FirstRows(nn.Module):
    """A `RowNormalised` convolution on a sampled graph, for its first rows alone: there the same, and much cheaper.

    Before the product with Theta comes the mean over neighbours, so that rows nobody asks for cost nothing.

    Parameters
    ----------
    conv : D^-1 A X Theta, whose weights are used
    learn, targets : how many rows, in training and in evaluation mode
    weighted : whether neighbours weigh by softmax(log p) over the sampled ones instead of all the same. The weights
        have a gradient, so that the task loss itself moves f
    """

    def __init__(self, conv: RowNormalised, learn: int, targets: int, *, weighted: bool = False) -> None:
        super().__init__()
        self.linear, self.learn, self.targets, self.weighted = conv.linear, learn, targets, weighted

    def forward(self, x: Tensor, graph: LatentGraph) -> Tensor:
        rows = self.learn if self.training else self.targets
        return self.linear(neighbour_mean(x, graph, rows, weighted=self.weighted))


def neighbour_mean(x: Tensor, graph: LatentGraph, rows: int, *, weighted: bool) -> Tensor:
    """Features (n, c) -> (rows, c), the mean over the sampled neighbours of each of the first nodes."""
    assert graph.neighbors is not None
    assert graph.log_p is not None
    neighbors = graph.neighbors[:rows]
    collected = x.index_select(0, neighbors.reshape(-1)).unflatten(0, neighbors.shape)  # (rows, k, c)
    if not weighted:
        return collected.mean(1)
    weight = graph.log_p.view(graph.neighbors.shape)[:rows].softmax(1)
    return torch.einsum("rk,rkc->rc", weight, collected)


class PaperDGM(RowNetwork):
    """The network as the paper writes it: `zero_shot_net`, k = 3, graph loss, squared error of the rows as they are.

    Each step sees a part of the classes that contains all to learn from. Predictions are made in the graph of all.
    """

    weight_decay = 0.0
    unit = False
    k: int = 3
    hidden: int = 2048
    embed_dim: int = 16
    size: int = 3000  # nodes in a step; the paper has 7,000

    def network(self, classes: Classes) -> nn.Module:
        net = zero_shot_net(
            classes.x.shape[1], classes.rows.shape[1], k=self.k, embed_dim=self.embed_dim, hidden=self.hidden
        )
        last = net.diffusions[-1]
        assert isinstance(last, Stack)
        conv = last.steps[0]
        assert isinstance(conv, RowNormalised)
        last.steps[0] = FirstRows(conv, classes.learn, classes.targets)
        return net

    def seen(self, classes: Classes) -> Classes:
        """The word vectors as they are."""
        return classes

    def batches(self, classes: Classes) -> Batches:
        size = min(self.size, classes.num_candidates)
        return lambda step, generator: classes.node_set(subsample(classes, size, generator))

    def stopping_nodes(self, classes: Classes) -> NodeSet:
        """A part of the classes that stays the same: the graph of all would take longer than the training."""
        size = min(self.size, classes.num_candidates)
        return classes.node_set(subsample(classes, size, torch.Generator().manual_seed(self.seed)), stop=True)

    def training(self, classes: Classes) -> dict[str, Any]:
        return {"baseline": MovingAverageBaseline(classes.learn), "eval_samples": 2}


class UnitPaperDGM(PaperDGM):
    """The paper's network where words and rows, predicted and true, have unit length, as in SGCN and DGP."""

    unit = True

    def seen(self, classes: Classes) -> Classes:
        return RowNetwork.seen(self, classes)


class BestDGM(PaperDGM):
    """What our validation classes chose, word vectors and targets of unit length among it.

    One graph for both convolutions, on a sphere. f is linear and begins with the principal components of the word
    vectors, so that the first graphs are those of the word vectors; the temperature stays what it was set to in the
    first step. Sampled neighbours weigh by their probability: the task loss moves f, and there is no graph loss.
    """

    lr = 3e-3
    weight_decay = 5e-4
    unit = True
    k = 8
    hidden = 512
    embed_dim = 64
    dropout: float = 0.5
    rings: int = 0

    def network(self, classes: Classes) -> nn.Module:
        features = classes.x.shape[1]
        f = principal_components(classes.x[: classes.num_candidates], self.embed_dim)
        dgm = DiscreteDGM(f, self.k, geometry=Sphere(), loop=True)
        dgm.log_temperature.requires_grad_(False)  # what is learned is where the classes are, not how sure they are
        inner = AllRows(RowNormalised(features, self.hidden))
        outer = FirstRows(
            RowNormalised(self.hidden, classes.rows.shape[1]), classes.learn, classes.targets, weighted=True
        )
        g = Stack(inner, nn.LeakyReLU(0.2), Dropout(self.dropout), outer)
        return DGMNet([(dgm, g)])

    def seen(self, classes: Classes) -> Classes:
        return with_rings(RowNetwork.seen(self, classes), self.rings)

    def training(self, classes: Classes) -> dict[str, Any]:
        return {"eval_samples": 2}


class RingsDGM(BestDGM):
    """The same where f and g see the word vectors beside their means over two rings of the knowledge graph."""

    rings = 2


class AllRows(nn.Module):
    """D^-1 A X Theta for all rows, neighbours weighing by their probability; the mean comes first, for X is narrow."""

    def __init__(self, conv: RowNormalised) -> None:
        super().__init__()
        self.linear = conv.linear

    def forward(self, x: Tensor, graph: LatentGraph) -> Tensor:
        return self.linear(neighbour_mean(x, graph, len(x), weighted=True))


def principal_components(x: Tensor, dim: int) -> nn.Linear:
    """A linear layer (d, dim) that begins as the projection on the first principal components of x (n, d).

    There are no more than d of them.
    """
    _, vectors = torch.linalg.eigh(torch.cov(x.double().T))
    dim = min(dim, x.shape[1])
    linear = nn.Linear(x.shape[1], dim, bias=False)
    with torch.no_grad():
        linear.weight.copy_(vectors.flip(1)[:, :dim].T)
    return linear
