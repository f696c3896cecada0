"""DGMNet: the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.graph import AnyGraph, LatentGraph, Part, on_graph
from latentgraph.layers import DiscreteDGM

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition


class Layer(NamedTuple):
    """One turn of Algorithm 1: a module that builds the graph, and one that diffuses features on it.

    `dgm=None` diffuses on the graph that came in: the input graph in the first layer, the last learned one after that.
    """

    dgm: nn.Module | None
    diffusion: nn.Module


class DGMNet(nn.Module):
    r"""A network that learns its graphs: L layers of a graph module followed by a diffusion on its graph.

    .. math::
        \hat X^{(l+1)}, A^{(l+1)} &= \text{DGM}([X^{(l)} \,|\, \hat X^{(l)}], A^{(l)}) \\
        X^{(l+1)} &= g(A^{(l+1)}, X^{(l)}), \qquad \hat Y = \text{head}(X^{(L)})

    with :math:`X^{(0)} = \text{pre}(X)` and :math:`\hat X^{(0)}` empty.

    Parameters
    ----------
    layers : (dgm, diffusion) pairs. `DiscreteDGM`, `ContinuousDGM`, or None for no graph learning at all
    head : from the last features to the output, default the identity
    pre : applied to the features first, default the identity
    detach : whether f sees the features without a gradient, so that the graph's losses train f alone
    stack : whether f sees the last graph embedding beside the features, :math:`[X | \hat X]`; DGCNN does not
    jump : whether the head sees the features of all layers, :math:`[X^{(1)} | \dots | X^{(L)}]`

    Examples
    --------
    >>> from latentgraph.stacks import gcn, mlp
    >>> net = DGMNet([(DiscreteDGM(mlp([10, 4]), k=3), gcn([10, 8]))], head=nn.Linear(8, 2))
    >>> out, graphs = net(torch.randn(20, 10))
    >>> out.shape, len(graphs)
    (torch.Size([20, 2]), 1)
    """

    def __init__(
        self,
        layers: Sequence[tuple[nn.Module | None, nn.Module]],
        head: nn.Module | None = None,
        *,
        pre: nn.Module | None = None,
        detach: bool = False,
        stack: bool = True,
        jump: bool = False,
    ) -> None:
        super().__init__()
        if not layers:
            raise InputError(
                "DGMNet got no layers; it needs at least one (dgm, diffusion) pair, where dgm may be None."
            )
        self.pre = pre or nn.Identity()
        pairs = [Layer(*layer) for layer in layers]
        # The identity stands for "no graph module": a ModuleList cannot hold None.
        self.dgms = nn.ModuleList(nn.Identity() if pair.dgm is None else pair.dgm for pair in pairs)
        self.diffusions = nn.ModuleList(pair.diffusion for pair in pairs)
        self.head = head or nn.Identity()
        self.detach = detach
        self.stack = stack
        self.jump = jump

    @property
    def is_stochastic(self) -> bool:
        """Whether two calls sample different graphs."""
        return any(isinstance(m, DiscreteDGM) and m.noise for m in self.modules())

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Part | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        guests: int = 0,
        keys: Tensor | None = None,
        partition: Partition | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        """Features (n, d) -> output (n, c) and the graph of each graph module, in order.

        The last `guests` rows are new ones, known to the noise by `keys`; with a `partition`, x holds the rows of this
        process: see `DiscreteDGM.forward`.
        """
        joining: dict[str, Any] = {"guests": guests, "keys": keys} if guests else {}
        if partition is not None:
            joining["partition"] = partition
        x = self.pre(x)
        graph: AnyGraph | None = edge_index
        graphs: list[LatentGraph] = []
        features: list[Tensor] = []
        for dgm, diffusion in zip(self.dgms, self.diffusions, strict=True):
            if not isinstance(dgm, nn.Identity):
                seen = x.detach() if self.detach else x
                if graphs and self.stack:
                    seen = torch.cat([seen, graphs[-1].x_hat], dim=1)
                learned = dgm(seen, graph, batch, generator=generator, **joining)
                # For convolutions that look at both graphs (`latentgraph.both_graphs`).
                graphs.append(learned if edge_index is None else replace(learned, given=edge_index))
                graph = graphs[-1]
            x = on_graph(diffusion, x, graph)
            features.append(x)
        return self.head(torch.cat(features, dim=1) if self.jump else x), graphs


def softmax(out: Tensor) -> Tensor:
    """Class scores (n, c) to probabilities."""
    return out.softmax(-1)


@torch.no_grad()
def consensus(
    net: nn.Module,
    x: Tensor,
    edge_index: Tensor | Part | None = None,
    batch: Tensor | None = None,
    *,
    category: Tensor | None = None,
    samples: int = 8,
    link: Callable[[Tensor], Tensor] = softmax,
    generator: torch.Generator | None = None,
    **joining: Any,
) -> tuple[Tensor, list[list[LatentGraph]]]:
    """Predict with several sampled graphs and average: the paper's consensus of 8.

    Parameters
    ----------
    net : a `DGMNet` or anything called like one. It is put into evaluation mode for the call
    category : (graphs,) what kind of thing each graph is, for networks that ask for it (`PointCloudNet`)
    samples : how many graphs. A network in which nothing is sampled is called once
    link : from an output to what is averaged, default the softmax; `nn.Identity()` for regression
    joining : `guests` and `keys`, or `partition`, of `DGMNet.forward`

    Returns
    -------
    (n, c) mean of `link(out)`, and the graphs of each sample
    """
    if samples < 1:
        raise InputError(f"samples={samples} but a consensus needs at least one sampled graph (the paper takes 8).")
    if not getattr(net, "is_stochastic", True):
        samples = 1
    if category is not None:  # only a network that is given categories has to know the word
        joining["category"] = category
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        results = [net(x, edge_index, batch, generator=generator, **joining) for _ in range(samples)]
    finally:
        for module, mode in modes:  # one by one: parts may be frozen
            module.training = mode
    mean = torch.stack([link(out) for out, _ in results]).mean(0)
    return mean, [graphs for _, graphs in results]
