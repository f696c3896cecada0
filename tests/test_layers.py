"""The graph modules: log p and adjacency, calibration of the temperature, embeddings, batches, errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from latentgraph import layers
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Product, Sphere
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.stacks import gat, gcn, mlp

GEOMETRIES: dict[str, Geometry] = {
    "euclidean": Euclidean(),
    "ball": PoincareBall(0.5),
    "sphere": Sphere(),
    "product": Product([(Euclidean(), 1), (PoincareBall(), 2), (Sphere(), 2)]),
}
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())


@pytest.fixture(autouse=True)
def fixed_weights() -> Iterator[None]:
    """New modules start from the same weights in every run, in whatever order tests run."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def points(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(a: int, b: int, seed: int = 0) -> nn.Linear:
    """A linear layer whose weights do not depend on the global random state."""
    layer = nn.Linear(a, b)
    with torch.no_grad():
        layer.weight.copy_(points(b, a, seed) / math.sqrt(a))
        layer.bias.copy_(points(1, b, seed + 1)[0])
    return layer


def gradient(module: nn.Module) -> Tensor:
    """Of the weight of a linear layer."""
    assert isinstance(module, nn.Linear)
    assert module.weight.grad is not None
    return module.weight.grad


def perplexity(x: Tensor, t: float) -> float:
    """Effective number of candidates of a node: exp of the mean entropy over rows, self left out; plain loops."""
    entropies = []
    for i in range(len(x)):
        others = torch.cat([x[:i], x[i + 1 :]]).double()
        p = torch.softmax(-t * (others - x[i].double()).pow(2).sum(1), 0)
        entropies.append(float(-(p * p.clamp_min(1e-300).log()).sum()))
    return math.exp(sum(entropies) / len(entropies))


# What a discrete graph module returns


@every_geometry
def test_log_p_is_minus_t_times_the_squared_distance_of_the_chosen_edges(geometry: Geometry) -> None:
    """Broken: log p is perturbed, normalised, of another geometry, or of other edges."""
    dgm = DiscreteDGM(linear(6, 5), k=3, geometry=geometry, temperature=1.7)
    x = points(20, 6)
    graph = dgm(x, generator=seeded(1))
    x_hat = geometry.project(dgm.embed(x))
    torch.testing.assert_close(graph.x_hat, x_hat)
    assert graph.geometry is geometry
    assert graph.neighbors is not None
    assert graph.edge_index is not None
    assert graph.log_p is not None
    assert graph.log_p.shape == (60,)
    for e, (j, i) in enumerate(graph.edge_index.T.tolist()):
        assert j == int(graph.neighbors[i, e % 3])
        torch.testing.assert_close(graph.log_p[e], -1.7 * geometry.sq_dist(x_hat[i], x_hat[j]), rtol=1e-5, atol=1e-6)


@every_geometry
def test_log_p_teaches_the_embedding_and_the_temperature(geometry: Geometry) -> None:
    """Broken: the graph loss cannot reach f or t."""
    dgm = DiscreteDGM(linear(6, 5), k=3, geometry=geometry, temperature=1.7)
    graph = dgm(points(20, 6), generator=seeded(1))
    assert graph.log_p is not None
    graph.log_p.sum().backward()
    # log p is proportional to t = exp(log t): its slope in log t is log p itself.
    assert dgm.log_temperature.grad is not None
    torch.testing.assert_close(dgm.log_temperature.grad, graph.log_p.detach().sum())
    for parameter in dgm.embed.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.isfinite().all())
    assert bool(gradient(dgm.embed).ne(0).any())


def test_neighbours_are_distinct_and_never_the_node_itself() -> None:
    """Broken: sampling with replacement, or a self edge that eats one of the k."""
    graph = DiscreteDGM(nn.Identity(), k=7, temperature=0.1)(points(15, 3), generator=seeded(0))
    assert graph.neighbors is not None
    for i, row in enumerate(graph.neighbors.tolist()):
        assert len(set(row)) == 7
        assert i not in row
        assert all(0 <= j < 15 for j in row)


def test_loop_lets_a_node_choose_itself() -> None:
    """Broken: loop=True is not the paper's algorithm, in which p_ii = 1 is the most probable."""
    x = points(15, 3)
    graph = DiscreteDGM(nn.Identity(), k=2, temperature=1e6, loop=True)(x, generator=seeded(0))
    assert graph.neighbors is not None
    assert graph.loop
    assert graph.neighbors[:, 0].tolist() == list(range(15))
    # with loop=True all n nodes can be neighbours
    everyone = DiscreteDGM(nn.Identity(), k=15, temperature=1.0, loop=True)(x, generator=seeded(0))
    assert everyone.neighbors is not None
    assert torch.equal(everyone.neighbors.sort(1).values, torch.arange(15).expand(15, 15))


def test_the_sampler_gets_the_current_temperature() -> None:
    """Broken: samples do not follow t: near infinity they are the nearest neighbours, near zero uniform."""
    x = points(60, 3)
    dgm = DiscreteDGM(nn.Identity(), k=4, temperature=1e8)
    nearest = (torch.cdist(x, x) + 1e9 * torch.eye(60)).topk(4, largest=False).indices

    def share_of_nearest() -> float:
        graph = dgm(x, generator=seeded(3))
        assert graph.neighbors is not None
        return float((graph.neighbors[:, :, None] == nearest[:, None, :]).any(-1).float().mean())

    assert share_of_nearest() == 1.0
    with torch.no_grad():
        dgm.log_temperature.fill_(math.log(1e-8))
    assert share_of_nearest() < 0.2  # 4 of 59 by chance


@every_geometry
def test_the_sampler_gets_the_geometry(geometry: Geometry) -> None:
    """Broken: samples follow Euclidean distances of points that live elsewhere."""
    dgm = DiscreteDGM(linear(4, 5), k=3, geometry=geometry, temperature=1e9)
    graph = dgm(points(40, 4), generator=seeded(0))
    x_hat = graph.x_hat.detach().double()
    sq_dist = torch.stack([geometry.sq_dist(row, x_hat) for row in x_hat]).fill_diagonal_(torch.inf)
    assert graph.neighbors is not None
    assert torch.equal(graph.neighbors, sq_dist.topk(3, largest=False).indices)


def test_generator_makes_samples_repeatable() -> None:
    """Broken: a sample depends on hidden state, or ignores the generator."""
    dgm, x = DiscreteDGM(nn.Identity(), k=4, temperature=0.5), points(40, 3)

    def sample(generator: torch.Generator | None) -> Tensor:
        neighbors = dgm(x, generator=generator).neighbors
        assert neighbors is not None
        return neighbors

    before = torch.get_rng_state()
    first = sample(seeded(5))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(sample(seeded(5)), first)
    assert not torch.equal(sample(seeded(6)), first)
    generator = seeded(5)
    assert torch.equal(sample(generator), first)
    assert not torch.equal(sample(generator), first)  # the generator moved on
    with torch.random.fork_rng():
        torch.manual_seed(9)
        a = sample(None)
        torch.manual_seed(9)
        assert torch.equal(sample(None), a)


@every_geometry
def test_without_noise_it_is_the_nearest_neighbours(geometry: Geometry) -> None:
    """Broken: noise=False still samples, takes another metric, or claims a likelihood."""
    dgm = DiscreteDGM(linear(4, 5), k=3, geometry=geometry, noise=False)
    x = points(25, 4)
    graph = dgm(x)
    sq_dist = torch.stack([geometry.sq_dist(row, graph.x_hat) for row in graph.x_hat]).detach()
    sq_dist.fill_diagonal_(torch.inf)
    assert graph.neighbors is not None
    assert torch.equal(graph.neighbors, sq_dist.topk(3, largest=False).indices)
    assert graph.log_p is not None
    assert not graph.log_p.requires_grad
    assert graph.x_hat.requires_grad  # the next layer's f stands on it
    assert not dgm.calibrated  # no temperature was needed
    assert float(dgm.temperature.detach()) == 1.0


# What a continuous graph module returns


@every_geometry
def test_adjacency_by_hand_and_its_gradients(geometry: Geometry) -> None:
    """Broken: the logistic weight has the wrong sign, geometry or parameters."""
    dgm = ContinuousDGM(linear(4, 5), geometry=geometry, temperature=0.8, threshold=1.5).double()
    x = 0.2 * points(9, 4).double()
    graph = dgm(x)
    assert graph.adj is not None
    x_hat = geometry.project(dgm.embed(x))
    for i in range(9):
        for j in range(9):
            d = float(geometry.sq_dist(x_hat[i], x_hat[j]).detach())
            assert float(graph.adj[i, j].detach()) == pytest.approx(1 / (1 + math.exp(-0.8 * (1.5 - d))), rel=1e-6)
    graph.adj.square().sum().backward()
    for name, parameter in dgm.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
    assert float(dgm.log_temperature.grad) != 0  # type: ignore[arg-type]
    assert float(dgm.threshold.grad) != 0  # type: ignore[arg-type]
    assert bool(gradient(dgm.embed).ne(0).any())


def test_continuous_is_deterministic_and_draws_nothing() -> None:
    """Broken: a continuous module moves a generator or the global state."""
    dgm, x, generator = ContinuousDGM(nn.Identity()), points(12, 3), seeded(1)
    state, global_state = generator.get_state(), torch.get_rng_state()
    a, b = dgm(x, generator=generator), dgm(x)
    assert torch.equal(a.adj, b.adj)
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(torch.get_rng_state(), global_state)


# The temperature


@pytest.mark.parametrize("k", [1, 3, 5, 10])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_calibration_gives_about_three_k_candidates(k: int, scale: float) -> None:
    """Broken: before training the sampler is uniform or deterministic, depending on the units of the features."""
    x = scale * points(150, 4)
    dgm = DiscreteDGM(nn.Identity(), k=k)
    dgm(x, generator=seeded(0))
    assert bool(dgm.calibrated)
    assert perplexity(x, float(dgm.temperature.detach())) == pytest.approx(3 * k, rel=0.02)


def test_calibration_never_wants_more_than_half_of_the_nodes() -> None:
    """Broken: with few nodes 3 k candidates do not exist and t runs to its lower bound."""
    x = points(12, 4)
    dgm = DiscreteDGM(nn.Identity(), k=9)
    dgm(x, generator=seeded(0))
    assert perplexity(x, float(dgm.temperature.detach())) == pytest.approx(6, rel=0.02)


def test_calibration_uses_the_geometry() -> None:
    """Broken: t is set from Euclidean distances of points that live elsewhere."""
    ball = PoincareBall()
    x = ball.project(points(100, 3))
    dgm = DiscreteDGM(nn.Identity(), k=4, geometry=ball)
    dgm(x, generator=seeded(0))
    sq_dist = ball.sq_cdist(x.double(), x.double())
    sq_dist = sq_dist[~torch.eye(100, dtype=torch.bool)].view(100, 99)
    p = torch.softmax(-float(dgm.temperature.detach()) * sq_dist, 1)
    mean_entropy = float(-(p * p.clamp_min(1e-300).log()).sum(1).mean())
    assert math.exp(mean_entropy) == pytest.approx(12, rel=0.02)


def test_calibration_happens_once() -> None:
    """Broken: t is set again and again and cannot be learned."""
    dgm = DiscreteDGM(nn.Identity(), k=3)
    dgm(points(50, 3), generator=seeded(0))
    t = dgm.log_temperature.detach().clone()
    assert float(t) != 0
    dgm(100 * points(50, 3, seed=1), generator=seeded(0))
    assert torch.equal(dgm.log_temperature, t)
    assert dgm.log_temperature.requires_grad


def test_calibration_survives_saving() -> None:
    """Broken: a loaded model sets its learned temperature anew from the first patient it sees."""
    dgm = DiscreteDGM(nn.Identity(), k=3)
    dgm(points(50, 3), generator=seeded(0))
    loaded = DiscreteDGM(nn.Identity(), k=3)
    loaded.load_state_dict(dgm.state_dict())
    loaded(100 * points(50, 3, seed=1), generator=seeded(0))
    assert torch.equal(loaded.log_temperature, dgm.log_temperature)

    continuous = ContinuousDGM(nn.Identity())
    continuous(points(50, 3))
    again = ContinuousDGM(nn.Identity())
    again.load_state_dict(continuous.state_dict())
    again(100 * points(50, 3, seed=1))
    assert torch.equal(again.log_temperature, continuous.log_temperature)
    assert torch.equal(again.threshold, continuous.threshold)


def test_a_given_temperature_is_kept() -> None:
    """Broken: what the user chose is overwritten."""
    dgm = DiscreteDGM(nn.Identity(), k=3, temperature=0.25)
    dgm(points(50, 3), generator=seeded(0))
    assert float(dgm.temperature.detach()) == pytest.approx(0.25)
    continuous = ContinuousDGM(nn.Identity(), temperature=0.25, threshold=0.0)
    continuous(points(50, 3))
    assert float(continuous.temperature.detach()) == pytest.approx(0.25)
    assert float(continuous.threshold.detach()) == 0.0


@pytest.mark.parametrize("temperature", [None, 2.0])
@pytest.mark.parametrize("threshold", [None, 3.0])
def test_continuous_sets_only_what_was_not_given(temperature: float | None, threshold: float | None) -> None:
    """Broken: giving one of t and T fixes, or forgets, the other. A typical node starts with 10 neighbours."""
    x = points(120, 3)
    dgm = ContinuousDGM(nn.Identity(), temperature=temperature, threshold=threshold)
    dgm(x)
    if temperature is None:
        assert perplexity(x, float(dgm.temperature.detach())) == pytest.approx(30, rel=0.02)
    else:
        assert float(dgm.temperature.detach()) == pytest.approx(2.0)
    if threshold is None:
        closer = (torch.cdist(x, x).square() <= float(dgm.threshold.detach()) * (1 + 1e-4)).sum(1) - 1
        assert float(closer.float().median()) == pytest.approx(10, abs=1)
    else:
        assert float(dgm.threshold.detach()) == 3.0


def test_calibration_with_a_batch_looks_at_one_graph() -> None:
    """Broken: distances between different graphs, which are never candidates, decide t."""
    cloud = points(60, 3)
    alone, together = DiscreteDGM(nn.Identity(), k=3), DiscreteDGM(nn.Identity(), k=3)
    alone(cloud, generator=seeded(0))
    batch = torch.arange(3).repeat_interleave(60)
    together(torch.cat([cloud, 0.1 * cloud, 10 * cloud]), batch=batch, generator=seeded(0))
    torch.testing.assert_close(together.temperature, alone.temperature)


def test_calibration_of_many_nodes_from_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: with columns left out, 3 k of the sampled candidates are taken for 3 k of all."""
    x = points(900, 2)
    monkeypatch.setattr(layers, "_SAMPLE_COLUMNS", 300)
    monkeypatch.setattr(layers, "_SAMPLE_PAIRS", 300 * 100)
    dgm = DiscreteDGM(nn.Identity(), k=5)
    dgm(x, generator=seeded(0))
    assert perplexity(x, float(dgm.temperature.detach())) == pytest.approx(15, rel=0.2)


def test_calibration_of_more_nodes_than_single_precision_counts() -> None:
    """Broken: the last sampled node of 2^24 + 4 is rounded up, past the end."""
    n = 2**24 + 4
    sq_dist, share = layers.sampled_distances(torch.zeros(1, 1).expand(n, 1), Euclidean(), None)
    assert share == layers._SAMPLE_COLUMNS / n
    assert sq_dist.shape == (16, layers._SAMPLE_COLUMNS - 1)


@pytest.mark.parametrize("n", [2, 3, 30])
def test_equal_points_do_not_crash(n: int) -> None:
    """Broken: constant features make t zero, infinite or NaN."""
    x = torch.ones(n, 3)
    graph = DiscreteDGM(nn.Identity(), k=1)(x, generator=seeded(0))
    assert float(graph.temperature.detach()) == 1.0
    assert graph.log_p is not None
    assert torch.equal(graph.log_p, torch.zeros(n))
    continuous = ContinuousDGM(nn.Identity())(x)
    assert continuous.adj is not None
    assert bool(continuous.adj.isfinite().all())


def test_two_nodes_choose_each_other() -> None:
    """Broken: the smallest possible graph, where no t matters."""
    x = points(2, 3)
    graph = DiscreteDGM(nn.Identity(), k=1)(x, generator=seeded(0))
    assert graph.neighbors is not None
    assert graph.neighbors.tolist() == [[1], [0]]
    assert float(graph.temperature.detach()) == 1.0
    continuous = ContinuousDGM(nn.Identity())
    continuous(x)
    torch.testing.assert_close(continuous.threshold.detach(), (x[0] - x[1]).pow(2).sum())


def test_repeated_rows_do_not_freeze_the_graph() -> None:
    """Broken: with more than 3 k copies of each row (a few yes/no columns) t runs to its upper bound of 1e9.

    Then only copies are ever chosen, at distance zero, where log p has no slope: the graph never learns.
    """
    rows = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    x = rows.repeat(40, 1)
    dgm = DiscreteDGM(linear(3, 2), k=5)
    graph = dgm(x, generator=seeded(0))
    assert perplexity(graph.x_hat.detach(), float(dgm.temperature.detach())) == pytest.approx(2 * 39, rel=0.05)
    assert graph.log_p is not None
    assert float((graph.log_p < 0).float().mean()) > 0.1  # others than copies are chosen
    graph.log_p.sum().backward()
    assert float(gradient(dgm.embed).abs().max()) > 0.1


@pytest.mark.parametrize("x", [torch.full((6, 3), torch.nan), torch.full((6, 3), torch.inf), torch.zeros(0, 3)])
@pytest.mark.parametrize("make", [lambda: DiscreteDGM(nn.Identity(), k=2), lambda: ContinuousDGM(nn.Identity())])
def test_a_refused_first_call_leaves_no_trace(x: Tensor, make: Callable[[], nn.Module]) -> None:
    """Broken: after one call with unusable features, t and T stay what those features made of them."""
    dgm, fresh = make(), make()
    with pytest.raises(InputError):
        dgm(x)
    usable = points(30, 3)
    dgm(usable, generator=seeded(0))
    fresh(usable, generator=seeded(0))
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(dgm.state_dict()[name], value)


def test_temperature_stays_positive_and_keeps_its_gradient() -> None:
    """Broken: a clamp or an unconstrained t: one large step ends all learning of the temperature."""
    x = points(10, 3)
    for log_t in (-20.0, -5.0, 0.0, 5.0, 20.0):
        dgm = DiscreteDGM(nn.Identity(), k=2, temperature=1.0)
        with torch.no_grad():
            dgm.log_temperature.fill_(log_t)
        graph = dgm(x, generator=seeded(0))
        assert graph.log_p is not None
        (slope,) = torch.autograd.grad(graph.log_p.sum(), dgm.log_temperature)
        assert float(dgm.temperature.detach()) > 0
        assert math.isfinite(float(slope))
        assert float(slope) < 0

    dgm = DiscreteDGM(nn.Identity(), k=2, temperature=1.0)
    optimizer = torch.optim.Adam(dgm.parameters(), lr=1.0)
    for _ in range(30):  # push t down as hard as Adam can
        optimizer.zero_grad()
        (-dgm(x, generator=seeded(0)).log_p.sum()).backward()
        optimizer.step()
    assert 0 < float(dgm.temperature.detach()) < 1e-3


# Embeddings


def ring(n: int) -> Tensor:
    """Edges j -> j + 1."""
    source = torch.arange(n)
    return torch.stack([source, (source + 1) % n])


EMBEDDINGS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: mlp([4, 8, 3]),
    "identity": nn.Identity,
    "linear": lambda: nn.Linear(4, 3),
}
GRAPH_EMBEDDINGS: dict[str, Callable[[], nn.Module]] = {
    "GCNConv": lambda: GCNConv(4, 3),
    "SAGEConv": lambda: SAGEConv(4, 3),
    "GATConv": lambda: GATConv(4, 3),
    "gcn": lambda: gcn([4, 8, 3]),
    "gat": lambda: gat([4, 8, 3], heads=2),
}


@pytest.mark.parametrize("name", [*EMBEDDINGS, *GRAPH_EMBEDDINGS])
@pytest.mark.parametrize("kind", [DiscreteDGM, ContinuousDGM])
def test_embed_is_called_on_the_input_graph(name: str, kind: type[DiscreteDGM] | type[ContinuousDGM]) -> None:
    """Broken: f does not see the input graph, or a node-wise f does."""
    embed = {**EMBEDDINGS, **GRAPH_EMBEDDINGS}[name]()
    dgm, x, edge_index = kind(embed), points(30, 4), ring(30)
    x_hat = dgm(x, edge_index, generator=seeded(0)).x_hat
    expected = embed(x) if name in EMBEDDINGS else embed(x, edge_index)
    torch.testing.assert_close(x_hat, expected)
    other = dgm(x, edge_index.flip(0), generator=seeded(0)).x_hat
    assert torch.allclose(other, x_hat) == (name in EMBEDDINGS)


@pytest.mark.parametrize("name", GRAPH_EMBEDDINGS)
def test_a_convolution_as_f_needs_a_graph(name: str) -> None:
    """Broken: the user is told about a missing argument in the depths of PyG."""
    with pytest.raises(InputError, match=r"works on a graph but none was given.*edge_index"):
        DiscreteDGM(GRAPH_EMBEDDINGS[name](), k=2)(points(30, 4))


def test_f_on_a_learned_graph() -> None:
    """Broken: the second layer's f cannot stand on the first layer's graph, sampled or weighted."""
    x = points(30, 4)
    sampled = DiscreteDGM(nn.Identity(), k=3)(x, generator=seeded(0))
    f = gcn([4, 3])
    torch.testing.assert_close(ContinuousDGM(f)(x, sampled).x_hat, f(x, sampled.edge_index))
    weighted = ContinuousDGM(nn.Identity())(x)
    torch.testing.assert_close(DiscreteDGM(f, k=3)(x, weighted, generator=seeded(0)).x_hat, f(x, weighted))
    with pytest.raises(InputError, match="SAGEConv needs an edge list"):
        DiscreteDGM(SAGEConv(4, 3), k=3)(x, weighted)


def test_points_outside_the_ball_are_brought_in() -> None:
    """Broken: f's output is used as it is, where distances are infinite."""
    graph = DiscreteDGM(nn.Identity(), k=2, geometry=PoincareBall())(100 * points(20, 3), generator=seeded(0))
    assert float(graph.x_hat.norm(dim=1).max()) < 1
    assert graph.log_p is not None
    assert bool(graph.log_p.isfinite().all())


# Batches


BATCH = torch.tensor([0] * 7 + [1] * 4 + [3] * 9)


def test_sampled_neighbours_come_from_the_same_graph() -> None:
    """Broken: graphs of a batch leak into each other."""
    graph = DiscreteDGM(nn.Identity(), k=3)(points(20, 3), batch=BATCH, generator=seeded(0))
    assert graph.neighbors is not None
    assert torch.equal(BATCH[graph.neighbors], BATCH[:, None].expand(20, 3))
    assert graph.batch is BATCH


def test_adjacency_of_a_batch_is_block_diagonal() -> None:
    """Broken: graphs of a batch leak into each other."""
    dgm, x = ContinuousDGM(nn.Identity(), temperature=1.0, threshold=2.0), points(20, 3)
    adj = dgm(x, batch=BATCH).adj
    assert adj is not None
    alone = torch.block_diag(*[dgm(x[BATCH.eq(g)]).adj for g in (0, 1, 3)])
    torch.testing.assert_close(adj, alone)
    assert bool((adj[BATCH[:, None] != BATCH] == 0).all())


# Errors


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", [DiscreteDGM, ContinuousDGM])
def test_a_senseless_temperature_is_refused(temperature: float, kind: type[DiscreteDGM] | type[ContinuousDGM]) -> None:
    with pytest.raises(InputError, match=r"must be positive and finite"):
        kind(nn.Identity(), temperature=temperature)


def test_unusable_calls_are_refused_in_words() -> None:
    """Broken: topk or cdist complain instead of the library."""
    x = points(12, 3)
    with pytest.raises(InputError, match=r"k=12 but the graph has 12 nodes; k can be at most 11 with loop=False"):
        DiscreteDGM(nn.Identity(), k=12)(x)
    with pytest.raises(InputError, match=r"k=4 but the smallest graph of the batch has 4 nodes"):
        DiscreteDGM(nn.Identity(), k=4)(points(20, 3), batch=BATCH)
    with pytest.raises(InputError, match="backend='gpu' is not known"):
        DiscreteDGM(nn.Identity(), k=2, backend="gpu")(x)
    with pytest.raises(InputError, match="ascending"):
        DiscreteDGM(nn.Identity(), k=2)(points(20, 3), batch=BATCH.flip(0))
    x[4, 1] = math.nan
    calibrated = DiscreteDGM(nn.Identity(), k=2, temperature=1.0)
    with pytest.raises(InputError, match="NaN or infinite"):
        calibrated(x)


def test_repr_names_what_matters() -> None:
    assert "k=4" in repr(DiscreteDGM(nn.Identity(), k=4))
    assert "PoincareBall" in repr(ContinuousDGM(nn.Identity(), geometry=PoincareBall()))


def test_a_graph_is_a_latent_graph() -> None:
    """Broken: a module returns something `DGMNet` cannot use."""
    assert isinstance(DiscreteDGM(nn.Identity(), k=2)(points(8, 2)), LatentGraph)
    assert isinstance(ContinuousDGM(nn.Identity())(points(8, 2)), LatentGraph)
