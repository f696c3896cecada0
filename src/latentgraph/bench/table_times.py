"""`latentgraph bench table-times`: the paper's table of training and test iterations for 564, 5,000 and 10,000 nodes.

564 are the patients of TADPOLE where its file is, else as many random rows; the larger sets are random rows of the same
width. A test iteration is one pass with one sampled graph. The paper's times are of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.tables import Row, in_words, number
from latentgraph.datasets.tadpole import tadpole
from latentgraph.errors import InputError
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
TRAINING, TEST = "training iteration", "test iteration"
PAPER = {  # milliseconds
    TRAINING: {"DGCNN": (6.99, 28.2, 104.0), "cDGM": (7.35, 47.8, 211.0), "dDGM": (8.29, 37.0, 141.0)},
    TEST: {"DGCNN": (4.60, 25.2, 102.0), "cDGM": (3.02, 15.1, 51.0), "dDGM": (3.97, 24.6, 104.0)},
}
SIZES = (PATIENTS, 5_000, 10_000)
METHODS: dict[str, Callable[[], DGMNet]] = {
    "MLP": lambda: DGMNet([(None, mlp([FEATURES, 16, 16], activate_last=True))], head=nn.Linear(16, CLASSES)),
    "kNN-GCN": lambda: DGMNet([(None, Stack(gcn([FEATURES, 16, 16]), nn.ReLU()))], head=nn.Linear(16, CLASSES)),
    "DGCNN": lambda: dgcnn(FEATURES, CLASSES),
    "cDGM": lambda: medical_net(FEATURES, CLASSES, continuous=True, g=gcn),
    "dDGM": lambda: medical_net(FEATURES, CLASSES, g=gcn),
}


class Case(NamedTuple):
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    return [Case(n, count) for count in threads for n in ((200,) if quick else SIZES)]


def measure(case: Case) -> list[Row]:
    x, y, data = _rows(case.n)
    edge_index = neighbors_to_edges(nearest(x, 5))  # once, for kNN-GCN
    training: dict[str, Callable[[], object]] = {}
    test: dict[str, Callable[[], object]] = {}
    for name, make in METHODS.items():
        torch.manual_seed(0)
        net = make()
        nodes = NodeSet(x, y, edge_index=edge_index if name == "kNN-GCN" else None)
        optimiser = torch.optim.Adam(net.parameters())
        baseline = MovingAverageBaseline(len(x)) if name == "dDGM" else None
        training[name] = partial(fit, net, nodes, baseline=baseline, steps=1, optimizer=optimiser)
        test[name] = partial(_predict, net, nodes)
        if case.n <= PATIENTS:  # whatever is made at the first call
            training[name]()
    return [
        {
            "iteration": iteration,
            "method": name,
            "n": case.n,
            "data": data,
            "threads": case.threads,
            "seconds": value.seconds,
            "megabytes": value.megabytes,
            "repeats": value.repeats,
        }
        for iteration, calls in ((TRAINING, training), (TEST, test))
        for name, value in side_by_side(calls).items()
    ]


@torch.no_grad()
def _predict(net: nn.Module, nodes: NodeSet) -> None:
    net(nodes.x, nodes.edge_index)


def _rows(n: int) -> tuple[Tensor, Tensor, str]:
    """Features, classes, and where they come from."""
    if n == PATIENTS:
        try:
            fold = tadpole(0)
            return torch.tensor(fold.x, dtype=torch.float32), torch.tensor(fold.y), "TADPOLE"
        except InputError:  # no data folder: the time does not depend on what is in the rows
            pass
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, FEATURES, generator=generator)
    return x, torch.randint(CLASSES, (n,), generator=generator), "random"


def tables(rows: Sequence[Row]) -> list[Table]:
    counts = list(dict.fromkeys(row["threads"] for row in rows))
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    return [_table(rows, iteration, count, sizes) for count in counts for iteration in (TRAINING, TEST)]


def _table(rows: Sequence[Row], iteration: str, count: int, sizes: Sequence[int]) -> Table:
    lines = []
    for name in METHODS:
        line = [name]
        for n in sizes:
            at = {"iteration": iteration, "threads": count, "n": n, "method": name}
            ours = next(row["seconds"] for row in rows if at.items() <= row.items())
            published = PAPER[iteration].get(name)
            line += [number(published[SIZES.index(n)]) if published and n in SIZES else "-", number(1000 * ours)]
        lines.append(line)
    header = ["method", *(f"n = {n:,}, {whose}" for n in sizes for whose in ("paper", "ours"))]
    return Table(f"{iteration.capitalize()}, ms, {in_words(count)}", header, lines)
