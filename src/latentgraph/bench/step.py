"""`latentgraph bench step`: a whole training step of a dDGM network, and which part of it takes how long."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.neighbours import dense
from latentgraph.bench.tables import Row, in_words, megabytes, number, ratios
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline, accuracy_reward, graph_loss
from latentgraph.probability import log_p_of_neighbors
from latentgraph.sampling import gumbel_top_k
from latentgraph.stacks import gcn, mlp
from latentgraph.text_table import Table

LIBRARIES = ()
OURS, DENSE, PUBLISHED = "latentgraph", "dense sampler", "dense sampler, edge list"
INDEX = ("n",)
FEATURES, WIDTH, EMBEDDING, CLASSES, K = 16, 64, 4, 8, 5
BUDGET = 10.0  # seconds of a method: the dense sampler's time differs from call to call, once would not do
PARTS = ("embed", "sample", "log p", "convolutions", "losses", "optimiser")
BACKWARD = "all backward passes"

Sampler = Callable[[Tensor, int, float], Tensor]


class Case(NamedTuple):
    n: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    sizes = (300,) if quick else (1_000, 10_000, 100_000, 1_000_000)
    return [Case(n, count) for count in threads for n in sizes]


class Step:
    """A network with f = MLP and three graph convolutions; a call makes one training step on n random nodes.

    `seconds` adds up what each part has taken, forward and backward: the tensors that one part hands to the next are
    cut off, so that each part's gradient is computed by a call of its own. `backward` adds up the latter alone. With
    `edge_list` the convolutions are PyG's on an edge list, as published, instead of ours on the k neighbours of each
    node.
    """

    def __init__(self, n: int, sample: Sampler = gumbel_top_k, *, edge_list: bool = False) -> None:
        torch.manual_seed(0)
        self.x, self.y = torch.randn(n, FEATURES), torch.randint(CLASSES, (n,))
        self.sample, self.edge_list = sample, edge_list
        self.dgm = DiscreteDGM(mlp([FEATURES, WIDTH, EMBEDDING]), K)
        self.convolutions = gcn([FEATURES, WIDTH, WIDTH, WIDTH], activate_last=True)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.baseline = MovingAverageBaseline(n)
        self.optimiser = torch.optim.Adam(
            [*self.dgm.parameters(), *self.convolutions.parameters(), *self.head.parameters()]
        )
        with torch.no_grad():
            self.dgm(self.x)  # sets the temperature
        self.seconds: dict[str, float] = defaultdict(float)
        self.backward: dict[str, float] = defaultdict(float)

    def __call__(self) -> None:
        dgm = self.dgm
        with self._part("embed"):
            x_hat = dgm.geometry.project(dgm.embed(self.x))
        with self._part("sample"):
            neighbors = self.sample(x_hat.detach(), K, float(dgm.temperature.detach()))
        x_hat_cut = x_hat.detach().requires_grad_()
        with self._part("log p"):
            log_p = log_p_of_neighbors(x_hat_cut, neighbors, dgm.temperature, dgm.geometry).flatten()
            log_p_cut = log_p.detach().requires_grad_()
            graph = LatentGraph(x_hat_cut, dgm.temperature, dgm.geometry, neighbors=neighbors, log_p=log_p_cut)
        with self._part("convolutions"):
            out = self.head(self.convolutions(self.x, graph.edge_index if self.edge_list else graph))
        out_cut = out.detach().requires_grad_()
        with self._part("losses"):
            delta = self.baseline(accuracy_reward(out_cut, self.y))
            loss = F.cross_entropy(out_cut, self.y) + graph_loss(graph, delta, reduction="mean")
        with self._part("optimiser"):
            self.optimiser.zero_grad()
        with self._part("losses", self.backward):
            loss.backward()
        with self._part("convolutions", self.backward):
            out.backward(out_cut.grad)
        with self._part("log p", self.backward):
            log_p.backward(log_p_cut.grad)
        with self._part("embed", self.backward):
            x_hat.backward(x_hat_cut.grad)
        with self._part("optimiser"):
            self.optimiser.step()

    @contextmanager
    def _part(self, name: str, also: dict[str, float] | None = None) -> Iterator[None]:
        start = time.perf_counter()
        yield
        taken = time.perf_counter() - start
        self.seconds[name] += taken
        if also is not None:
            also[name] += taken

    def shares(self) -> dict[str, float]:
        """Of each part, and of all backward passes together, in the time of the whole step."""
        whole = sum(self.seconds.values())
        return {
            **{part: self.seconds[part] / whole for part in PARTS},
            BACKWARD: sum(self.backward.values()) / whole,
        }


def measure(case: Case) -> list[Row]:
    steps = {OURS: Step(case.n)}
    if case.n <= 10_000:
        steps |= {DENSE: Step(case.n, dense), PUBLISHED: Step(case.n, dense, edge_list=True)}
    if case.n < 1_000_000:  # where seconds count, the first step's extra work does not
        for step in steps.values():
            step()
            step.seconds.clear()
            step.backward.clear()
    return [
        {
            **case._asdict(),
            "method": name,
            **asdict(value),
            **steps[name].shares(),
        }
        for name, value in side_by_side(steps, repeats=9, budget=BUDGET).items()
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for count in dict.fromkeys(row["threads"] for row in rows):
        here = [row for row in rows if row["threads"] == count]
        found.append(ratios(f"Time, {in_words(count)}", here, INDEX, OURS))
    ours = [row for row in rows if row["method"] == OURS]
    columns = [*PARTS, BACKWARD]
    shares = [[f"{row['n']:,}", str(row["threads"]), *(number(100 * row[name]) for name in columns)] for row in ours]
    return [
        *found,
        Table("Where our step spends its time, forward and backward, %", ["n", "threads", *columns], shares),
        megabytes(f"Memory, {in_words(count)}", here, INDEX),
    ]
