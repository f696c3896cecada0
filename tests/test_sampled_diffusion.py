"""On a sampled graph, with its k neighbours for every node, convolutions gather; on its edge list they scatter."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from latentgraph import DiscreteDGM
from latentgraph.diffusion import GCN, EdgeConv, RowNormalised


def normalised_message(in_features: int, out_features: int) -> EdgeConv:
    return EdgeConv(
        in_features, out_features, message=nn.Sequential(nn.Linear(2 * in_features, out_features), nn.BatchNorm1d(3))
    )


def nonlinear_message(in_features: int, out_features: int) -> EdgeConv:
    message = nn.Sequential(nn.Tanh(), nn.Linear(2 * in_features, out_features))
    return EdgeConv(in_features, out_features, message=message, aggr="mean")


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    "convolution",
    [GCN, RowNormalised, EdgeConv, partial(EdgeConv, aggr="sum"), normalised_message, nonlinear_message],
)
def test_gathering_is_scattering(convolution: Callable[[int, int], nn.Module], loop: bool) -> None:
    """Broken: a network gives other results on a LatentGraph than on the same edges as a list."""
    torch.manual_seed(0)
    x = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    module = convolution(4, 3).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    graph = DiscreteDGM(nn.Identity(), k=3, loop=loop)(x.detach())
    assert graph.edge_index is not None
    weight = torch.randn(30, 3, dtype=torch.float64)
    results = []
    for given in (graph, graph.edge_index):
        out = module(x, given)
        grads = torch.autograd.grad((out * weight).sum(), [x, *module.parameters()])
        results.append([out, *grads])
    for gathered, scattered in zip(*results, strict=True):
        torch.testing.assert_close(gathered, scattered)
