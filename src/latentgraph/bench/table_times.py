"""`latentgraph bench table-times`: the paper's table of training and test iterations for 564, 5,000 and 10,000 nodes.

564 are the patients of TADPOLE where its file is, else as many random rows; the larger sets are random rows of the same
width. A test iteration is one pass with one sampled graph. The paper's times are of a GPU. `latentgraph reproduce
times` measures with the same functions, more methods and larger sets, one thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from latentgraph.baselines.lds import LDS
from latentgraph.baselines.method import Population
from latentgraph.bench.measure import side_by_side
from latentgraph.bench.tables import Row, in_words, number
from latentgraph.datasets.tadpole import tadpole
from latentgraph.errors import InputError
from latentgraph.experiments.results import published
from latentgraph.graph import neighbors_to_edges
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet
from latentgraph.presets import dgcnn, medical_net
from latentgraph.sampling import nearest
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.text_table import Table
from latentgraph.training import NodeSet, fit

LIBRARIES = ()
PATIENTS, FEATURES, CLASSES = 564, 30, 3
FEW = 200  # rows, for whatever is compiled at a first call, and for a quick look
TRAINING, TEST = "training iteration", "test iteration"  # as published.json names them
SIZES = (PATIENTS, 5_000, 10_000)  # the paper's
NOT_RUN, TOO_LONG = "not run", "> 30 min"

Call = Callable[[], object]


class Rows(NamedTuple):
    """Features, classes, and where they come from."""

    x: Tensor
    y: Tensor
    data: str


class Iterations(NamedTuple):
    training: Call
    test: Call


def _network(make: Callable[[], DGMNet], *, knn: bool = False, samples: bool = False) -> Callable[[Rows], Iterations]:
    """A network on the nearest neighbours of the rows, found once, if `knn`; with a graph loss if it `samples`."""

    def iterations(rows: Rows) -> Iterations:
        torch.manual_seed(0)
        net = make()
        nodes = NodeSet(rows.x, rows.y, edge_index=neighbors_to_edges(nearest(rows.x, 5)) if knn else None)
        optimiser = torch.optim.Adam(net.parameters())
        baseline = MovingAverageBaseline(len(rows.x)) if samples else None
        training = partial(fit, net, nodes, baseline=baseline, steps=1, optimizer=optimiser)
        return Iterations(training, partial(_predict, net, nodes))

    return iterations


@torch.no_grad()
def _predict(net: nn.Module, nodes: NodeSet) -> None:
    net(nodes.x, nodes.edge_index)


def _lds(rows: Rows) -> Iterations:
    """An outer step, and one pass on one sampled graph."""
    options = LDS(0)
    options.samples = 1
    search = options.start(Population(rows.x, rows.y, CLASSES))
    return Iterations(search.step, search.score)


METHODS: dict[str, Callable[[Rows], Iterations]] = {
    "MLP": _network(lambda: DGMNet([(None, mlp([FEATURES, 16, 16], activate_last=True))], head=nn.Linear(16, CLASSES))),
    "kNN-GCN": _network(
        lambda: DGMNet([(None, Stack(gcn([FEATURES, 16, 16]), nn.ReLU()))], head=nn.Linear(16, CLASSES)), knn=True
    ),
    "LDS": _lds,
    "DGCNN": _network(lambda: dgcnn(FEATURES, CLASSES)),
    "cDGM": _network(lambda: medical_net(FEATURES, CLASSES, continuous=True, g=gcn)),
    "dDGM": _network(lambda: medical_net(FEATURES, CLASSES, g=gcn), samples=True),
}
NETWORKS = tuple(name for name in METHODS if name != "LDS")


class Case(NamedTuple):
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    return [Case(n, count) for count in threads for n in ((FEW,) if quick else SIZES)]


def measure(case: Case, methods: Sequence[str] = NETWORKS, data_root: str | None = None) -> list[Row]:
    """Both iterations of these methods, in turn. `case.threads` is written down; the caller sees to it."""
    rows = _rows(case.n, data_root)
    for name in methods:
        for call in METHODS[name](_random(FEW)):  # whatever is compiled at the first call
            call()
    made = {name: METHODS[name](rows) for name in methods}
    return [
        {
            "iteration": iteration,
            "method": name,
            "n": case.n,
            "data": rows.data,
            "threads": case.threads,
            "seconds": value.seconds,
            "megabytes": value.megabytes,
            "repeats": value.repeats,
        }
        for iteration, calls in (
            (TRAINING, {name: both.training for name, both in made.items()}),
            (TEST, {name: both.test for name, both in made.items()}),
        )
        for name, value in side_by_side(calls).items()
    ]


def _rows(n: int, data_root: str | None) -> Rows:
    if n == PATIENTS:
        try:
            fold = tadpole(0, data_root)
            return Rows(torch.tensor(fold.x, dtype=torch.float32), torch.tensor(fold.y), "TADPOLE")
        except InputError:  # no data folder: with so few rows the time does not depend on what is in them
            pass
    return _random(n)


def _random(n: int) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, FEATURES, generator=generator)
    return Rows(x, torch.randint(CLASSES, (n,), generator=generator), "random")


def tables(rows: Sequence[Row]) -> list[Table]:
    """For each number of threads a table of training and one of test iterations, of the methods that have a row."""
    counts = list(dict.fromkeys(row["threads"] for row in rows))
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    return [_table(rows, iteration, count, sizes) for count in counts for iteration in (TRAINING, TEST)]


def _table(rows: Sequence[Row], iteration: str, count: int, sizes: Sequence[int]) -> Table:
    header, there = ["method"], {row["method"] for row in rows}
    lines = [[name] for name in METHODS if name in there]
    for n in sizes:
        if n in SIZES:
            header.append(f"n = {n:,}, paper")
            for line in lines:
                line.append(_of_the_paper(iteration, line[0], n))
        header.append(f"n = {n:,}, ours")
        for line in lines:
            at = {"iteration": iteration, "threads": count, "n": n, "method": line[0]}
            ours = [row["seconds"] for row in rows if at.items() <= row.items()]
            line.append(number(1000 * ours[0]) if ours else NOT_RUN)
    return Table(f"{iteration.capitalize()}, ms, {in_words(count)}", header, lines)


def _of_the_paper(iteration: str, method: str, n: int) -> str:
    milliseconds = published("times")["rows"][iteration].get(method)
    if milliseconds is None:
        return "-"
    value = milliseconds[SIZES.index(n)]
    return TOO_LONG if value is None else number(value)
