"""The paper's architectures, as functions with the paper's numbers in them.

f and g are given as builders (`latentgraph.stacks`): functions from layer widths to a module.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import global_max_pool

from latentgraph.diffusion import EdgeConv
from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.model import DGMNet
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Builder, Stack, edge_conv, gcn, identity, mlp, row_normalised_conv


def citation_net(
    in_features: int,
    num_classes: int,
    *,
    dgm_layers: int = 1,
    k: int = 5,
    embed_dim: int = 4,
    geometry: Geometry | None = None,
    f: Builder = gcn,
    g: Builder = gcn,
    temperature: float | None = None,
    loop: bool = False,
    detach: bool = False,
) -> DGMNet:
    """The network of the paper's citation experiments.

    A perceptron to 32 features; f of widths 16 and `embed_dim` on the input graph; diffusion with three convolutions
    of widths 32, 16, 8 in all, one for each graph module and the rest for the last; a final perceptron (8, 8, classes).
    `dgm_layers=0` diffuses on the input graph: the plain network that the paper compares with. With `loop`, as in the
    paper's Algorithm 1, a node is a candidate for itself, and mostly one of its own k.
    """
    if not 0 <= dgm_layers <= 3:
        raise InputError(f"dgm_layers={dgm_layers} but there are three convolutions to share: choose 0 to 3.")
    widths = [32, 32, 16, 8]
    layers: list[tuple[nn.Module | None, nn.Module]] = []
    if dgm_layers == 0:
        layers.append((None, _activated(g, widths)))
    x_hat_dim = 0
    for layer in range(dgm_layers):
        is_last = layer == dgm_layers - 1
        seen = widths[layer] + x_hat_dim
        dgm = DiscreteDGM(f([seen, 16, embed_dim]), k, geometry=geometry, temperature=temperature, loop=loop)
        layers.append((dgm, _activated(g, widths[layer:] if is_last else widths[layer : layer + 2])))
        x_hat_dim = seen if f is identity else embed_dim
    pre = Stack(SparseLinear(in_features, 32), nn.ReLU())
    return DGMNet(layers, head=mlp([8, 8, num_classes]), pre=pre, detach=detach)


def medical_net(
    in_features: int,
    num_classes: int,
    *,
    continuous: bool = False,
    k: int = 5,
    f: Builder = gcn,
    g: Builder | None = None,
    geometry: Geometry | None = None,
    detach: bool = False,
) -> DGMNet:
    """The network of the paper's patient experiments.

    Two layers, each a graph module and one convolution `g` of width 16, and a linear classifier. The first module's f
    is always the perceptron (d, 16, 8), for there is no input graph; the second's is `f`, on the graph of the first.
    The best of the paper's table is a graph convolution for f and an edge convolution for g, the defaults here. The
    edge convolution takes the maximum over sampled neighbours, but the weighted mean over a continuous graph: there a
    maximum of a_ij h_ij was seen to go to zero for all pairs and to stop learning.
    """
    if g is None:
        g = partial(edge_conv, aggr="mean") if continuous else edge_conv
    first = mlp([in_features, 16, 8])
    second = f([16 + 8, 16, 8])

    def module(embed: nn.Module) -> nn.Module:
        return ContinuousDGM(embed, geometry=geometry) if continuous else DiscreteDGM(embed, k, geometry=geometry)

    layers = [(module(first), _activated(g, [in_features, 16])), (module(second), _activated(g, [16, 16]))]
    return DGMNet(layers, head=nn.Linear(16, num_classes), detach=detach)


def zero_shot_net(
    in_features: int = 300, out_features: int = 2049, *, k: int = 3, embed_dim: int = 16, hidden: int = 2048
) -> DGMNet:
    """The network of the paper's zero-shot section: from word vectors to classifier weights.

    Two convolutions D^-1 A X Theta of widths 2048 and 2049 with LeakyReLU, each on the graph of a module of embedding
    dimension 16 with k = 3. Node-wise f: no knowledge graph is used. The output is the last convolution's. A class is a
    candidate for itself (`loop=True`), as in Algorithm 1: without it, its own word vector would have no part in the
    mean.
    """
    return DGMNet(
        [
            (DiscreteDGM(mlp([in_features, embed_dim]), k, loop=True), row_normalised_conv([in_features, hidden])),
            (
                DiscreteDGM(mlp([hidden + embed_dim, embed_dim]), k, loop=True),
                row_normalised_conv([hidden, out_features]),
            ),
        ]
    )


def dgcnn(in_features: int, num_classes: int, *, widths: tuple[int, ...] = (16, 16), k: int = 5) -> DGMNet:
    """DGCNN as a special case: f = id, the k nearest neighbours in place of a sample, edge convolutions."""
    sizes = [in_features, *widths]
    layers: list[tuple[nn.Module | None, nn.Module]] = [(_knn(k), EdgeConv(a, b)) for a, b in pairwise(sizes)]
    return DGMNet(layers, head=nn.Linear(sizes[-1], num_classes), stack=False)


def point_cloud_net(
    in_features: int = 3,
    num_parts: int = 50,
    *,
    num_categories: int = 16,
    k: int = 20,
    embed_dim: int = 16,
    learned: bool = True,
    fill: bool = False,
) -> PointCloudNet:
    """The part-segmentation network of the paper's point clouds: DGCNN's, with graph modules of depth 16 and k = 20.

    `learned=False` is DGCNN itself, with the nearest neighbours of the features. With `fill` clouds may have k points
    or fewer, see `DiscreteDGM`.

    >>> net = point_cloud_net(k=5)
    >>> x, cloud = torch.randn(50, 3), torch.tensor([0] * 20 + [1] * 30)  # two clouds of different sizes
    >>> out, graphs = net(x, batch=cloud, category=torch.tensor([4, 15]))
    >>> out.shape, len(graphs)
    (torch.Size([50, 50]), 3)
    """
    layers: list[tuple[nn.Module | None, nn.Module]] = []
    for layer, (a, b) in enumerate(pairwise(_edge_widths(in_features))):
        seen = a + (embed_dim if layer else 0)
        dgm = DiscreteDGM(nn.Linear(seen, embed_dim), k, fill=fill) if learned else _knn(k, fill=fill)
        layers.append((dgm, EdgeConv(a, b, aggr="max", message=_point_mlp([2 * a, *[b] * _DEPTHS[layer]]))))
    transform = SpatialTransform(in_features, k, fill=fill)
    return PointCloudNet(transform, DGMNet(layers, jump=True, stack=learned), num_parts, num_categories)


def point_net(in_features: int = 3, num_parts: int = 50, *, num_categories: int = 16) -> PointCloudNet:
    """The same network without any graph, as PointNet is: points meet in the feature of the whole cloud only.

    What was an edge convolution is the same perceptron on every point alone.
    """
    layers: list[tuple[nn.Module | None, nn.Module]] = [
        (None, _point_mlp([a, *[b] * depth]))
        for (a, b), depth in zip(pairwise(_edge_widths(in_features)), _DEPTHS, strict=True)
    ]
    return PointCloudNet(SpatialTransform(in_features, None), DGMNet(layers, jump=True), num_parts, num_categories)


_DEPTHS = (2, 2, 1)  # layers in the messages of the three edge convolutions


def _edge_widths(in_features: int) -> list[int]:
    return [in_features, 64, 64, 64]


class PointCloudNet(nn.Module):
    """Spatial transform, three edge-convolution blocks, global feature, category, point-wise classifier."""

    def __init__(self, transform: SpatialTransform, backbone: DGMNet, num_parts: int, num_categories: int) -> None:
        super().__init__()
        self.num_categories = num_categories
        self.transform = transform
        self.backbone = backbone
        self.point = _point_mlp([192, 1024])
        self.category = _point_mlp([num_categories, 64], normalise=False)
        self.classify = nn.Sequential(
            _point_mlp([1024 + 64 + 192, 256]),
            nn.Dropout(0.5),
            _point_mlp([256, 256]),
            nn.Dropout(0.5),
            _point_mlp([256, 128]),
            nn.Linear(128, num_parts),
        )

    @property
    def is_stochastic(self) -> bool:
        return self.backbone.is_stochastic

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        category: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        """Points (n, 3) of clouds `batch` (n,), the category of each cloud -> part scores (n, parts) and graphs."""
        if batch is None:
            batch = x.new_zeros(len(x), dtype=torch.long)
        _, cloud = torch.unique_consecutive(batch, return_inverse=True)
        local, graphs = self.backbone(self.transform(x, cloud), edge_index, cloud, generator=generator)
        shape = global_max_pool(self.point(local), cloud)
        whole = torch.cat([shape, self.category(self._one_hot(category, shape))], dim=1)
        return self._classified(whole, local, cloud), graphs

    def _one_hot(self, category: Tensor | None, shape: Tensor) -> Tensor:
        """(clouds, categories); nothing but zeros where the categories are not known."""
        one_hot = shape.new_zeros(len(shape), self.num_categories)
        if category is None:
            return one_hot
        if category.shape != (len(shape),) or not bool(((category >= 0) & (category < self.num_categories)).all()):
            raise InputError(
                f"category {category.tolist()} for {len(shape)} clouds; it must hold one number for each, 0 to "
                f"{self.num_categories - 1}."
            )
        return one_hot.scatter(1, category.view(-1, 1), 1.0)

    def _classified(self, whole: Tensor, local: Tensor, cloud: Tensor) -> Tensor:
        """`classify` of [whole of its cloud | local] for each point, with one product for each cloud for the whole."""
        first, *rest = self.classify
        assert isinstance(first, nn.Sequential)
        linear = first[0]
        assert isinstance(linear, nn.Linear)
        w_whole, w_local = linear.weight.split([whole.shape[1], local.shape[1]], dim=1)
        h = F.linear(local, w_local) + F.linear(whole, w_whole).index_select(0, cloud)
        h = first[1:](h)
        for step in rest:
            h = step(h)
        return h


class SpatialTransform(nn.Module):
    """Learns a d x d matrix for each cloud and applies it, starting from the identity.

    `k` neighbours of each point are seen, or the point alone if it is None; `fill` as in `DiscreteDGM`.
    """

    def __init__(self, in_features: int, k: int | None, *, fill: bool = False) -> None:
        super().__init__()
        self.in_features = in_features
        self.neighbours = None if k is None else _knn(k, fill=fill)
        self.edges = (
            _point_mlp([in_features, 64, 128])
            if k is None
            else EdgeConv(in_features, 128, aggr="max", message=_point_mlp([2 * in_features, 64, 128]))
        )
        self.point = _point_mlp([128, 1024])
        self.describe = _point_mlp([1024, 512, 256], normalise=False)
        self.regress = nn.Linear(256, in_features**2)
        nn.init.zeros_(self.regress.weight)
        with torch.no_grad():
            self.regress.bias.copy_(torch.eye(in_features).flatten())

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        h = self.edges(x) if self.neighbours is None else self.edges(x, self.neighbours(x, None, batch))
        whole = self.describe(global_max_pool(self.point(h), batch))
        # The mean over 256 features, not their sum: a step of Adam moves all weights by as much, and their sum blew up
        # the clouds within a few steps.
        matrix = self.regress(whole / whole.shape[1]).view(-1, self.in_features, self.in_features)
        return torch.einsum("ni,nij->nj", x, matrix.index_select(0, batch))


def _knn(k: int, *, fill: bool = False) -> DiscreteDGM:
    """The k nearest neighbours of the features as they are; its temperature plays no part and is not trained."""
    dgm = DiscreteDGM(nn.Identity(), k, temperature=1.0, noise=False, fill=fill)
    dgm.log_temperature.requires_grad_(False)
    return dgm


def _activated(g: Builder, widths: list[int]) -> Stack:
    return Stack(g(widths), nn.ReLU())


def _point_mlp(widths: list[int], *, normalise: bool = True) -> nn.Sequential:
    """Layers applied to each row, as DGCNN has them: linear, batch normalisation, LeakyReLU(0.2).

    What acts on whole clouds is not normalised over the batch, which may hold a single cloud.
    """
    steps: list[nn.Module] = []
    for a, b in pairwise(widths):
        steps.append(nn.Linear(a, b, bias=not normalise))
        if normalise:
            steps.append(nn.BatchNorm1d(b))
        steps.append(nn.LeakyReLU(0.2, inplace=True))  # neither linear nor normalisation needs its output again
    return nn.Sequential(*steps)
