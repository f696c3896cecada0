"""Zero-shot learning: formulas by hand, exactness of what is computed for few rows, and all methods on a small tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.datasets.synthetic import class_tree
from latentgraph.diffusion import RowNormalised
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import graph_loss
from latentgraph.model import DGMNet
from latentgraph.presets import zero_shot_net
from latentgraph.stacks import Stack
from latentgraph.zero_shot import hierarchy
from latentgraph.zero_shot.classes import Classes, ZeroShotMethod, arrange, subsample
from latentgraph.zero_shot.dense_propagation import DGP, DensePropagationNet
from latentgraph.zero_shot.given_graph import GCNZ, SGCN, GivenGraphNet, NearestGraph, NoGraph
from latentgraph.zero_shot.learned_graph import (
    BestDGM,
    FirstRows,
    PaperDGM,
    RingsDGM,
    UnitPaperDGM,
    neighbour_mean,
    principal_components,
)
from latentgraph.zero_shot.network import row_task
from latentgraph.zero_shot.ridge import KernelRidge, RingsKernelRidge
from latentgraph.zero_shot.rings import with_rings
from latentgraph.zero_shot.scores import hits, nearest_share, of_length, stopping_loss

#      5
#    3   4      the leaves 0, 1 below 3; 2 below 4; 2 also below 3
TREE = torch.tensor([[0, 1, 2, 2, 3, 4], [3, 3, 4, 3, 5, 5]])


@pytest.fixture(scope="module")
def tree() -> tuple[Classes, Tensor]:
    return arrange(*class_tree(), stop=10, wanted=16, seed=0)


def graph_of(neighbors: Tensor, log_p: Tensor | None = None) -> LatentGraph:
    from latentgraph.geometry import Euclidean

    log_p = torch.zeros(neighbors.numel()) if log_p is None else log_p
    return LatentGraph(torch.zeros(len(neighbors), 2), torch.tensor(1.0), Euclidean(), neighbors=neighbors, log_p=log_p)


def test_convolution_by_hand() -> None:
    """(D^-1 A X Theta)_i is the mean over the neighbours of i of x_j Theta: on a sampled graph and on a given one."""
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]])
    neighbors = torch.tensor([[0, 1], [2, 2], [0, 2]])
    conv = RowNormalised(2, 2)
    with torch.no_grad():
        conv.linear.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0]]))
    # x Theta^T: (1, 0), (4, -2), (12, -4)
    expected = torch.tensor([[2.5, -1.0], [12.0, -4.0], [6.5, -2.0]])
    torch.testing.assert_close(conv(x, graph_of(neighbors)), expected)
    first = FirstRows(conv, learn=1, targets=2)
    torch.testing.assert_close(first(x, graph_of(neighbors)), expected[:1])
    torch.testing.assert_close(first.eval()(x, graph_of(neighbors)), expected[:2])
    matrix = sp.csr_array(np.array([[1, 1, 0], [0, 0, 1], [1, 0, 1]], dtype=np.float32))
    normalised = torch.as_tensor(hierarchy.row_normalised(matrix).toarray())
    torch.testing.assert_close(normalised @ x @ conv.linear.weight.T, expected)


def test_weighted_mean_by_hand_and_its_gradient() -> None:
    x = torch.tensor([[1.0], [3.0], [11.0]], dtype=torch.float64)
    neighbors = torch.tensor([[0, 1], [1, 2], [2, 0]])
    log_p = torch.tensor([0.0, np.log(3.0), 0.0, 0.0, -1.0, -2.0], dtype=torch.float64, requires_grad=True)
    mean = neighbour_mean(x, graph_of(neighbors, log_p), 2, weighted=True)
    torch.testing.assert_close(mean, torch.tensor([[2.5], [7.0]], dtype=torch.float64))
    assert torch.autograd.gradcheck(
        lambda value: neighbour_mean(x, graph_of(neighbors, value), 2, weighted=True), log_p
    )


def test_network_cut_to_first_rows_is_the_network() -> None:
    """The paper's network, as it is and with its last convolution computed for the first rows alone."""
    torch.manual_seed(0)
    net = zero_shot_net(6, 9, hidden=12, embed_dim=4)
    x = torch.randn(40, 6)
    whole, graphs = net(x, generator=torch.Generator().manual_seed(1))
    last = net.diffusions[-1]
    assert isinstance(last, Stack)
    conv = last.steps[0]
    assert isinstance(conv, RowNormalised)
    last.steps[0] = FirstRows(conv, learn=7, targets=11)
    for training, rows in ((True, 7), (False, 11)):
        net.train(training)
        part, _ = net(x, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(part, whole[:rows])
    assert len(graphs) == 2


def test_ancestors_and_descendants() -> None:
    """On a tree of six nodes in which node 2 has two parents; the last matrix has all that are further away, too."""
    children = hierarchy.child_matrix(TREE, 6)
    up = [matrix.toarray() for matrix in hierarchy.by_distance(children.T, 2)]
    assert [sorted(map(tuple, np.argwhere(matrix).tolist())) for matrix in up] == [
        [(i, i) for i in range(6)],
        [(0, 3), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5)],
        [(0, 5), (1, 5), (2, 5)],
    ]
    down = [matrix.toarray() for matrix in hierarchy.by_distance(children, 2)]
    for ancestors, descendants in zip(up, down, strict=True):
        np.testing.assert_array_equal(ancestors, descendants.T)
    one = [matrix.toarray() for matrix in hierarchy.by_distance(children.T, 1)]
    np.testing.assert_array_equal(one[1], up[1] + up[2])  # all that are one or more steps away
    five = hierarchy.by_distance(children.T, 5)
    assert [matrix.nnz for matrix in five] == [6, 6, 3, 0, 0, 0]


def test_shortest_way_counts() -> None:
    """A node that is a grandparent and a parent is a parent."""
    edges = torch.tensor([[0, 1, 0], [1, 2, 2]])
    up = hierarchy.by_distance(hierarchy.child_matrix(edges, 3).T, 2)
    assert [matrix.nnz for matrix in up] == [3, 3, 0]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_restricted_products_are_exact(depth: int) -> None:
    data = class_tree(3, 4)
    n = len(data.x)
    matrix = hierarchy.symmetric_normalised(hierarchy.neighbourhood(data.parent_edges, n))
    blocks = hierarchy.restricted(matrix, np.array([5, 2, 70]), depth)
    whole, part = data.x.numpy(), data.x.numpy()
    for block in blocks:
        whole, part = matrix @ whole, block @ part
    np.testing.assert_allclose(part, whole[[5, 2, 70]], rtol=1e-5)
    assert blocks[0].shape[1] == n
    assert depth == 1 or blocks[0].shape[0] < n  # something was saved


def test_given_graph_network_against_all_rows(tree: tuple[Classes, Tensor]) -> None:
    """Three layers, computed for what matters, and by the dense formula."""
    classes, _ = tree
    matrix = hierarchy.row_normalised(hierarchy.neighbourhood(classes.parent_edges, len(classes.x)))
    net = GivenGraphNet(matrix, [16, 8, 7, 5], classes.learn, classes.targets, dropout=0.0)
    dense = torch.as_tensor(matrix.toarray())
    h = classes.x
    for layer, linear in enumerate(net.linears):
        h = linear(dense @ h)
        h = h if layer == 2 else F.leaky_relu(h, 0.2)
    torch.testing.assert_close(net(classes.x)[0], h[: classes.learn])
    torch.testing.assert_close(net.eval()(classes.x)[0], h[: classes.targets])


def test_dense_propagation_against_its_formula(tree: tuple[Classes, Tensor]) -> None:
    classes, _ = tree
    n = len(classes.x)
    net = DensePropagationNet(
        classes.parent_edges, (16, 8, 5), n, classes.learn, classes.targets, furthest=2, dropout=0
    )
    with torch.no_grad():
        net.down_weight.copy_(torch.tensor([0.0, 1.0, -1.0]))
        net.up_weight.copy_(torch.tensor([1.0, 0.0, 2.0]))
    children = hierarchy.child_matrix(classes.parent_edges, n)
    up, down = (
        [torch.as_tensor(hierarchy.row_normalised(a).toarray()) for a in hierarchy.by_distance(step, 2)]
        for step in (children.T, children)
    )
    alpha, beta = net.down_weight.softmax(0), net.up_weight.softmax(0)
    h = F.leaky_relu(net.first(sum(a * (matrix @ classes.x) for a, matrix in zip(alpha, down, strict=True))), 0.2)
    rows = net.second(sum(b * (matrix @ h) for b, matrix in zip(beta, up, strict=True)))
    found, _ = net.eval()(classes.x)
    torch.testing.assert_close(found, rows[: classes.targets])
    found.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_subsample_keeps_all_classes_that_count(tree: tuple[Classes, Tensor]) -> None:
    classes, _ = tree
    nodes = subsample(classes, 70, torch.Generator().manual_seed(0))
    assert nodes[: classes.targets].tolist() == list(range(classes.targets))
    assert len(set(nodes.tolist())) == 70
    others = subsample(classes, 70, torch.Generator().manual_seed(1))
    assert set(nodes.tolist()) != set(others.tolist())
    batch = classes.node_set(nodes)
    assert batch.rows.tolist() == list(range(classes.learn))
    torch.testing.assert_close(batch.x, classes.x[nodes])
    stop = classes.node_set(nodes, stop=True)
    assert stop.rows.tolist() == list(range(classes.learn, classes.learn + classes.stop))
    with pytest.raises(InputError, match="at least as many"):
        subsample(classes, 3, torch.Generator())


def test_arranging_keeps_the_tree_and_hides_the_wanted() -> None:
    data = class_tree()
    classes, order = arrange(*data, stop=10, wanted=16, seed=3)
    m = len(data.rows)
    assert (classes.learn, classes.stop, classes.wanted) == (m - 26, 10, 16)
    torch.testing.assert_close(classes.x[:m], data.x[order])
    torch.testing.assert_close(classes.rows, data.rows[order[:-16]])
    torch.testing.assert_close(classes.images, data.images[order[-26:-16]])
    old = torch.cat([order, torch.arange(m, len(data.x))])  # new number -> old number
    edges = {tuple(pair) for pair in data.parent_edges.T.tolist()}
    assert {tuple(old[pair].tolist()) for pair in classes.parent_edges.T} == edges
    with pytest.raises(InputError, match="leave some"):
        arrange(*data, stop=30, wanted=40, seed=0)
    with pytest.raises(InputError, match="num_candidates=3"):
        replace(classes, num_candidates=3)
    with pytest.raises(InputError, match="a row for each"):
        replace(classes, stop=9)


def test_reward_and_loss_of_rows(tree: tuple[Classes, Tensor]) -> None:
    """The reward is 1 where the predicted row is nearest to its own; with `unit` lengths play no part."""
    classes, _ = tree
    number = torch.tensor([0, 1, 2])
    out = classes.rows[[0, 3, 2]].clone()
    for unit in (False, True):
        assert row_task(classes, unit=unit).reward(out, number).tolist() == [1.0, 0.0, 1.0]
    task = row_task(classes, unit=False)
    expected = (classes.rows[3] - classes.rows[1]).square().sum() / 3
    torch.testing.assert_close(task.loss(out, number), expected)
    directions = row_task(classes, unit=True)
    torch.testing.assert_close(directions.loss(5 * out, number), directions.loss(out, number))


def test_gradient_flows_into_f(tree: tuple[Classes, Tensor]) -> None:
    """The paper's network: by the graph loss alone. Ours: by the task loss, through the weights of neighbours."""
    classes, _ = tree
    torch.manual_seed(0)
    for method, by_graph_loss in ((PaperDGM(), True), (BestDGM(), False)):
        method.hidden = 12
        net = method.network(classes)
        out, graphs = net(classes.x, generator=torch.Generator().manual_seed(0))
        loss = row_task(classes, unit=True).loss(out, torch.arange(classes.learn))
        dgm = next(module for module in net.modules() if isinstance(module, DiscreteDGM))
        f = next(dgm.embed.parameters())
        (of_task,) = torch.autograd.grad(loss, f, retain_graph=True, allow_unused=True)
        assert (of_task is None) == by_graph_loss
        (of_graph,) = torch.autograd.grad(graph_loss(graphs, torch.randn(len(classes.x))), f)
        assert of_graph.abs().sum() > 0


def test_f_begins_with_principal_components() -> None:
    x = torch.randn(200, 5) * torch.tensor([1.0, 9.0, 0.1, 3.0, 0.2])
    weight = principal_components(x, 2).weight.detach().abs()
    assert weight.argmax(1).tolist() == [1, 3]
    torch.testing.assert_close(weight @ weight.T, torch.eye(2), atol=0.1, rtol=0)


def test_rings_are_means_around_a_class(tree: tuple[Classes, Tensor]) -> None:
    classes, _ = tree
    seen = with_rings(classes, 2)
    assert seen.x.shape[1] == 3 * classes.x.shape[1]
    child, parent = classes.parent_edges
    around = {0, *parent[child == 0].tolist(), *child[parent == 0].tolist()}
    torch.testing.assert_close(seen.x[0, 16:32], classes.x[sorted(around)].mean(0))
    assert with_rings(classes, 0) is classes


def test_scores() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    images = torch.tensor([[2.0, 1.0], [0.5, 1.0]])
    own = torch.tensor([0, 1])
    assert [hits(rows, images, own, top) for top in (1, 2)] == [0.0, 1.0]
    assert nearest_share(3 * rows, rows) == 1.0
    assert nearest_share(rows[[1, 0, 2]], rows) == pytest.approx(1 / 3)
    torch.testing.assert_close(of_length(rows, 2.0).norm(dim=1), torch.full((3,), 2.0))
    by_hand = -torch.log(torch.tensor([[2.0, 1.0], [0.5, 1.0]]).softmax(1).diagonal()).mean()
    torch.testing.assert_close(stopping_loss(5 * rows[:2], images, 1.0), by_hand)


def test_kernel_ridge_against_its_formula(tree: tuple[Classes, Tensor]) -> None:
    """With the linear kernel it is ridge regression on centred words; and what is chosen is the best of the grid."""
    classes, _ = tree
    method = KernelRidge(linear=True).fit(classes)
    x = F.normalize(classes.x[: classes.targets]).double()
    learned = x[: classes.learn]
    centred, rows = learned - learned.mean(0), classes.rows[: classes.learn].double()
    system = centred.T @ centred + method.strength * torch.eye(16, dtype=torch.float64)
    theta = torch.linalg.solve(system, centred.T @ (rows - rows.mean(0)))
    expected = rows.mean(0) + (x - learned.mean(0)) @ theta
    torch.testing.assert_close(method.predict(classes).double(), expected, atol=1e-5, rtol=1e-4)
    stop = slice(classes.learn, classes.learn + classes.stop)
    for found, width in ((method, 1.0), (KernelRidge().fit(classes), 2.0)):
        losses = found._losses(classes, width)  # by the decomposition, against solving for each strength
        for strength in losses:
            found.strength, found.width = strength, width
            loss = stopping_loss(found.predict(classes)[stop], classes.images, classes.length)
            assert losses[strength] == pytest.approx(float(loss), rel=1e-4)
    assert not torch.equal(
        KernelRidge(refit=True).fit(classes).predict(classes), KernelRidge().fit(classes).predict(classes)
    )


def score(method: ZeroShotMethod) -> float:
    """Top-1 among the held-out classes of a small tree."""
    data = class_tree()
    classes, order = arrange(*data, stop=10, wanted=16, seed=0)
    rows = method.fit(classes).predict(classes)
    assert rows.shape == (classes.targets, 24)
    return hits(of_length(rows[-16:], classes.length), data.images[order[-16:]], torch.arange(16), 1)


@pytest.mark.parametrize("kind", [SGCN, GCNZ, NearestGraph, NoGraph, DGP, PaperDGM, UnitPaperDGM, BestDGM, RingsDGM])
def test_networks_learn(kind: type) -> None:
    """Well above the 1 / 16 of chance."""
    method = kind(0, steps=60)
    method.hidden = 64 if isinstance(method.hidden, int) else (64,) * len(method.hidden)
    method.lr = 1e-2
    assert score(method) >= 0.3


@pytest.mark.parametrize("method", [KernelRidge(), KernelRidge(linear=True), RingsKernelRidge()])
def test_regressions_learn(method: ZeroShotMethod) -> None:
    assert score(method) >= 0.4


def test_networks_repeat() -> None:
    """The same seed, the same rows: sampled graphs, mini-batches and dropout are all drawn from it."""
    classes, _ = arrange(*class_tree(), stop=10, wanted=16, seed=0)

    def rows(seed: int) -> Tensor:
        method = BestDGM(seed, steps=3)
        method.hidden, method.size = 8, 70
        return method.fit(classes).predict(classes)

    assert torch.equal(rows(0), rows(0))
    assert not torch.equal(rows(0), rows(1))


def test_held_out_rows_are_not_seen() -> None:
    """Nothing that a method gets tells of the wanted classifiers: changing them changes no prediction."""
    data = class_tree()
    classes, order = arrange(*data, stop=10, wanted=16, seed=0)
    changed = data.rows.clone()
    changed[order[-16:]] += 10
    other, _ = arrange(data.x, data.parent_edges, changed, data.images, stop=10, wanted=16, seed=0)
    for name, value in vars(classes).items():
        same = torch.equal(value, vars(other)[name]) if isinstance(value, Tensor) else value == vars(other)[name]
        assert same, name


def test_layers_are_the_presets() -> None:
    """The paper's network: dimension 16, k = 3, 2048 hidden features, loops allowed."""
    classes, _ = arrange(*class_tree(), stop=10, wanted=16, seed=0)
    net = PaperDGM().network(classes)
    assert isinstance(net, DGMNet)
    for dgm in net.dgms:
        assert isinstance(dgm, DiscreteDGM)
        assert (dgm.k, dgm.loop) == (3, True)
    first, last = net.diffusions
    assert isinstance(first, Stack)
    assert isinstance(last, Stack)
    assert isinstance(first.steps[0], RowNormalised)
    assert first.steps[0].linear.out_features == 2048
    assert isinstance(last.steps[1], nn.LeakyReLU)
