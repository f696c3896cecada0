"""Priors: each against its plain formula, over all pairs and without blocks; gradients; what makes no sense."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from latentgraph import ContinuousDGM, DiscreteDGM, Euclidean, InputError, LatentGraph, PoincareBall, blocks
from latentgraph.geometry import Geometry
from latentgraph.graph import neighbors_to_edges
from latentgraph.priors import Connectivity, Degrees, Entropy, Prior, Smoothness, Sparsity, TreeLike, power_law
from latentgraph.priors.law import Law
from latentgraph.priors.tree_like import draw_quadruples
from latentgraph.probability import edge_log_p

N, K = 9, 2
CASES: list[tuple[str, str, int | None]] = [  # kind, how many, pairs in a block
    ("discrete", "one graph", None),
    ("discrete", "three graphs", 12),
    ("continuous", "one graph", 12),
    ("continuous", "three graphs", None),
    ("loops", "one graph", None),
    ("hyperbolic", "one graph", 12),
]
BATCHES = {"one graph": None, "three graphs": torch.tensor([0, 0, 0, 0, 3, 3, 3, 3, 7])}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(seed: int = 0, n: int = N) -> Tensor:
    return 0.4 * torch.randn(n, 2, generator=seeded(seed), dtype=torch.float64)


def discrete(
    x_hat: Tensor,
    t: Tensor | float = 3.0,
    *,
    loop: bool = False,
    batch: Tensor | None = None,
    geometry: Geometry | None = None,
    neighbors: Tensor | None = None,
) -> LatentGraph:
    """Of a batch, nodes have the others of their graph, and themselves in the places that are left."""
    temperature = torch.as_tensor(t, dtype=x_hat.dtype)
    geometry = geometry or Euclidean()
    if neighbors is None:
        dgm = DiscreteDGM(nn.Identity(), K, geometry=geometry, temperature=float(t), loop=loop, fill=not loop)
        neighbors = dgm(x_hat.detach(), batch=batch, generator=seeded(1)).neighbors
    assert neighbors is not None
    log_p = edge_log_p(x_hat, neighbors_to_edges(neighbors), temperature, geometry)
    return LatentGraph(x_hat, temperature, geometry, neighbors=neighbors, log_p=log_p, batch=batch, loop=loop)


def continuous(
    x_hat: Tensor,
    t: Tensor | float = 3.0,
    threshold: Tensor | float = 0.5,
    *,
    batch: Tensor | None = None,
    geometry: Geometry | None = None,
) -> LatentGraph:
    t, threshold = torch.as_tensor(t, dtype=x_hat.dtype), torch.as_tensor(threshold, dtype=x_hat.dtype)
    return LatentGraph(x_hat, t, geometry or Euclidean(), threshold=threshold, batch=batch)


def graphs(x_hat: Tensor, batch: Tensor | None = None) -> dict[str, LatentGraph]:
    found = {"discrete": discrete(x_hat, batch=batch), "continuous": continuous(x_hat, batch=batch)}
    if batch is None:
        found |= {
            "loops": discrete(x_hat, loop=True),
            "hyperbolic": discrete(x_hat, geometry=PoincareBall()),
            "continuous hyperbolic": continuous(x_hat, geometry=PoincareBall()),
        }
    return found


def every_graph() -> list[tuple[str, LatentGraph]]:
    return [
        (f"{name}, {many}", graph) for many, batch in BATCHES.items() for name, graph in graphs(points(), batch).items()
    ]


each_graph = pytest.mark.parametrize("graph", [graph for _, graph in every_graph()], ids=[n for n, _ in every_graph()])


# What the priors are about, pair by pair


def weight(graph: LatentGraph, i: int, j: int) -> float:
    if graph.batch is not None and graph.batch[i] != graph.batch[j]:
        return 0.0
    if i == j and not graph.loop:
        return 0.0
    sq_dist = float(graph.geometry.sq_dist(graph.x_hat[i], graph.x_hat[j]))
    t = float(graph.temperature)
    if graph.threshold is None:
        return math.exp(-t * sq_dist)
    return 1 / (1 + math.exp(t * (sq_dist - float(graph.threshold))))


def weights(graph: LatentGraph) -> np.ndarray:
    n = graph.num_nodes
    return np.array([[weight(graph, i, j) for j in range(n)] for i in range(n)])


def shares(graph: LatentGraph) -> np.ndarray:
    w = weights(graph)
    total = w.sum(1, keepdims=True)
    return np.divide(w, total, out=np.zeros_like(w), where=total > 0)


def of_graph(graph: LatentGraph) -> list[np.ndarray]:
    """The nodes of each graph of a batch."""
    if graph.batch is None:
        return [np.arange(graph.num_nodes)]
    return [np.flatnonzero(graph.batch.numpy() == number) for number in graph.batch.unique().tolist()]


def value(prior: Prior, graph: LatentGraph, x: Tensor | None = None, out: Tensor | None = None) -> float:
    x = graph.x_hat if x is None else x
    return float(prior(graph, x, x if out is None else out, generator=seeded(2)))


# Each by its formula


def entropies(graph: LatentGraph) -> np.ndarray:
    return np.array([stats.entropy(row) if row.sum() else 0.0 for row in shares(graph)])


@each_graph
def test_entropy(graph: LatentGraph) -> None:
    h = entropies(graph)
    assert value(Entropy("low"), graph) == pytest.approx(h.mean())
    assert value(Entropy("high"), graph) == pytest.approx(-h.mean())
    assert value(Entropy(2.5), graph) == pytest.approx(((h - math.log(2.5)) ** 2).mean())


def test_entropy_of_some_nodes_is_unbiased() -> None:
    graph = discrete(points())
    found = [float(Entropy(2.5, rows=3)(graph, graph.x_hat, graph.x_hat, generator=seeded(s))) for s in range(800)]
    whole = value(Entropy(2.5), graph)
    assert abs(np.mean(found) - whole) < 4 * np.std(found) / len(found) ** 0.5
    assert np.std(found) > 0.01 * whole


def degrees(graph: LatentGraph) -> np.ndarray:
    return (shares(graph) if graph.threshold is None else weights(graph)).sum(0)


@each_graph
def test_no_hubs(graph: LatentGraph) -> None:
    d, terms = degrees(graph), []
    for nodes in of_graph(graph):
        if len(nodes) > 1:
            terms += [(d[nodes] / d[nodes].mean() - 1) ** 2]
    assert value(Degrees(), graph) == pytest.approx(np.concatenate(terms).mean())


@each_graph
def test_hubs_as_wanted(graph: LatentGraph) -> None:
    """Sorted, with quantiles between the sample's values."""
    wanted, d, terms = np.array([7.0, 1.0, 2.0, 1.5]), degrees(graph), []
    for nodes in of_graph(graph):
        s = len(nodes)
        if s > 1:
            at = (np.arange(s) + 0.5) / s
            q = np.interp(at, (np.arange(4) + 0.5) / 4, np.sort(wanted))
            terms += [(np.sort(d[nodes] / d[nodes].mean()) - q / q.mean()) ** 2]
    assert value(Degrees(torch.tensor(wanted)), graph) == pytest.approx(np.concatenate(terms).mean())


def test_degrees_that_are_as_wanted_cost_nothing() -> None:
    graph = discrete(points())
    assert value(Degrees(3 * torch.tensor(degrees(graph)).flip(0)), graph) == pytest.approx(0, abs=1e-20)
    assert value(Degrees(), graph) > 0.01


def test_power_law_has_its_quantiles() -> None:
    found = power_law(2.5, 400).numpy()
    np.testing.assert_allclose(found, stats.pareto(b=1.5).ppf((np.arange(400) + 0.5) / 400))


@each_graph
@pytest.mark.parametrize("of", ["x", "out"])
def test_smoothness(graph: LatentGraph, of: str) -> None:
    x = torch.randn(N, 3, generator=seeded(3), dtype=torch.float64) + 5
    out = torch.randn(N, 4, generator=seeded(4), dtype=torch.float64) - 2
    h = (x if of == "x" else out).numpy()
    square = ((h[:, None] - h) ** 2).sum(-1)
    p = shares(graph)
    allowed = weights(graph) > 0
    anybody = allowed / np.maximum(allowed.sum(1, keepdims=True), 1)
    expected = (p * square).sum() / (anybody * square).sum()
    assert value(Smoothness(of), graph, x, out) == pytest.approx(expected)  # type: ignore[arg-type]
    assert value(Smoothness(of), graph, 7 * x + 3, 7 * out + 3) == pytest.approx(expected)  # type: ignore[arg-type]


def test_smoothness_of_edges_to_anybody_is_one() -> None:
    graph = discrete(torch.zeros(N, 2, dtype=torch.float64))
    assert value(Smoothness("x"), graph, points(5)) == pytest.approx(1)


@each_graph
def test_sparsity(graph: LatentGraph) -> None:
    if graph.threshold is not None:
        possible = (weights(graph) > 0).sum(1)
        d = weights(graph).sum(1)
    else:
        assert graph.neighbors is not None
        assert graph.log_p is not None
        pairs = zip(graph.neighbors.tolist(), graph.log_p.exp().view(N, K).tolist(), strict=True)
        real = [[p for j, p in zip(*row, strict=True) if j != i or graph.loop] for i, row in enumerate(pairs)]
        possible = np.array([len(row) for row in real])
        d = np.array([sum(row) ** 2 / sum(p * p for p in row) if row else 0.0 for row in real])
    assert value(Sparsity(), graph) == pytest.approx(d.sum() / possible.sum())
    expected = math.log(d[possible > 0].mean() / 1.3) ** 2
    assert value(Sparsity(1.3), graph) == pytest.approx(expected)


def spanning_trees(nodes: list[int]) -> list[list[tuple[int, int]]]:
    """All of them, by brute force."""
    found = []
    for links in combinations(list(combinations(nodes, 2)), len(nodes) - 1):
        reached = {nodes[0]}
        for _ in nodes:
            reached |= {b for a, b in links if a in reached} | {a for a, b in links if b in reached}
        if len(reached) == len(nodes):
            found.append(list(links))
    return found


@pytest.mark.parametrize("enough", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("kind", "many"), [case[:2] for case in CASES])
def test_connectivity(kind: str, many: str, enough: float) -> None:
    batch = torch.tensor([0, 0, 0, 0, 1, 2]) if many == "three graphs" else None
    graph = graphs(points(n=6), batch)[kind]
    b = weights(graph) if graph.threshold is not None else K * (shares(graph) + shares(graph).T)
    nodes = [0, 1, 2, 3] if many == "three graphs" else list(range(6))
    best = max(spanning_trees(nodes), key=lambda tree: sum(math.log(b[i, j]) for i, j in tree))
    expected = np.mean([max(0.0, math.log(enough / b[i, j])) for i, j in best])
    assert value(Connectivity(enough), graph) == pytest.approx(expected)


def test_the_tree_is_the_largest_term_of_the_determinant() -> None:
    graph = continuous(torch.tensor([[0.0], [1.0], [2.5], [6.0], [7.0]], dtype=torch.float64), t=1.0, threshold=0.0)
    b = weights(graph)
    trees = [math.prod(b[i, j] for i, j in tree) for tree in spanning_trees(list(range(5)))]
    laplacian = np.diag(b.sum(1)) - b
    assert np.linalg.det(laplacian[1:, 1:]) == pytest.approx(sum(trees))
    assert value(Connectivity(), graph) == pytest.approx(-math.log(max(trees)) / 4)


def test_a_graph_in_two_pieces_has_a_gradient_that_joins_them() -> None:
    """Where p between them is zero in any precision."""
    x_hat = torch.cat([points(), points(1) + 300]).requires_grad_()
    graph = discrete(x_hat)
    loss = Connectivity()(graph, x_hat, x_hat)
    (grad,) = torch.autograd.grad(loss, x_hat)
    assert float(loss.detach()) > 1e4
    assert (grad[:N].sum(0) < 0).all()  # a step against it goes towards the others
    assert (grad[N:].sum(0) > 0).all()


# Trees


def test_quadruples_have_their_law() -> None:
    """Ordered quadruples of two graphs, in proportion to their nodes; a third has too few."""
    drawn = draw_quadruples(torch.tensor([4, 3, 5]), 60_000, seeded())
    outcomes = [(4 / 9 / 24, p) for p in permutations(range(4), 4)]
    outcomes += [(5 / 9 / 120, p) for p in permutations(range(7, 12), 4)]
    counts = dict.fromkeys((p for _, p in outcomes), 0)
    for row in drawn.tolist():
        counts[tuple(row)] += 1
    expected = [60_000 * probability for probability, _ in outcomes]
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-3
    assert len(draw_quadruples(torch.tensor([3, 1]), 5, seeded())) == 0


def test_tree_like_by_its_definition() -> None:
    x_hat = points()
    for geometry in (Euclidean(), PoincareBall()):
        d = geometry.sq_cdist(x_hat, x_hat).sqrt().numpy()
        found = []
        for a, b, c, e in draw_quadruples(torch.tensor([N]), 50, seeded(2)).tolist():
            sums = sorted([d[a, b] + d[c, e], d[a, c] + d[b, e], d[a, e] + d[b, c]])
            found.append((sums[2] - sums[1]) / d[np.ix_([a, b, c, e], [a, b, c, e])].max())
        assert value(TreeLike(50), discrete(x_hat, geometry=geometry)) == pytest.approx(np.mean(found))
        assert 0 < np.mean(found) < 1


def test_points_of_a_line_are_a_tree() -> None:
    assert value(TreeLike(), discrete(points()[:, :1])) == pytest.approx(0, abs=1e-12)


def test_minimising_makes_random_points_more_tree_like() -> None:
    """On other quadruples than those learned from, and without falling into one point."""
    x_hat = torch.randn(40, 5, generator=seeded(), dtype=torch.float64).requires_grad_()
    optimizer, generator = torch.optim.Adam([x_hat], lr=0.03), seeded(1)
    prior = TreeLike(200)
    before = value(TreeLike(5000), discrete(x_hat.detach()))
    for _ in range(100):
        optimizer.zero_grad()
        prior(continuous(x_hat), x_hat, x_hat, generator=generator).backward()
        optimizer.step()
    after = value(TreeLike(5000), discrete(x_hat.detach()))
    assert after < 0.4 * before, (before, after)
    assert float(torch.pdist(x_hat.detach()).median()) > 1


# Gradients, blocks, parts

PRIORS: dict[str, Prior] = {
    "entropy": Entropy("low"),
    "perplexity": Entropy(2.0),
    "no hubs": Degrees(),
    "power law": Degrees(power_law(2.5)),
    "connectivity": Connectivity(5.0),
    "smoothness": Smoothness(),
    "smoothness of features": Smoothness("x"),
    "sparsity": Sparsity(),
    "degree": Sparsity(1.7),
    "tree": TreeLike(12),
}


@pytest.mark.parametrize(("kind", "many", "block"), CASES)
@pytest.mark.parametrize("name", PRIORS)
def test_gradients_are_those_of_finite_differences(
    name: str, kind: str, many: str, block: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the embedding, t, T and the output; whole, and in blocks that are computed again."""
    prior, batch, loop = PRIORS[name], BATCHES[many], kind == "loops"
    geometry = PoincareBall() if kind == "hyperbolic" else Euclidean()
    neighbors = discrete(points(), loop=loop, batch=batch, geometry=geometry).neighbors
    if block is not None:
        monkeypatch.setattr(blocks, "BLOCK", block)

    def of(x_hat: Tensor, t: Tensor, threshold: Tensor, out: Tensor) -> Tensor:
        if kind == "continuous":
            graph = continuous(x_hat, t, threshold, batch=batch)
        else:
            graph = discrete(x_hat, t, loop=loop, batch=batch, geometry=geometry, neighbors=neighbors)
        return prior(graph, out, out, generator=seeded(2)) + 0 * (x_hat.sum() + t + threshold + out.sum())

    inputs = [points(), torch.tensor(3.0).double(), torch.tensor(0.5).double(), points(7)]
    assert torch.autograd.gradcheck(of, [tensor.requires_grad_() for tensor in inputs])


@each_graph
@pytest.mark.parametrize("name", PRIORS)
def test_blocks_change_nothing(name: str, graph: LatentGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = value(PRIORS[name], graph)
    monkeypatch.setattr(blocks, "BLOCK", 20)
    assert value(PRIORS[name], graph) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_gradients_where_points_coincide(name: str) -> None:
    """And where they are far apart: finite everywhere, in single precision."""
    x_hat = torch.cat([torch.zeros(4, 2), 1e3 * torch.ones(3, 2), torch.randn(3, 2, generator=seeded())])
    for make in (discrete, continuous):
        leaf = x_hat.clone().requires_grad_()
        loss = PRIORS[name](make(leaf), leaf, leaf, generator=seeded())
        assert loss.isfinite()
        (grad,) = torch.autograd.grad(loss, leaf)
        assert grad.isfinite().all()


@pytest.mark.parametrize("name", PRIORS)
def test_nodes_on_their_own(name: str) -> None:
    """Graphs of one node each: nobody to choose, nothing to wish, and no NaN."""
    leaf = points(n=3).requires_grad_()
    for make in (discrete, continuous):
        graph = make(leaf, batch=torch.arange(3))
        loss = PRIORS[name](graph, leaf, leaf, generator=seeded())
        (grad,) = torch.autograd.grad(loss + leaf.sum(), leaf)
        assert grad.isfinite().all()
        assert loss.isfinite()


def test_a_part_is_a_population_of_its_own() -> None:
    batch = BATCHES["three graphs"]
    law = Law.of(discrete(points(), batch=batch)).part(5, seeded())
    chosen = torch.randperm(N, generator=seeded())[:5].sort().values
    assert torch.equal(law.x_hat, points()[chosen])
    assert batch is not None
    assert law.batch is not None
    assert torch.equal(law.batch, batch[chosen])
    assert Law.of(discrete(points())).part(N, None).some(None, None) is None  # nothing is drawn for all


@pytest.mark.parametrize("prior", [Degrees(nodes=6), Connectivity(nodes=6), Entropy(rows=6), Smoothness(rows=6)])
def test_what_is_drawn_comes_from_the_generator(prior: Prior) -> None:
    graph, out = discrete(points()), points(8)
    first, again, other = (float(prior(graph, out, out, generator=seeded(s))) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_smoothness_of_some_nodes_is_near_that_of_all() -> None:
    graph, out = discrete(points(n=60)), points(8, n=60)
    found = [float(Smoothness(rows=20)(graph, out, out, generator=seeded(s))) for s in range(200)]
    assert abs(np.mean(found) - value(Smoothness(), graph, out)) < 4 * np.std(found) / 200**0.5


# What makes no sense


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Entropy(0.5), "perplexity=0.5; it must be 'low', 'high', or"),
        (lambda: Entropy("lower"), "perplexity='lower'"),  # type: ignore[arg-type]
        (lambda: Entropy(rows=0), "rows=0 of Entropy; it must be positive"),
        (lambda: Degrees(torch.tensor([1.0, -1.0])), "none of them negative"),
        (lambda: Degrees(torch.zeros(3)), "not all zero"),
        (lambda: Degrees(torch.ones(2, 2)), r"shape \(2, 2\)"),
        (lambda: Degrees(nodes=-5), "nodes=-5"),
        (lambda: power_law(1.0), "exponent=1.0"),
        (lambda: Connectivity(enough=0.0), "enough=0.0"),
        (lambda: Smoothness("y"), r"of='y'; choose one of \('out', 'x'\)"),  # type: ignore[arg-type]
        (lambda: Sparsity(degree=math.inf), "degree=inf"),
        (lambda: TreeLike(0), "quadruples=0"),
        (lambda: TreeLike(weight=-1.0), "weight=-1.0 of TreeLike; it must be finite and not negative"),
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_graphs_that_a_prior_is_not_about() -> None:
    x = points()
    nearest = DiscreteDGM(nn.Identity(), K, noise=False)(x)
    for prior in (Entropy(), Degrees(), Connectivity(), Smoothness(), Sparsity()):
        with pytest.raises(InputError, match="nearest neighbours"):
            prior(nearest, x, x)
    assert float(TreeLike()(nearest, x, x)) > 0
    graph = ContinuousDGM(nn.Identity())(x)
    with pytest.raises(InputError, match=r"each of the 9 nodes, .* of shape \(2, 2\)\. Use the other of 'out' and 'x'"):
        Smoothness()(graph, x, x[:2])
    with pytest.raises(InputError, match="sparse_coo"):
        Smoothness("x")(graph, x.to_sparse(), x)


@pytest.mark.parametrize("prior", [Entropy("low"), Degrees(), Smoothness("x")], ids=repr)
def test_a_learned_curvature_learns_by_priors(prior: Prior, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: blocks that are computed again forget what is learned beside the embedding."""
    monkeypatch.setattr(blocks, "BLOCK", 12)
    x_hat = PoincareBall().project(points())

    def of_curvature(log_c: Tensor) -> Tensor:
        geometry = PoincareBall(log_c.exp())
        return prior(discrete(x_hat, geometry=geometry, neighbors=(torch.arange(N)[:, None] + 1) % N), x_hat, x_hat)

    assert torch.autograd.gradcheck(of_curvature, torch.tensor(0.3, dtype=torch.float64, requires_grad=True))


def test_sparsity_of_unequal_degrees() -> None:
    """Nodes with two neighbours of the same weight, one, and none: 2, 1 and nothing of 2, 1 and 0 possible ones."""
    x_hat = torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64)
    graph = discrete(x_hat, neighbors=torch.tensor([[1, 2], [0, 2], [0, 1]]))
    kept = graph.keep(torch.tensor([[True, True], [True, False], [False, False]]))
    assert value(Sparsity(), kept) == pytest.approx((2 + 1) / (2 + 1))
    assert value(Sparsity(degree=1.5), kept) == pytest.approx(0.0, abs=1e-12)
    assert Law.of(kept).k == pytest.approx(1.0)
