"""Ready-made stacks of layers for f, g and the head: `mlp`, `gcn`, `gat`, `edge_conv`, `row_normalised_conv`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol

from torch import Tensor, nn

from latentgraph.diffusion import GAT, GCN, Aggregation, EdgeConv, Graph, RowNormalised
from latentgraph.graph import on_graph

_relu = partial(nn.ReLU, inplace=True)  # what a layer gives out is nobody else's, and need not be kept as it was


class Builder(Protocol):
    """Makes a module from the widths of its layers, such as `gcn([32, 16, 4])`."""

    def __call__(self, widths: Sequence[int], /) -> nn.Module: ...


class Stack(nn.Module):
    """Modules one after the other on the same graph: node-wise ones, PyG convolutions and ours mix freely."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.steps = nn.ModuleList(modules)

    def forward(self, x: Tensor, graph: Graph | None = None) -> Tensor:
        for step in self.steps:
            x = on_graph(step, x, graph)
        return x


def identity(widths: Sequence[int] = ()) -> nn.Module:
    """f = id: the graph is built on the features as they are. The widths are ignored."""
    return nn.Identity()


def mlp(
    widths: Sequence[int],
    *,
    activation: Callable[[], nn.Module] = _relu,
    activate_last: bool = False,
    dropout: float = 0.0,
) -> Stack:
    """A perceptron with layers of the given widths, the first being the input's.

    >>> import torch
    >>> mlp([30, 16, 4])(torch.randn(5, 30)).shape
    torch.Size([5, 4])
    """
    return _stack(nn.Linear, widths, activation, activate_last, dropout)


def gcn(
    widths: Sequence[int],
    *,
    activation: Callable[[], nn.Module] = _relu,
    activate_last: bool = False,
    dropout: float = 0.0,
) -> Stack:
    """Graph convolutions of the given widths: `gcn([32, 16, 4])` is the paper's two-layer f for citations."""
    return _stack(GCN, widths, activation, activate_last, dropout)


def gat(
    widths: Sequence[int],
    *,
    heads: int = 1,
    activation: Callable[[], nn.Module] = _relu,
    activate_last: bool = False,
    dropout: float = 0.0,
) -> Stack:
    """Graph attention layers of the given widths; several heads are averaged."""
    return _stack(partial(GAT, heads=heads), widths, activation, activate_last, dropout)


def edge_conv(widths: Sequence[int], *, aggr: Aggregation = "max", dropout: float = 0.0) -> Stack:
    """Edge convolutions of the given widths. Each ends in its own ReLU."""
    return _stack(partial(EdgeConv, aggr=aggr), widths, nn.Identity, False, dropout)


def row_normalised_conv(
    widths: Sequence[int],
    *,
    activation: Callable[[], nn.Module] = nn.LeakyReLU,
    activate_last: bool = True,
    dropout: float = 0.0,
) -> Stack:
    """Convolutions D^-1 A X Theta of the given widths, each with its LeakyReLU, as in the paper's equation for ZSL."""
    return _stack(RowNormalised, widths, activation, activate_last, dropout)


def _stack(
    layer: Callable[[int, int], nn.Module],
    widths: Sequence[int],
    activation: Callable[[], nn.Module],
    activate_last: bool,
    dropout: float,
) -> Stack:
    modules: list[nn.Module] = []
    last = len(widths) - 2
    for i, (a, b) in enumerate(pairwise(widths)):
        if dropout:
            modules.append(nn.Dropout(dropout))
        modules.append(layer(a, b))
        if i < last or activate_last:
            modules.append(activation())
    return Stack(*modules)
