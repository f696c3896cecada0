"""The largest normalised message: the quick way and the plain one."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from latentgraph.largest import largest


def plain(rest: nn.Module, pairs: Tensor) -> Tensor:
    return rest(pairs.flatten(0, 1)).unflatten(0, pairs.shape[:2]).max(1).values


def message(seed: int = 0, momentum: float | None = 0.1) -> nn.Sequential:
    """Factors of both signs, so that for some channels the smallest number becomes the largest."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        norm = nn.BatchNorm1d(6, momentum=momentum)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        return nn.Sequential(nn.Linear(4, 6), norm, nn.LeakyReLU(0.2)).double()


def pairs(seed: int = 0) -> Tensor:
    return torch.randn(7, 5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_output_gradients_and_statistics_are_those_of_the_plain_way(momentum: float | None) -> None:
    """Broken: negative factors, the gradient through mean and variance, or what evaluation will normalise by."""
    quick, slow = message(momentum=momentum), message(momentum=momentum)
    for step in range(3):
        x = pairs(step)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        out, expected = largest(quick, a), plain(slow, b)
        torch.testing.assert_close(out, expected)
        out.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
    for ours, theirs in zip(quick.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    for name, value in slow.state_dict().items():
        torch.testing.assert_close(quick.state_dict()[name], value)
    torch.testing.assert_close(largest(quick.eval(), pairs(9)), plain(slow.eval(), pairs(9)))


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_the_finite_differences(training: bool) -> None:
    net = message().train(training)
    parameters = [p.detach().clone().requires_grad_() for p in net.parameters()]
    names = [name for name, _ in net.named_parameters()]

    def function(x: Tensor, *values: Tensor) -> Tensor:
        module = deepcopy(net)  # the running statistics change with every call
        return torch.func.functional_call(
            _Largest(module), {f"rest.{name}": v for name, v in zip(names, values, strict=True)}, (x,)
        )

    assert torch.autograd.gradcheck(function, (pairs().requires_grad_(), *parameters))


class _Largest(nn.Module):
    def __init__(self, rest: nn.Module) -> None:
        super().__init__()
        self.rest = rest

    def forward(self, x: Tensor) -> Tensor:
        return largest(self.rest, x)


def test_equal_neighbours_share_the_gradient() -> None:
    """Broken: two copies of a neighbour get it twice. A shift of both must count once."""
    x = pairs()
    x[:, 1] = x[:, 0]
    a = x.clone().requires_grad_()
    largest(message(), a).sum().backward()
    b = x.clone().requires_grad_()
    plain(message(), b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    torch.testing.assert_close(a.grad[:, 0] + a.grad[:, 1], b.grad[:, 0] + b.grad[:, 1])
    torch.testing.assert_close(a.grad[:, 2:], b.grad[:, 2:])


@pytest.mark.parametrize(
    "rest",
    [
        nn.Sequential(nn.BatchNorm1d(4), nn.Tanh()),
        nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
        nn.Sequential(nn.BatchNorm1d(4), nn.LeakyReLU(-0.5)),  # falls, then rises
        nn.Identity(),
    ],
)
def test_any_other_message_goes_the_plain_way(rest: nn.Module) -> None:
    same = deepcopy(rest)
    torch.testing.assert_close(largest(rest.double(), pairs()), plain(same.double(), pairs()))
