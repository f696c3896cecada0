"""Batches of a large population: which neighbours they have, and what is the same as with all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from latentgraph.attended import Attended
from latentgraph.checkpoint import Checkpoint
from latentgraph.errors import InputError
from latentgraph.gradients import StraightThrough
from latentgraph.graph import LatentGraph, neighbors_to_edges
from latentgraph.layers import ContinuousDGM, DiscreteDGM
from latentgraph.loss import MovingAverageBaseline
from latentgraph.minibatch import ClosedBatches, RandomRows, take
from latentgraph.model import DGMNet
from latentgraph.probability import edge_log_p
from latentgraph.stacks import gcn, mlp
from latentgraph.training import NodeSet, evaluate, fit
from test_sampling_law import SMALLEST_P, log_weights, ordered_law, p_value

N, K = 60, 3


def population(n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    return torch.randn(n, 4, generator=generator) + y[:, None], torch.where(torch.arange(n) % 5 == 0, -1, y)


def two_convolutions(dtype: torch.dtype = torch.float32, dropout: float = 0.0) -> DGMNet:
    torch.manual_seed(0)
    dgm = DiscreteDGM(mlp([4, 2], dropout=dropout), k=K, temperature=1.5)
    return DGMNet([(dgm, Attended(4, 8)), (None, Attended(8, 2))]).to(dtype)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_rows_of_an_array(tmp_path: Path) -> None:
    """Broken: rows of a file come in the order of the file instead of the order asked for."""
    x, rows = torch.arange(40.0).view(10, 4), torch.tensor([7, 2, 2, 9])
    np.save(tmp_path / "x.npy", x.numpy())
    on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")
    for form in (x, x.numpy(), on_disk):
        assert torch.equal(take(form, rows), x[rows])


def test_random_rows(tmp_path: Path) -> None:
    """Broken: rows and targets do not belong together, rows come twice, or labels are too rare to learn from."""
    x, y = population()
    few = torch.zeros(N, dtype=torch.bool)
    few[[1, 2, 3, 4]] = True
    weight = torch.arange(N).float()
    np.save(tmp_path / "x.npy", x.numpy())
    batches = RandomRows(np.load(tmp_path / "x.npy", mmap_mode="r"), y, 24, mask=few, weight=weight)
    seen = torch.zeros(N)
    for step in range(200):
        nodes = batches(step, generator(step))
        rows = nodes.node_id
        assert rows is not None
        assert len(rows.unique()) == 24
        assert torch.equal(nodes.x, x[rows])
        assert torch.equal(nodes.y, y[rows])
        assert nodes.weight is not None
        assert torch.equal(nodes.weight, weight[rows])
        assert len(nodes.rows) == 3  # one in eight
        seen[rows] += 1
    assert (seen[[1, 2, 3, 4]] / 200 - 3 / 4).abs().max() < 0.12
    others = seen[~few] / 200
    assert (others - 21 / 56).abs().max() < 0.15
    assert len(RandomRows(x, y, 30)(1, generator()).rows) == 24  # in proportion
    assert len(RandomRows(x, y, N)(1, generator()).x) == N
    with pytest.raises(InputError, match="size=61"):
        RandomRows(x, y, N + 1)
    with pytest.raises(InputError, match="no row has a target"):
        RandomRows(x, torch.full((N,), -1), 10)
    with pytest.raises(InputError, match="y has 59 entries"):
        RandomRows(x, y[1:], 10)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_batch_is_closed(hops: int) -> None:
    """Broken: a row's neighbour is not in the batch, or is another row than the one that was sampled."""
    x, y = population()
    net = two_convolutions()
    batches = ClosedBatches(net, x, y, seeds=5, hops=hops)
    nodes, drawn = batches(1, generator()), batches.given.neighbors
    rows = nodes.node_id
    assert rows is not None
    assert drawn is not None
    assert len(rows.unique()) == len(rows) < N
    assert torch.equal(nodes.x, x[rows])
    assert nodes.rows.tolist() == [0, 1, 2, 3, 4]
    assert (nodes.y[:5] >= 0).all()
    ends = 5
    for _ in range(hops - 1):
        ends += int((drawn[:ends].unique() >= ends).sum())
    assert len(drawn) == ends, "rows within the hops, and no others, have drawn neighbours"
    assert set(drawn.reshape(-1).tolist()) | set(range(5)) == set(range(len(rows)))
    # A row sampled apart gets what it would get together: here are the neighbours of all rows, from the same state.
    same = generator()
    torch.randperm(len(batches.labelled), generator=same)
    dgm = batches.dgm
    with torch.no_grad():
        whole = dgm._choose(dgm._embedding(x, None), same, loop=False)
    assert torch.equal(rows[drawn[:5]], whole[rows[:5]])


def test_the_law_of_a_seed() -> None:
    """Broken: the edges of a seed are drawn among the batch, or others than those drawn are used."""
    x = torch.tensor([[0.0, 0.0], [0.5, 0.2], [1.0, -0.3], [0.1, 0.9], [-0.8, 0.4], [1.2, 1.2]])
    y = torch.tensor([0, -1, -1, -1, -1, -1])  # row 0 is the only seed
    net = DGMNet([(DiscreteDGM(nn.Identity(), k=2, temperature=1.0), gcn([2, 2]))])
    batches = ClosedBatches(net, x, y, seeds=1)
    net.train()
    draw = generator()
    found = []
    for step in range(2000):
        nodes, drawn = batches(step, draw), batches.given.neighbors
        assert nodes.node_id is not None
        assert drawn is not None
        found.append(nodes.node_id[drawn[0]])
        if step < 20:
            _, (graph,) = batches.net(nodes.x, generator=draw)
            assert graph.neighbors is not None
            assert torch.equal(graph.neighbors[0], drawn[0])
    law = ordered_law(log_weights(x, 1.0, batches.dgm.geometry, loop=False)[0], 2)
    assert p_value(torch.stack(found), law) > SMALLEST_P


@pytest.mark.parametrize("hops", [1, 2])
def test_outputs_and_gradients_are_those_of_all_rows(hops: int) -> None:
    """Broken: with as many hops as convolutions, a seed does not see what it would see among all rows."""
    x, y = population()
    x = x.double()
    net = two_convolutions(torch.float64)
    batches = ClosedBatches(net, x, y, seeds=4, hops=hops)
    nodes, drawn = batches(1, generator()), batches.given.neighbors
    assert nodes.node_id is not None
    assert drawn is not None
    rows = nodes.node_id
    batches.net.train()
    out, _ = batches.net(nodes.x, generator=generator(1))
    ours = torch.autograd.grad(out[:4].square().sum(), list(net.parameters()))

    dgm = batches.dgm
    neighbors = (torch.arange(N)[:, None] + torch.arange(1, K + 1)) % N  # anything, where nothing was drawn
    neighbors[rows[: len(drawn)]] = rows[drawn]
    x_hat = dgm._embedding(x, None)
    log_p = edge_log_p(x_hat, neighbors_to_edges(neighbors), dgm.temperature, dgm.geometry)
    graph = LatentGraph(x_hat, dgm.temperature, dgm.geometry, neighbors=neighbors, log_p=log_p)
    h = x
    for diffusion in net.diffusions:
        h = diffusion(h, graph)
    whole = torch.autograd.grad(h[rows[:4]].square().sum(), list(net.parameters()))
    same = torch.allclose(out[:4], h[rows[:4]]) and all(map(torch.allclose, ours, whole))
    assert same is (hops == 2)


def test_training_on_closed_batches(tmp_path: Path) -> None:
    """Broken: the given network does not learn, averages of rows not drawn move, or evaluation sees a batch."""
    x, y = population()

    def trained(checkpoint: Checkpoint | None = None, steps: int = 30) -> tuple[DGMNet, MovingAverageBaseline]:
        net, baseline = two_convolutions(dropout=0.1), MovingAverageBaseline(N)
        batches = ClosedBatches(net, x, y, seeds=6, among=40)
        fit(batches.net, batches, baseline=baseline, steps=steps, lr=0.05, checkpoint=checkpoint)
        return net, baseline

    net, baseline = trained(steps=1)
    assert int(baseline.seen.sum()) == 6
    assert (y[baseline.seen] >= 0).all()
    net, _ = trained()
    assert evaluate(net, NodeSet(x, y))["accuracy"] > 0.7
    kept = Checkpoint(tmp_path, seconds=0)
    again, _ = trained(kept)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))
    assert net.state_dict().keys() == two_convolutions(dropout=0.1).state_dict().keys()
    batches = ClosedBatches(net, x, y, seeds=6)
    batches(1, generator())
    one, other = evaluate(batches.net, NodeSet(x, y)), evaluate(net, NodeSet(x, y))
    assert one == other


def test_what_cannot_be_closed() -> None:
    """Broken: a network or a number that makes no sense gives a traceback from somewhere inside."""
    x, y = population()
    net = two_convolutions()
    with pytest.raises(InputError, match="seeds=49, but there are 48 rows with a target"):
        ClosedBatches(net, x, y, seeds=49)
    with pytest.raises(InputError, match="hops=0"):
        ClosedBatches(net, x, y, seeds=4, hops=0)
    with pytest.raises(InputError, match="among=3, but there must be more than k=3"):
        ClosedBatches(net, x, y, seeds=4, among=3)
    with pytest.raises(InputError, match="first layer, and no other"):
        ClosedBatches(DGMNet([(ContinuousDGM(nn.Identity()), gcn([4, 2]))]), x, y, seeds=4)
    straight = DiscreteDGM(nn.Identity(), gradient=StraightThrough())
    with pytest.raises(InputError, match=r"StraightThrough.* weighs the edges"):
        ClosedBatches(DGMNet([(straight, gcn([4, 2]))]), x, y, seeds=4)
