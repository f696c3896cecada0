"""The paper's architectures: every width, every choice of f and g, point clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from latentgraph.diffusion import EdgeConv, RowNormalised
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Sphere
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.loss import graph_loss
from latentgraph.model import DGMNet, consensus
from latentgraph.presets import PointCloudNet, citation_net, dgcnn, medical_net, point_cloud_net, zero_shot_net
from latentgraph.stacks import Builder, Stack, edge_conv, gat, gcn, identity, mlp, row_normalised_conv

F: dict[str, Builder] = {"gcn": gcn, "gat": gat, "mlp": mlp, "identity": identity}
G: dict[str, Builder] = {"gcn": gcn, "gat": gat, "edge_conv": edge_conv}
GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "ball": PoincareBall(), "sphere": Sphere()}


@pytest.fixture(autouse=True)
def fixed_weights() -> Iterator[None]:
    """New modules start from the same weights in every run, in whatever order tests run."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def features(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ring(n: int) -> Tensor:
    source = torch.arange(n)
    both = torch.stack([source, (source + 1) % n])
    return torch.cat([both, both.flip(0)], dim=1)


def widths(module: nn.Module) -> list[tuple[str, int, int]]:
    """Kind, input and output width of every layer with weights, in order; an edge convolution sees 2 x its input."""
    found: list[tuple[str, int, int]] = []

    def visit(part: nn.Module) -> None:
        if isinstance(part, nn.Linear):
            found.append(("linear", part.in_features, part.out_features))
        elif isinstance(part, GCNConv | GATConv):
            found.append((type(part).__name__[:3].lower(), part.in_channels, part.out_channels))
        elif isinstance(part, RowNormalised):
            found.append(("row", part.linear.in_features, part.linear.out_features))
        elif isinstance(part, EdgeConv):
            visit(part.message)
            _, a, b = found.pop()
            found.append(("edge", a // 2, b))
        else:
            for child in part.children():
                visit(child)

    visit(module)
    return found


def chain(kind: str, *sizes: int) -> list[tuple[str, int, int]]:
    return [(kind, a, b) for a, b in pairwise(sizes)]


def activations(module: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(m, kind) for m in module.modules())


def run(net: nn.Module, x: Tensor, edge_index: Tensor | None = None) -> tuple[Tensor, list[LatentGraph]]:
    """Forward, task loss and graph loss, backward; every parameter that can learn has a finite gradient."""
    out, graphs = net(x, edge_index, generator=seeded())
    delta = torch.where(torch.arange(len(x)) % 2 == 0, 0.5, -0.5)
    (out.square().mean() + graph_loss(graphs, delta)).backward()
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert bool(parameter.grad.isfinite().all()), name
    return out, graphs


# Citations


def test_citation_net_has_the_papers_widths() -> None:
    """Broken: not the network of the paper's first experiment."""
    net = citation_net(1433, 7)
    assert widths(net.pre) == chain("linear", 1433, 32)
    assert activations(net.pre, nn.ReLU) == 1  # "a linear transformation followed by a ReLU"
    assert len(net.dgms) == 1
    dgm = net.dgms[0]
    assert isinstance(dgm, DiscreteDGM)
    assert widths(dgm.embed) == chain("gcn", 32, 16, 4)
    assert activations(dgm.embed, nn.ReLU) == 1  # none after the embedding
    assert (dgm.k, dgm.loop, dgm.geometry) == (5, False, Euclidean())
    assert widths(net.diffusions[0]) == chain("gcn", 32, 32, 16, 8)
    assert activations(net.diffusions[0], nn.ReLU) == 3
    assert widths(net.head) == chain("linear", 8, 8, 7)
    assert activations(net.head, nn.ReLU) == 1
    assert net.stack
    assert not net.jump


@pytest.mark.parametrize(
    ("dgm_layers", "embeds", "diffusions"),
    [
        (0, [], [(32, 32, 16, 8)]),
        (1, [(32, 16, 4)], [(32, 32, 16, 8)]),
        (2, [(32, 16, 4), (36, 16, 4)], [(32, 32), (32, 16, 8)]),
        (3, [(32, 16, 4), (36, 16, 4), (20, 16, 4)], [(32, 32), (32, 16), (16, 8)]),
    ],
)
def test_citation_net_with_more_graph_modules(
    dgm_layers: int, embeds: Sequence[Sequence[int]], diffusions: Sequence[Sequence[int]]
) -> None:
    """Broken: one convolution for each module but the last, which has 4 - L: three in all."""
    net = citation_net(10, 3, dgm_layers=dgm_layers)
    modules = [dgm for dgm in net.dgms if isinstance(dgm, DiscreteDGM)]
    assert [widths(dgm.embed) for dgm in modules] == [chain("gcn", *sizes) for sizes in embeds]
    assert [widths(g) for g in net.diffusions] == [chain("gcn", *sizes) for sizes in diffusions]
    out, graphs = run(net, features(20, 10), ring(20))
    assert out.shape == (20, 3)
    assert [graph.x_hat.shape for graph in graphs] == [(20, 4)] * dgm_layers
    assert net.is_stochastic == (dgm_layers > 0)


def test_citation_net_may_choose_itself() -> None:
    """As in Algorithm 1: a node is nearest to itself, and with one place mostly has that one."""
    torch.manual_seed(0)
    x, own = features(40, 10), torch.arange(40)
    for loop in (False, True):
        net = citation_net(10, 3, k=1, temperature=1e6, loop=loop)
        _, (graph,) = net(x, ring(40), generator=torch.Generator().manual_seed(0))
        assert graph.neighbors is not None
        assert bool((graph.neighbors[:, 0] == own).all()) is loop


def test_citation_net_without_modules_is_the_plain_network() -> None:
    """Broken: the paper's comparison without graph learning does something else than convolve the input graph."""
    net, x, edge_index = citation_net(10, 3, dgm_layers=0), features(20, 10), ring(20)
    h = net.pre(x)
    for conv in (m for m in net.modules() if isinstance(m, GCNConv)):
        h = torch.relu(conv(h, edge_index))
    torch.testing.assert_close(net(x, edge_index)[0], net.head(h))


@pytest.mark.parametrize("dgm_layers", [-1, 4, 5])
def test_citation_net_has_three_convolutions_to_share(dgm_layers: int) -> None:
    """Broken: a fourth module silently gets no convolution."""
    with pytest.raises(InputError, match=f"dgm_layers={dgm_layers}"):
        citation_net(10, 3, dgm_layers=dgm_layers)


@pytest.mark.parametrize("f", F)
@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("dgm_layers", [1, 2, 3])
def test_citation_net_with_every_f_and_g(f: str, g: str, dgm_layers: int) -> None:
    """Broken: a row of the paper's tables of f and g does not even run."""
    net = citation_net(10, 3, f=F[f], g=G[g], dgm_layers=dgm_layers)
    out, graphs = run(net, features(20, 10), ring(20))
    assert out.shape == (20, 3)
    first = 32 if f == "identity" else 4
    assert graphs[0].x_hat.shape == (20, first)
    if f == "identity" and dgm_layers > 1:  # f = id on [X | X_hat] keeps all of it
        assert graphs[1].x_hat.shape == (20, 32 + 32)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
@pytest.mark.parametrize("embed_dim", [2, 8])
def test_citation_net_options(geometry: Geometry, embed_dim: int) -> None:
    """Broken: k, the dimension or the space of the embedding are not handed on."""
    net = citation_net(10, 3, k=3, embed_dim=embed_dim, geometry=geometry, dgm_layers=2, detach=True)
    assert net.detach
    _, graphs = run(net, features(20, 10), ring(20))
    for graph in graphs:
        assert graph.neighbors is not None
        assert graph.neighbors.shape == (20, 3)
        assert graph.x_hat.shape == (20, embed_dim)
        assert graph.geometry is geometry


def test_citation_net_needs_its_input_graph() -> None:
    with pytest.raises(InputError, match="none was given"):
        citation_net(10, 3)(features(20, 10))
    citation_net(10, 3, f=mlp)(features(20, 10))  # without one, f is a perceptron


# Patients


@pytest.mark.parametrize("continuous", [False, True])
def test_medical_net_has_the_papers_widths(continuous: bool) -> None:
    """Broken: not the network of the paper's patient experiments."""
    net = medical_net(354, 3, continuous=continuous)
    kind = ContinuousDGM if continuous else DiscreteDGM
    first, second = net.dgms
    assert isinstance(first, kind)
    assert isinstance(second, kind)
    assert widths(first.embed) == chain("linear", 354, 16, 8)
    assert widths(second.embed) == chain("gcn", 24, 16, 8)
    assert [widths(g) for g in net.diffusions] == [chain("edge", 354, 16), chain("edge", 16, 16)]
    assert widths(net.head) == chain("linear", 16, 3)
    assert isinstance(net.pre, nn.Identity)
    if isinstance(first, DiscreteDGM):
        assert first.k == 5
    assert net.is_stochastic is not continuous


@pytest.mark.parametrize("f", F)
@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
def test_medical_net_with_every_f_and_g(f: str, g: str, continuous: bool) -> None:
    """Broken: a cell of the paper's table of f and g does not even run."""
    net = medical_net(6, 2, f=F[f], g=G[g], continuous=continuous, k=3)
    out, graphs = run(net, features(20, 6))
    assert out.shape == (20, 2)
    assert [graph.is_continuous for graph in graphs] == [continuous] * 2
    assert [graph.x_hat.shape[1] for graph in graphs] == [8, 24 if f == "identity" else 8]


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
def test_medical_net_in_every_geometry(geometry: Geometry, continuous: bool) -> None:
    """Broken: gradients are not finite in a curved space."""
    _, graphs = run(medical_net(6, 2, geometry=geometry, continuous=continuous, k=3), features(20, 6))
    assert all(graph.geometry is geometry for graph in graphs)


# Zero-shot learning


def test_zero_shot_net_has_the_papers_widths() -> None:
    """Broken: not the network of the paper's zero-shot section."""
    net = zero_shot_net()
    assert [widths(g) for g in net.diffusions] == [chain("row", 300, 2048), chain("row", 2048, 2049)]
    assert activations(net.diffusions, nn.LeakyReLU) == 2
    first, second = net.dgms
    assert isinstance(first, DiscreteDGM)
    assert isinstance(second, DiscreteDGM)
    assert (first.k, second.k) == (3, 3)
    assert widths(first.embed) == chain("linear", 300, 16)
    assert widths(second.embed) == chain("linear", 2048 + 16, 16)
    assert isinstance(net.head, nn.Identity)
    assert isinstance(net.pre, nn.Identity)


def test_zero_shot_net_runs() -> None:
    """Broken: sigma(D^-1 A X Theta) is not what its layers compute."""
    net = zero_shot_net(10, 7, k=2, embed_dim=4, hidden=12)
    x = features(15, 10)
    out, graphs = run(net, x)
    h = x
    for graph, stack in zip(graphs, net.diffusions, strict=True):
        (conv,) = (m for m in stack.modules() if isinstance(m, RowNormalised))
        assert graph.neighbors is not None
        h = nn.functional.leaky_relu((h @ conv.linear.weight.T)[graph.neighbors].mean(1))
    torch.testing.assert_close(out, h)


# Point clouds


def test_point_cloud_net_has_the_papers_numbers() -> None:
    """Broken: graph modules of depth 16 with k = 20, three edge convolutions of width 64."""
    net = point_cloud_net()
    assert isinstance(net.backbone, DGMNet)
    embeds = []
    for dgm in net.backbone.dgms:
        assert isinstance(dgm, DiscreteDGM)
        assert dgm.k == 20
        assert dgm.noise
        embeds += widths(dgm.embed)
    assert embeds == [("linear", 3, 16), ("linear", 64 + 16, 16), ("linear", 64 + 16, 16)]
    messages = [[(a, b) for _, a, b in widths(EdgeMessage(g))] for g in net.backbone.diffusions]
    assert messages == [[(6, 64), (64, 64)], [(128, 64), (64, 64)], [(128, 64)]]
    assert widths(net.point) == chain("linear", 192, 1024)
    assert widths(net.classify) == chain("linear", 1024 + 64 + 192, 256, 256, 128, 50)
    assert net.is_stochastic


class EdgeMessage(nn.Module):
    """The h of an edge convolution as a module of its own, for `widths`."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        assert isinstance(conv, EdgeConv)
        assert conv.aggr == "max"
        self.message = conv.message


def test_point_cloud_net_without_learning_is_dgcnn() -> None:
    """Broken: learned=False still samples, learns a graph, or takes neighbours in another space than the features'."""
    net = point_cloud_net(k=5, learned=False, num_parts=4).eval()
    assert not net.is_stochastic
    assert not net.backbone.stack
    assert all(isinstance(dgm, DiscreteDGM) and not dgm.noise for dgm in net.backbone.dgms)
    assert not any(p.requires_grad for dgm in net.backbone.dgms for p in dgm.parameters())
    x = features(30, 3)
    out, graphs = net(x)
    seen = net.transform(x, torch.zeros(30, dtype=torch.long))
    for graph, conv in zip(graphs, net.backbone.diffusions, strict=True):
        torch.testing.assert_close(graph.x_hat, seen)
        sq_dist = torch.cdist(seen, seen).square().fill_diagonal_(torch.inf)
        assert graph.neighbors is not None
        assert torch.equal(graph.neighbors.sort(1).values, sq_dist.topk(5, largest=False).indices.sort(1).values)
        seen = conv(seen, graph.edge_index)
    assert torch.equal(out, net(x)[0])


def test_the_spatial_transform_starts_as_the_identity() -> None:
    """Broken: clouds are deformed before anything was learned."""
    net, x = point_cloud_net(k=5, num_parts=4), features(50, 3)
    torch.testing.assert_close(net.transform(x, torch.tensor([0] * 20 + [1] * 30)), x)


@pytest.mark.parametrize("learned", [True, False])
def test_clouds_of_different_sizes_in_one_batch(learned: bool) -> None:
    """Broken: clouds see each other, or must be of the same size."""
    net = point_cloud_net(k=5, learned=learned, num_parts=4)
    sizes = [20, 6, 33]
    x, batch = features(sum(sizes), 3), torch.arange(3).repeat_interleave(torch.tensor(sizes))
    category = torch.tensor([3, 0, 15])
    net(x, batch=batch, category=category, generator=seeded())  # set the temperatures and the normalisations
    net.eval()
    out, graphs = net(x, batch=batch, category=category, generator=seeded(1))
    assert out.shape == (sum(sizes), 4)
    for graph in graphs:
        assert graph.neighbors is not None
        assert torch.equal(batch[graph.neighbors], batch[:, None].expand(-1, 5))
    if not learned:
        for number, size in enumerate(sizes):
            rows = batch.eq(number)
            alone, _ = net(x[rows], category=category[number : number + 1])
            assert len(alone) == size
            torch.testing.assert_close(out[rows], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("learned", [True, False])
def test_clouds_with_too_few_points_for_k_neighbours(learned: bool) -> None:
    """Broken: one of the graphs, or that of the spatial transform, still wants k other points."""
    net = point_cloud_net(k=5, learned=learned, num_parts=4, fill=True)
    sizes = [1, 6, 33]
    x, batch = features(sum(sizes), 3), torch.arange(3).repeat_interleave(torch.tensor(sizes))
    net(x, batch=batch, generator=seeded())[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)
    net.eval()
    out, graphs = net(x, batch=batch, generator=seeded(1))
    assert out.isfinite().all()
    assert len(graphs) == 3
    for graph in graphs:
        assert graph.neighbors is not None
        assert torch.equal(batch[graph.neighbors], batch[:, None].expand(-1, 5))
        assert graph.neighbors[0].tolist() == [0] * 5  # nobody else is there
    torch.testing.assert_close(out[:1], net(x[:1])[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="fill=True"):
        point_cloud_net(k=5, learned=learned)(x, batch=batch)


def test_graph_ids_need_not_be_consecutive() -> None:
    """Broken: ids 2, 5, 9, as a subset of clouds has them, make empty clouds."""
    net = point_cloud_net(k=5, learned=False, num_parts=4).eval()
    x, batch = features(60, 3), torch.tensor([2] * 20 + [5] * 15 + [9] * 25)
    category = torch.tensor([1, 2, 3])
    renumbered = torch.tensor([0] * 20 + [1] * 15 + [2] * 25)
    assert torch.equal(net(x, batch=batch, category=category)[0], net(x, batch=renumbered, category=category)[0])


def test_the_category_matters_and_may_be_left_out() -> None:
    net, x = point_cloud_net(k=5, learned=False, num_parts=4).eval(), features(30, 3)
    outs = [net(x, category=c)[0] for c in (None, torch.tensor([0]), torch.tensor([7]))]
    assert not torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[1], outs[2])


@pytest.mark.parametrize("learned", [True, False])
def test_a_single_cloud_trains(learned: bool) -> None:
    """Broken: a normalisation over clouds has nothing to normalise over."""
    net = point_cloud_net(k=5, learned=learned, num_parts=4).train()
    out, graphs = run(net, features(40, 3))
    assert out.shape == (40, 4)
    assert len(graphs) == 3


def test_a_point_cloud_consensus() -> None:
    net, x = point_cloud_net(k=5, num_parts=4), features(40, 3)
    probability, graphs = consensus(net, x, samples=3, generator=seeded())
    assert len(graphs) == 3
    torch.testing.assert_close(probability.sum(1), torch.ones(40))
    assert isinstance(net, PointCloudNet)


def test_dgcnn_widths() -> None:
    net = dgcnn(9, 4, widths=(16, 8, 8), k=3)
    assert [widths(g) for g in net.diffusions] == [chain("edge", 9, 16), chain("edge", 16, 8), chain("edge", 8, 8)]
    assert widths(net.head) == chain("linear", 8, 4)


# Stacks


@pytest.mark.parametrize(
    ("build", "kind", "activation", "count"),
    [
        (mlp, "linear", nn.ReLU, 1),
        (gcn, "gcn", nn.ReLU, 1),
        (gat, "gat", nn.ReLU, 1),
        (row_normalised_conv, "row", nn.LeakyReLU, 2),
    ],
)
def test_stacks_have_their_widths_and_activations(
    build: Callable[..., Stack], kind: str, activation: type[nn.Module], count: int
) -> None:
    """Broken: an activation after the last layer of f (the embedding in one corner), or none between."""
    assert widths(build([5, 4, 3])) == chain(kind, 5, 4, 3)
    assert activations(build([5, 4, 3]), activation) == count
    assert activations(build([5, 4, 3], activate_last=True), activation) == 2
    assert activations(build([5, 4, 3], activation=nn.Tanh), nn.Tanh) == count
    assert activations(build([5, 4, 3], dropout=0.5), nn.Dropout) == 2


def test_edge_conv_stack_ends_in_its_own_relu() -> None:
    stack = edge_conv([5, 4, 3], aggr="mean")
    assert widths(stack) == chain("edge", 5, 4, 3)
    assert activations(stack, nn.ReLU) == 2
    assert float(stack(features(20, 5), ring(20)).detach().min()) >= 0
