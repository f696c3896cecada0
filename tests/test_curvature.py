"""Curvature that is learned: gradients by finite differences wherever it goes, samplers, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from latentgraph import (
    ContinuousDGM,
    DGMNet,
    DiscreteDGM,
    Euclidean,
    InputError,
    PoincareBall,
    Product,
    Sphere,
    gumbel_top_k,
    nearest,
)
from latentgraph.curvature import LearnedCurvature
from latentgraph.diffusion import GAT, GCN, EdgeConv, adjacency_product
from latentgraph.geometry import Geometry
from latentgraph.gradients import Softmax
from latentgraph.graph import LatentGraph
from latentgraph.loss import graph_loss
from latentgraph.probability import edge_log_p, plackett_luce
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, fit

SPACES: dict[str, Callable[..., Geometry]] = {
    "ball": lambda c, d: PoincareBall(c),
    "sphere": lambda c, d: Sphere(c),
    "product": lambda c, d: Product([(Euclidean(), 1), (PoincareBall(c), 2), (Sphere(d), 2)]),
}
WIDTH = {"ball": 3, "sphere": 3, "product": 5}
every_space = pytest.mark.parametrize("name", SPACES)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(n: int, d: int, seed: int = 0) -> Tensor:
    return 0.4 * torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)


def curvature(c: float = 0.7) -> Tensor:
    return torch.tensor(c, dtype=torch.float64, requires_grad=True)


# The spaces themselves


@every_space
def test_a_tensor_is_a_number(name: str) -> None:
    space, plain = SPACES[name](curvature(), curvature(1.4)), SPACES[name](0.7, 1.4)
    x = plain.project(points(6, WIDTH[name]))
    torch.testing.assert_close(space.sq_cdist(x, x), plain.sq_cdist(x, x))
    torch.testing.assert_close(space.sq_dist(x, x.flip(0)), plain.sq_dist(x, x.flip(0)))
    assert space.detached() == plain.detached()
    assert all(isinstance(number, Tensor) and number.requires_grad for number in space.learned())
    assert plain.learned() == []


def test_distance_on_a_sphere_of_another_radius() -> None:
    """A quarter of the equator of a sphere of radius 3 is 3 pi / 2 long."""
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert Sphere(1 / 9).sq_dist(x, y).sqrt().item() == pytest.approx(3 * torch.pi / 2, rel=1e-6)


def test_a_curvature_alone_is_a_scale_and_a_temperature() -> None:
    """What the documentation says of a single space."""
    x = points(6, 3)
    ball = PoincareBall(0.7)
    torch.testing.assert_close(ball.sq_cdist(x, x), PoincareBall().sq_cdist(0.7**0.5 * x, 0.7**0.5 * x) / 0.7)
    u = Sphere().project(x)
    torch.testing.assert_close(Sphere(0.7).sq_cdist(u, u), Sphere().sq_cdist(u, u) / 0.7)


# Gradients


@every_space
def test_gradient_in_the_curvature_of_distances(name: str) -> None:
    """By finite differences, with coincident points and, of the ball, points outside that are moved to its boundary."""
    x = points(5, WIDTH[name])
    x[3] = x[2]

    def distances(c: Tensor, d: Tensor, x: Tensor) -> Tensor:
        space = SPACES[name](c, d)
        on_space = space.project(x)
        return torch.stack([space.sq_cdist(on_space, on_space)[0], space.sq_dist(on_space, on_space.roll(1, 0))])

    assert torch.autograd.gradcheck(distances, (curvature(), curvature(1.4), x.requires_grad_()))
    # Points outside: without eps of the boundary, near which distances are steeper than finite differences can follow.
    if name != "sphere":
        (grad,) = torch.autograd.grad(distances(c := curvature(), curvature(1.4), 9 * x.detach()).sum(), c)
        assert grad.isfinite()


@every_space
@pytest.mark.parametrize("block", [1 << 20, 12])
def test_gradient_in_the_curvature_of_all_that_use_it(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """log p, likelihood, weights of all pairs and convolutions on them; in one block and in several."""
    monkeypatch.setattr("latentgraph.blocks.BLOCK", block)
    n, t, at = 6, torch.tensor(1.3, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64)
    x_hat, x = points(n, WIDTH[name]), points(n, 3, seed=1)
    neighbors = torch.tensor([[(i + 1) % n, (i + 3) % n] for i in range(n)])
    edges = torch.tensor([[0, 1, 2], [3, 4, 5]])
    torch.manual_seed(0)
    message = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    convolutions = [GCN(3, 2), GAT(3, 2), EdgeConv(3, 2), EdgeConv(3, 2, aggr="sum", message=message)]
    modules = [module.double() for module in convolutions]

    def weighed(parts: list[Tensor]) -> Tensor:
        """One number, in which nothing can cancel: fewer backward passes."""
        values = torch.cat([part.flatten() for part in parts])
        return values @ torch.rand(len(values), generator=seeded(3), dtype=torch.float64)

    def of_edges(c: Tensor, d: Tensor) -> Tensor:
        space = SPACES[name](c, d)
        on_space = space.project(x_hat)
        return weighed([edge_log_p(on_space, edges, t, space), plackett_luce(on_space, neighbors, t, space)])

    def of_pairs(c: Tensor, d: Tensor) -> Tensor:
        space = SPACES[name](c, d)
        graph = LatentGraph(space.project(x_hat), t, space, threshold=at)
        return weighed([adjacency_product(graph, x, dense=False), *(module(x, graph) for module in modules)])

    assert torch.autograd.gradcheck(of_edges, (curvature(), curvature(1.4)))
    assert torch.autograd.gradcheck(of_pairs, (curvature(), curvature(1.4)))


def test_two_factors_may_share_a_curvature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: cut into blocks, each of them gets the gradient of both."""
    x, neighbors = points(6, 4), torch.tensor([[1], [2], [3], [4], [5], [0]])
    found = []
    for block in (1 << 20, 12):
        monkeypatch.setattr("latentgraph.blocks.BLOCK", block)
        c = curvature()
        space = Product([(PoincareBall(c), 2), (PoincareBall(c), 2)])
        likely = plackett_luce(space.project(x), neighbors, torch.tensor(1.0).double(), space)
        found.append(torch.autograd.grad(likely.sum(), c)[0])
    torch.testing.assert_close(found[0], found[1])


@every_space
def test_gradient_of_the_graph_loss_in_the_log_curvature(name: str) -> None:
    """Through the module: f's output, its projection, log p, the loss."""
    torch.manual_seed(0)
    space = LearnedCurvature(SPACES[name](0.7, 1.4))
    dgm = DiscreteDGM(nn.Linear(4, WIDTH[name]), 2, geometry=space, temperature=0.9).double()
    x, delta = points(7, 4), points(7, 1)[:, 0]
    neighbors = dgm(x, generator=seeded()).neighbors
    names = [key for key in dict(dgm.named_parameters()) if key.startswith("space")]
    assert len(names) == (2 if name == "product" else 1)

    def loss(*values: Tensor) -> Tensor:
        graph = functional_call(dgm, dict(zip(names, values, strict=True)), (x,), {"generator": seeded()})
        assert torch.equal(graph.neighbors, neighbors)  # or the loss would jump
        return graph_loss(graph, delta)

    values = [dict(dgm.named_parameters())[key].detach().requires_grad_() for key in names]
    assert torch.autograd.gradcheck(loss, values)


# Modules


@every_space
def test_the_sampler_gets_the_numbers(name: str) -> None:
    """Broken: a sampler cannot take tensors with gradients, or takes another curvature."""
    space, x = SPACES[name](curvature(), curvature(1.4)), points(40, WIDTH[name])
    for backend in ("auto", "torch"):
        found = gumbel_top_k(x, 4, 1.0, geometry=space, generator=seeded(), backend=backend)
        same = gumbel_top_k(x, 4, 1.0, geometry=space.detached(), generator=seeded(), backend=backend)
        assert torch.equal(found, same)
    square = space.sq_cdist(space.project(x), space.project(x)).detach().fill_diagonal_(torch.inf)
    assert torch.equal(nearest(x, 3, geometry=space), square.topk(3, largest=False).indices)


def test_a_tree_has_no_bounds_for_other_spheres() -> None:
    from latentgraph.sampling.kdtree import factors_of

    assert factors_of(Sphere(), 3) is not None
    assert factors_of(Sphere(0.5), 3) is None
    with pytest.raises(InputError, match='Use backend="torch" or "auto"'):
        gumbel_top_k(points(200, 3), 3, 1.0, geometry=Sphere(0.5), backend="tree")


@pytest.mark.parametrize("continuous", [False, True])
def test_training_moves_the_curvature_and_keeps_it(continuous: bool) -> None:
    def make() -> Any:
        torch.manual_seed(0)
        space = LearnedCurvature(Product([(Euclidean(), 2), (PoincareBall(0.5), 2), (Sphere(), 2)]))
        f = nn.Linear(4, 6)
        dgm = ContinuousDGM(f, geometry=space) if continuous else DiscreteDGM(f, 3, geometry=space, gradient=Softmax())
        return DGMNet([(dgm, gcn([4, 8, 2]))])

    net, x = make(), torch.randn(40, 4, generator=seeded())
    start = [number.item() for number in net.dgms[0].geometry.learned()]
    assert start == pytest.approx([0.5, 1.0])
    fit(net, NodeSet(x, (x[:, 0] > 0).long()), steps=5, weight_decay=0.1)
    learned = [number.item() for number in net.dgms[0].geometry.learned()]
    assert all(0 < c != c_0 for c, c_0 in zip(learned, start, strict=True))
    assert "dgms.0.space.log_curvature.0" in net.state_dict()
    other = make()
    other.load_state_dict(net.state_dict())
    assert [number.item() for number in other.dgms[0].geometry.learned()] == learned
    assert f"curvature={learned[0]}" in repr(other)


def test_what_makes_no_sense() -> None:
    with pytest.raises(InputError, match="no curvature to learn"):
        LearnedCurvature(Euclidean())
    with pytest.raises(InputError, match="a sphere needs a positive number"):
        Sphere(-1.0)
    with pytest.raises(InputError, match="positive number c"):
        PoincareBall(torch.tensor(0.0))
