"""New rows join a population: they see it, it does not see them, and they do not see each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from latentgraph import ContinuousDGM, DGMNet, DiscreteDGM
from latentgraph.errors import InputError
from latentgraph.model import consensus
from latentgraph.stacks import Builder, edge_conv, gat, gcn, mlp


def network(g: Builder, noise: bool = True) -> DGMNet:
    torch.manual_seed(0)
    first = DiscreteDGM(mlp([5, 3]), k=4, noise=noise)
    second = DiscreteDGM(gcn([8 + 3, 3]), k=3, noise=noise)
    return DGMNet([(first, g([5, 8])), (second, g([8, 8]))], head=nn.Linear(8, 2)).eval()


def predict(net: DGMNet, x: Tensor, **joining: Any) -> Tensor:
    return consensus(net, x, samples=3, generator=torch.Generator().manual_seed(0), **joining)[0]


@pytest.mark.parametrize("g", [gcn, gat, edge_conv])
@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("residents", [50, 300])  # two backends
def test_guests_change_nobody_else(g: Builder, noise: bool, residents: int) -> None:
    net = network(g, noise)
    x = torch.randn(residents, 5, generator=torch.Generator().manual_seed(1))
    new = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    keys = torch.arange(20) + 1000
    before = predict(net, x)
    together = predict(net, torch.cat([x, new]), guests=20, keys=keys)
    some = torch.tensor([7, 2])
    apart = predict(net, torch.cat([x, new[some]]), guests=2, keys=keys[some])
    torch.testing.assert_close(together[:residents], before)
    torch.testing.assert_close(together[residents:][some], apart[residents:])
    if noise:  # keys matter
        assert not torch.allclose(predict(net, torch.cat([x, new]), guests=20)[residents:], together[residents:])


def test_a_guest_like_a_resident_is_treated_like_one() -> None:
    """Without noise, and where a node counts itself anyway, a copy of a resident has the resident's neighbours."""
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    graph = DiscreteDGM(nn.Identity(), k=4, noise=False, loop=True)(torch.cat([x, x[:10]]), guests=10)
    assert graph.neighbors is not None
    assert torch.equal(graph.neighbors[40:], graph.neighbors[:10])
    assert int(graph.neighbors.max()) < 40


def test_guests_in_a_batch_of_graphs() -> None:
    with pytest.raises(InputError, match="leave out batch"):
        DiscreteDGM(nn.Identity(), k=1)(torch.randn(6, 2), batch=torch.tensor([0, 0, 0, 1, 1, 1]), guests=1)


def test_guests_of_a_continuous_graph_are_refused() -> None:
    net = DGMNet([(ContinuousDGM(nn.Identity()), gcn([2, 2]))])
    with pytest.raises(TypeError, match="guests"):
        net(torch.randn(6, 2), guests=1)
