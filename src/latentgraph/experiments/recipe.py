"""The recipe that our validation chose for documents with a given graph: diffusion on the learned graph only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from latentgraph.attended import Attended
from latentgraph.baselines.method import NetworkMethod, Population
from latentgraph.both_graphs import Mixture
from latentgraph.curvature import LearnedCurvature
from latentgraph.degrees import Degrees
from latentgraph.diffusion import GCN, Diffusion
from latentgraph.dropout import Dropout
from latentgraph.geometry import Geometry
from latentgraph.gradients import Gradient
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition


class Recipe(NetworkMethod):
    """f = two graph convolutions on the given graph, g = two weighted convolutions with skip on the sampled one.

    The sampled edges are weighted by their probabilities (`Attended`), so the cross-entropy itself moves f; a linear
    classifier on the embedding (`auxiliary`) teaches f, too. There is no graph loss. The embedding is standardised, and
    the temperature fixed: learned, it went down, and the graph with it.
    """

    lr = 0.02
    hidden, embedding_dim, k, dropout, temperature = 64, 8, 20, 0.5, 4.0
    given_graph = True  # whether f sees it
    learn_temperature = False
    geometry: Geometry | LearnedCurvature | None = None
    degrees: Degrees | None = None

    def gradient(self, population: Population) -> Gradient | None:
        """How f learns from the task; None: by the softmax of `Attended`."""
        return None

    def embed(self, population: Population) -> nn.Module:
        """f."""
        last = GCN if self.given_graph else nn.Linear
        return Stack(
            SparseLinear(population.x.shape[1], self.hidden, dropout=self.dropout),
            Diffusion() if self.given_graph else nn.Identity(),
            nn.ReLU(),
            Dropout(self.dropout),
            last(self.hidden, self.embedding_dim),
            Standardised(),
        )

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        """A layer of g."""
        return Attended(in_features, out_features, dropout=self.dropout)

    def network(self, population: Population) -> nn.Module:
        dgm = DiscreteDGM(
            self.embed(population),
            self.k,
            temperature=self.temperature,
            geometry=self.geometry,
            gradient=self.gradient(population),
            degrees=self.degrees,
        )
        dgm.log_temperature.requires_grad_(self.learn_temperature)
        g = Stack(
            self.convolution(population.x.shape[1], self.hidden),
            nn.ReLU(),
            self.convolution(self.hidden, population.num_classes),
        )
        return DGMNet([(dgm, g)])

    def training(self, population: Population) -> dict[str, Any]:
        return {"auxiliary": nn.Linear(self.embedding_dim, population.num_classes), "eval_samples": 4}


class RecipeWithoutGraph(Recipe):
    """The same where f sees the features alone."""

    given_graph = False


class RecipeWithBothGraphs(Recipe):
    """The same where each layer of g also works on the given graph, with weights of its own and a learned share."""

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        given = Stack(SparseLinear(in_features, out_features, dropout=self.dropout), Diffusion())
        return Mixture(super().convolution(in_features, out_features), given)


class Standardised(nn.Module):
    """Mean zero, and a mean squared norm of d: the scale of an embedding (n, d) is left to the temperature."""

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(0)
        return x * self._scale(x, x.square().sum(1).mean())

    def of_part(self, x: Tensor, partition: Partition) -> Tensor:
        """Some rows of a population that several processes share."""
        x = x - partition.total(x.sum(0)) / partition.num_nodes
        return x * self._scale(x, partition.total(x.square().sum()) / partition.num_nodes)

    def _scale(self, x: Tensor, square: Tensor) -> Tensor:
        return (x.shape[1] / square.clamp_min(torch.finfo(x.dtype).tiny)).sqrt()
