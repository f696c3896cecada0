"""Where the estimators' network starts: at the table's own neighbours and at the forest's opinion."""

import pytest
import torch
from torch import nn

from latentgraph.estimators.network import INPUTS, FromPrincipal, adamw, network
from latentgraph.geometry import Euclidean
from latentgraph.gradients import Softmax
from latentgraph.sampling import nearest
from latentgraph.stacks import Stack, mlp


def test_embedding_starts_as_principal_components() -> None:
    """All components kept: the same neighbours as in the table. Fewer: the directions of largest variance."""
    torch.manual_seed(0)
    x = torch.randn(200, 5) * torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1]) + 7
    embed = FromPrincipal(mlp([5, 8, 5]), 5, 5)
    embed.start(x)
    z = embed.principal(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.square().sum(1).mean(), torch.tensor(5.0))
    assert (nearest(z, 3).sort(1).values == nearest(x, 3).sort(1).values).float().mean() > 0.99
    few = FromPrincipal(mlp([5, 8, 2]), 5, 2)
    few.start(x)
    assert (few.principal.weight.abs().argmax(1) == torch.tensor([0, 1])).all()


def test_start_of_tables_without_spread() -> None:
    embed = FromPrincipal(mlp([3, 4, 6]), 3, 6)  # more dimensions than columns
    embed.start(torch.ones(4, 3))
    assert embed(torch.randn(4, 3)).isfinite().all()


@pytest.mark.parametrize("opinions", [1, 2])
def test_prediction_starts_near_the_opinions(opinions: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(50, 7)
    net, head = network(
        7,
        3,
        k=4,
        hidden=8,
        embedding_dim=2,
        geometry=Euclidean(),
        dropout=0.3,
        input_graph=False,
        opinions=opinions,
        gradient=Softmax(),
    )
    out, graphs = net.eval()(x)
    mean = torch.stack(x[:, -3 * opinions :].split(3, dim=1)).mean(0)
    assert (out - mean).abs().mean() < 0.2
    assert head(graphs[0].x_hat).shape == (50, 3)
    assert isinstance(head, nn.Linear)


def test_wide_layers_take_small_steps() -> None:
    """After one step a layer's weights have moved by its rate, and decayed by the same share in every layer."""
    net = Stack(nn.Linear(8 * INPUTS, 4, bias=False), nn.Linear(4, 2, bias=False))
    net.register_parameter("t", nn.Parameter(torch.tensor(1.0)))
    optimizer = adamw(net, lr=0.01, weight_decay=0.3)
    rates = {id(p): (g["lr"], g["lr"] * g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    wide, narrow, single = (rates[id(p)] for p in (net.steps[0].weight, net.steps[1].weight, net.t))
    assert wide == (0.01 / 8, 0.003)
    assert narrow == (0.01, 0.003)
    assert single == (0.01, 0.0)
