"""Worlds of 1, 2 and 4 processes: each computes what `test_distributed` compares. Run as a script.

In a world of one the plain library is used, without any process group: it is what the others must agree with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv

from forked_worlds import world
from latentgraph.attended import Attended
from latentgraph.checkpoint import Checkpoint
from latentgraph.diffusion import EdgeConv
from latentgraph.distributed import halo
from latentgraph.distributed.collectives import gather_same, send_rows
from latentgraph.distributed.graph import PartOfGraph
from latentgraph.distributed.group import Team, joined
from latentgraph.distributed.partition import Partition
from latentgraph.distributed.population import as_whole
from latentgraph.distributed.working import Shards
from latentgraph.dropout import Dropout
from latentgraph.errors import InputError
from latentgraph.experiments.recipe import Standardised
from latentgraph.geometry import PoincareBall
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import Likelihood, MovingAverageBaseline, SampleMeanBaseline, graph_loss
from latentgraph.model import DGMNet
from latentgraph.stacks import Stack, edge_conv, gat, gcn, mlp, row_normalised_conv
from latentgraph.training import NodeSet, TrainState, classification, evaluate, fit, regression
from latentgraph.watching import watch_edges

N, D = 301, 6  # not a multiple of 2 or 4; enough for the tree sampler
SIZES = (1, 2, 4)
Found = dict[str, Tensor]


def population() -> tuple[Tensor, Tensor, Tensor]:
    """Features, classes and an input graph with loops and a doubled edge."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 3
    x = torch.randn(N, D, generator=generator, dtype=torch.float64) + y[:, None]
    edges = torch.randint(N, (2, 4 * N), generator=generator)
    edges[:, 0], edges[:, 1], edges[:, 2] = torch.tensor([5, 5]), torch.tensor([7, 9]), torch.tensor([7, 9])
    return x, y, edges


def net_of(f: nn.Module, g: nn.Module, second: nn.Module, out: int, **options: Any) -> DGMNet:
    """Two layers: the second f works on the graph of the first."""
    layers = [
        (DiscreteDGM(f, k=5, **options), g),
        (DiscreteDGM(gcn([out + 3, 4]), k=3, **options), second),
    ]
    return DGMNet(layers, nn.Linear(8, 3)).double()


NETS: dict[str, Callable[[], DGMNet]] = {
    "gcn": lambda: net_of(mlp([D, 8, 3]), gcn([D, 8], activate_last=True), gcn([8, 8]), 8),
    "loops": lambda: net_of(mlp([D, 3]), gcn([D, 8]), row_normalised_conv([8, 8]), 8, loop=True),
    "edge_conv": lambda: net_of(mlp([D, 3]), edge_conv([D, 8]), edge_conv([8, 8], aggr="mean"), 8),
    "gat": lambda: net_of(mlp([D, 3]), gat([D, 8], heads=2), gat([8, 8]), 8, loop=True),
    "attended": lambda: net_of(mlp([D, 3]), Stack(Attended(D, 8), nn.ReLU()), Attended(8, 8), 8),
    "any PyG": lambda: net_of(mlp([D, 3]), Stack(SAGEConv(D, 8), nn.ReLU()), SAGEConv(8, 8), 8),
    "input gcn": lambda: net_of(gcn([D, 3]), gcn([D, 8]), gcn([8, 8]), 8),
    "input gat": lambda: net_of(gat([D, 3]), gcn([D, 8]), gcn([8, 8]), 8),
    "input rows": lambda: net_of(row_normalised_conv([D, 3]), gcn([D, 8]), gcn([8, 8]), 8),
    "input edge_conv": lambda: net_of(edge_conv([D, 3]), gcn([D, 8]), gcn([8, 8]), 8),
    "input attended": lambda: net_of(Attended(D, 3), gcn([D, 8]), gcn([8, 8]), 8),
    "input PyG": lambda: net_of(SAGEConv(D, 3), gcn([D, 8]), gcn([8, 8]), 8),
    "hyperbolic": lambda: net_of(small(mlp([D, 3])), gcn([D, 8]), gcn([8, 8]), 8, geometry=PoincareBall()),
    "torch backend": lambda: net_of(mlp([D, 3]), gcn([D, 8]), gcn([8, 8]), 8, backend="torch"),
    # One layer: after a mean over the same neighbours, rows coincide, and rounding decides who is near.
    "nearest": lambda: DGMNet([(DiscreteDGM(mlp([D, 3]), k=5, noise=False), gcn([D, 3]))]).double(),
    "all rows": lambda: net_of(
        Stack(nn.Dropout(0.2), nn.Linear(D, 3), Standardised()),
        Stack(Dropout(0.3), gcn([D, 8]), nn.BatchNorm1d(8)),
        edge_conv_with_norm(),
        8,
    ),
}


def small(net: nn.Module) -> nn.Module:
    """Far from the boundary of the ball, where distances have few digits."""
    for parameter in net.parameters():
        parameter.data.mul_(0.05)
    return net


def edge_conv_with_norm() -> nn.Module:
    return EdgeConv(8, 8, message=nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.ReLU()))


def of_net(name: str, team: Team | None, likelihood: Likelihood = "paper") -> Found:
    """Edges, output and gradients of one step."""
    x, y, edges = population()
    torch.manual_seed(1)
    net = NETS[name]()
    generator = torch.Generator().manual_seed(2)
    nodes = NodeSet(x, y, edge_index=edges if name.startswith("input") else None)
    delta = torch.linspace(-1, 1, N, dtype=torch.float64)
    torch.manual_seed(3)
    if team is None:
        out, graphs = net(x, nodes.edge_index, generator=generator)
        whole = graphs
        loss = functional.cross_entropy(out, y) + graph_loss(graphs, delta, likelihood=likelihood, reduction="mean")
        loss.backward()
    else:
        partition = Partition.of(N, team)
        part = partition.part(nodes)
        with as_whole(net, partition):
            out, graphs = net(part.x, part.edge_index, generator=generator, partition=partition)
            parts = [graph for graph in graphs if isinstance(graph, PartOfGraph)]
            whole = [graph.whole() for graph in parts]
            out = partition.gather_same(out)
            learned = graph_loss(graphs, delta[partition.rows], likelihood=likelihood) / N
            (functional.cross_entropy(out, y) + learned).backward()
        loss = functional.cross_entropy(out, y) + partition.total(learned.detach())
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad = partition.total(parameter.grad)
    found = {"out": out.detach(), "loss": loss.detach()}
    for number, graph in enumerate(whole):
        assert graph.neighbors is not None
        assert graph.log_p is not None
        found |= {f"edges {number}": graph.neighbors, f"log p {number}": graph.log_p.detach()}
    found |= {f"gradient of {n}": p.grad for n, p in net.named_parameters() if p.grad is not None}
    return found | {f"buffer {n}": b for n, b in net.named_buffers()}


def gradients_of_collectives(team: Team | None) -> Found:
    """A function of six rows through every collective, its gradient and finite differences of it."""
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if team is None:
        return {}
    partition = Partition.of(6, team)
    wanted = torch.tensor([[0, 5], [3, 1], [2, 2], [4, 0], [1, 5], [5, 3]])[partition.rows]
    asking = halo.Halo.around(wanted, partition)
    weight = torch.randn(6, 2, generator=torch.Generator().manual_seed(team.rank), dtype=torch.float64)

    def part(rows: Tensor) -> Tensor:
        """This process's part of the function."""
        everyone = partition.gather(rows)
        mean = partition.total(rows.sum(0)) / 6
        near = asking.bring(rows.sin()).index_select(0, asking.places.flatten()).unflatten(0, asking.places.shape)
        moved = send_rows(rows[:1].repeat(team.size, 1), [1] * team.size, [1] * team.size, team)
        same = gather_same(rows, partition.sizes, team)
        shared = (same.cos() * x.new_tensor([1.0, 2.0])).sum() ** 2  # computed alike by all: counts once
        own = (everyone**3 * weight).sum() + (near * (rows - mean)[:, None]).sum() + (moved.exp() * weight[0]).sum()
        return own + (shared if team.first else shared - shared.detach())

    mine = x[partition.rows].clone().requires_grad_()
    part(mine).backward()
    assert mine.grad is not None
    numeric = torch.zeros_like(x)
    for i in range(x.numel()):
        values = []
        for step in (1e-6, -1e-6):
            moved = x.clone().flatten()
            moved[i] += step
            with torch.no_grad():
                values.append(partition.total(part(moved.view_as(x)[partition.rows])))
        numeric.view(-1)[i] = (values[0] - values[1]) / 2e-6
    return {"analytic": partition.gather(mine.grad), "numeric": numeric}


def trained(team: Team | None, folder: Path, *, numbers: bool = False, cut: int | None = None) -> Found:
    """`fit` with all that it has: validation, auxiliary head, moving average, weights, dropout, checkpoint.

    It goes on from what is in the folder, and is interrupted after step `cut`.
    """
    x, y, _ = population()
    torch.manual_seed(4)
    target = x[:, 0] / 2 if numbers else y
    outputs = 1 if numbers else 3
    net = DGMNet(
        [(DiscreteDGM(mlp([D, 8, 3], dropout=0.2), k=5), Stack(gcn([D, 8]), nn.BatchNorm1d(8)))], nn.Linear(8, outputs)
    ).double()
    head, baseline = nn.Linear(3, outputs).double(), MovingAverageBaseline(N).double()
    mask = torch.arange(N) % 4 > 0
    weight = torch.linspace(0.5, 2, N, dtype=torch.float64)
    train, stop = NodeSet(x, target, mask, weight=weight), NodeSet(x, target, ~mask)
    watch = watch_edges(train)
    partition = None if team is None else Partition.of(N, team)
    if partition is not None:
        train, stop = partition.part(train), partition.part(stop)

    def interrupt(state: TrainState) -> None:
        if state.step == cut:
            raise InterruptedError

    task = regression() if numbers else classification(class_weight=torch.tensor([1.0, 2.0, 3.0]).double())
    history = fit(
        net,
        train,
        validation=stop,
        task=task,
        baseline=baseline,
        auxiliary=head,
        samples=2,
        steps=8,
        eval_every=3,
        eval_samples=2,
        callbacks=[watch, interrupt],
        checkpoint=Checkpoint(folder, seconds=0),
        sharing=partition,
        likelihood="plackett_luce" if numbers else "paper",
    )
    score = evaluate(net, stop, task, samples=2, partition=partition)
    names = sorted({name for row in history.rows for name in row})
    found = {f"history {n}": torch.tensor(history.column(n), dtype=torch.float64) for n in names}
    found |= {f"score {n}": torch.tensor(value, dtype=torch.float64) for n, value in score.items()}
    return found | {f"weight {n}": p.detach() for n, p in net.state_dict().items()} | {"average": baseline.average}


def few_labels(team: Team | None) -> Found:
    """All labels are in the first process; a set without any is refused by all."""
    x, y, _ = population()
    torch.manual_seed(7)
    net = DGMNet([(DiscreteDGM(mlp([D, 3]), k=4), gcn([D, 8]))], nn.Linear(8, 3)).double()
    some, none = (NodeSet(x, y, torch.arange(N) < count) for count in (10, 0))
    partition = None if team is None else Partition.of(N, team)
    if partition is not None:
        some, none = partition.part(some), partition.part(none)
    baseline = MovingAverageBaseline(N).double()
    history = fit(net, some, validation=some, baseline=baseline, steps=3, eval_every=1, sharing=partition)
    with suppress(InputError):
        fit(net, none, steps=1, sharing=partition)
        raise AssertionError
    found = {"loss": torch.tensor(history.column("loss")), "score": torch.tensor(history.column("validation"))}
    return found | {f"weight {n}": p.detach() for n, p in net.state_dict().items()}


def small_graphs(team: Team | None) -> Found:
    """Several small graphs in each step: in one process together, in several each for itself. Without noise: the
    processes draw other noise than one would.
    """
    x, y, _ = population()
    torch.manual_seed(5)
    cut = [NodeSet(x[i : i + 20], y[i : i + 20], node_id=torch.arange(i, i + 20)) for i in range(0, 160, 20)]
    if team is None:  # what four processes do in a step
        joint = torch.arange(4).repeat_interleave(20)
        sets = [NodeSet(x[i : i + 80], y[i : i + 80], batch=joint, node_id=torch.arange(i, i + 80)) for i in (0, 80)]
        sharing = None
    else:
        together = 4 // team.size
        sets = [
            NodeSet(
                torch.cat([s.x for s in cut[i : i + together]]),
                torch.cat([s.y for s in cut[i : i + together]]),
                batch=torch.arange(together).repeat_interleave(20),
                node_id=torch.arange(20 * i, 20 * (i + together)),
            )
            for i in range(0, 8, together)
        ]
        sharing = Shards(team)
    net = DGMNet(
        [(DiscreteDGM(mlp([D, 3]), k=4, noise=False, temperature=1.0), Stack(gcn([D, 8]), nn.BatchNorm1d(8)))],
        nn.Linear(8, 3),
    ).double()
    baseline = MovingAverageBaseline(160).double()
    history = fit(net, sets, baseline=baseline, steps=4, sharing=sharing)
    found = {"loss": torch.tensor(history.column("loss")), "average": baseline.average}
    return found | {f"weight {n}": p.detach() for n, p in net.state_dict().items()}


def sampled_small_graphs(team: Team | None) -> Found:
    """With noise and a sample mean: runs, weights stay the same in all processes, and noise differs among them."""
    x, y, _ = population()
    torch.manual_seed(6)

    def draw(step: int, generator: torch.Generator) -> NodeSet:
        rows = torch.randperm(N, generator=generator)[:40]
        return NodeSet(x[:40], y[rows], batch=torch.arange(2).repeat_interleave(20))  # the same points for all

    seen: list[LatentGraph] = []
    net = DGMNet([(DiscreteDGM(mlp([D, 3], dropout=0.2), k=4), gcn([D, 8]))], nn.Linear(8, 3)).double()
    sharing = None if team is None else Shards(team)
    fit(
        net,
        draw,
        baseline=SampleMeanBaseline(),
        samples=2,
        steps=3,
        sharing=sharing,
        callbacks=[lambda state: seen.append(state.graphs[0])],
    )
    assert seen[0].neighbors is not None
    found = {f"weight {n}": p.detach() for n, p in net.state_dict().items()}
    return found | {"own edges": seen[0].neighbors}


def compute(team: Team | None, folder: Path) -> dict[str, Found]:
    found = {"collectives": gradients_of_collectives(team)}
    for name in NETS:
        found[name] = of_net(name, team)
    found["plackett_luce"] = of_net("gcn", team, "plackett_luce")
    for pays, word in ((0.0, "all are gathered"), (2.0, "some are asked for")):
        before, halo.ASKING_PAYS = halo.ASKING_PAYS, pays
        found |= {f"{name}, {word}": of_net(name, team) for name in ("gcn", "loops", "gat", "edge_conv", "input gcn")}
        halo.ASKING_PAYS = before
    found["fit"] = trained(team, folder / "fit")
    with suppress(InterruptedError):
        trained(team, folder / "half", cut=5)
    if team is not None:
        found["resumed"] = trained(team, folder.parent / f"world-{team.size // 2}" / "half")
    found["fit numbers"] = trained(team, folder / "numbers", numbers=True)

    found["few labels"] = few_labels(team)
    found["small graphs"] = small_graphs(team)
    found["sampled small graphs"] = sampled_small_graphs(team)
    return found


def one(folder: Path, size: int) -> None:
    """What one process of a world does."""
    torch.set_num_threads(1)
    with joined(timeout=60) if size > 1 else nullcontext(None) as team:
        found = compute(team, folder / f"world-{size}")
        torch.save(found, folder / f"world-{size}-{team.rank if team else 0}.pt")


def main(folder: str) -> int:
    """All worlds, one after the other."""
    for size in SIZES:
        ended = world(size, partial(one, Path(folder), size), Path(folder))
        if any(process.status for process in ended):
            print(*(process.words for process in ended), sep="\n", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
