"""From rows of nodes to one row for each graph."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph

How = Literal["mean", "sum", "max"]


def pool(x: Tensor, batch: Tensor | None = None, how: How = "mean") -> Tensor:
    """Rows (n, c) of nodes, ascending graph ids (n,) -> the mean, sum or maximum over each graph's nodes (g, c).

    The graphs come in the order of their ids; ids that no node has are passed over. No ids: one graph.

    >>> pool(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]))
    tensor([[2.],
            [5.]])
    """
    if how not in ("mean", "sum", "max"):
        raise InputError(f"how={how!r} is not known; choose 'mean', 'sum' or 'max'.")
    if batch is None:
        batch = torch.zeros(len(x), dtype=torch.long, device=x.device)
    sizes: Tensor
    _, number, sizes = torch.unique_consecutive(batch, return_inverse=True, return_counts=True)
    if how == "max":
        places = number[:, None].expand_as(x)
        return x.new_zeros(len(sizes), x.shape[1]).scatter_reduce(0, places, x, "amax", include_self=False)
    total = x.new_zeros(len(sizes), x.shape[1]).index_add(0, number, x)
    return total if how == "sum" else total / sizes[:, None]


class PooledNet(nn.Module):
    r"""A network for whole graphs: one output for each graph instead of one for each node.

    .. math:: y_g = \text{head}( \text{pool}_{i \in g} \, x_i ), \qquad x_1 \dots x_n = \text{net}(X)

    Parameters
    ----------
    net : a `DGMNet` or anything called like one; what its own head gives is pooled
    head : from pooled features to the output, default the identity
    how : "mean" does not see how large a graph is, "sum" does; "max" asks whether anything is there

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> from latentgraph.model import DGMNet
    >>> from latentgraph.stacks import gcn, mlp
    >>> dgm = DiscreteDGM(mlp([6, 2]), k=3, fill=True)
    >>> net = PooledNet(DGMNet([(dgm, gcn([6, 8]))]), nn.Linear(8, 2))
    >>> batch = torch.arange(5).repeat_interleave(4)  # five graphs of four nodes
    >>> out, graphs = net(torch.randn(20, 6), batch=batch)
    >>> out.shape, graphs[0].num_nodes
    (torch.Size([5, 2]), 20)
    """

    def __init__(self, net: nn.Module, head: nn.Module | None = None, *, how: How = "mean") -> None:
        super().__init__()
        self.net = net
        self.head = head or nn.Identity()
        self.how = how

    @property
    def is_stochastic(self) -> bool:
        """Whether two calls sample different graphs."""
        return bool(getattr(self.net, "is_stochastic", True))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        """Features (n, d) of the nodes of g graphs -> output (g, c) and the learned graphs between the nodes."""
        rows: Any
        rows, graphs = self.net(x, edge_index, batch, generator=generator)
        return self.head(pool(rows, batch, self.how)), graphs
