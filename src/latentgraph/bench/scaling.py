"""`latentgraph bench scaling`: training steps by 1, 2 and 4 processes of this machine; what many machines would take.

The processes talk over loopback. A step is that of `latentgraph bench step`: 16 features, an embedding of 4, k = 5,
three graph convolutions of width 64. Strong: the same rows for any number of processes. Weak: as many rows for each.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

from latentgraph.bench.measure import PeakMemory
from latentgraph.bench.step import CLASSES, EMBEDDING, FEATURES, WIDTH, K
from latentgraph.bench.tables import Row, number
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet
from latentgraph.sampling import gumbel_top_k
from latentgraph.stacks import gcn, mlp
from latentgraph.text_table import Table
from latentgraph.training import NodeSet, TrainState, fit

LIBRARIES = ()
PROCESSES = (1, 2, 4)
STEPS = 3  # that are measured, after a first one that is not
CONVOLUTIONS = 3
NETWORK = 1.25e9  # bytes in a second, for the forecast: 10 Gbit/s
MACHINES, FORECAST = (8, 64), (10_000_000, 100_000_000)


class Case(NamedTuple):
    kind: str  # strong, weak, or tree: planting the tree of all points, which every process does for itself
    n: int
    processes: int
    threads: int


def cases(quick: bool, threads: Sequence[int]) -> list[Case]:
    """Every process has one thread: they share the cores already."""
    strong, weak, trees = (600, 300, (600,)) if quick else (100_000, 50_000, (100_000, 1_000_000))
    processes = PROCESSES[:2] if quick else PROCESSES
    return [
        *(Case("strong", strong, p, 1) for p in processes),
        *(Case("weak", weak * p, p, 1) for p in processes),
        *(Case("tree", n, 1, 1) for n in trees),
    ]


def measure(case: Case) -> list[Row]:
    if case.kind == "tree":
        return [{**case._asdict(), **_planting(case.n)}]
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = [
            subprocess.Popen(  # noqa: S603 it is this file
                [sys.executable, "-m", "latentgraph.bench.scaling", str(case.n), f"{folder}/{rank}.json"],
                env={**os.environ, **_environment(case.processes, rank, port)},
            )
            for rank in range(case.processes)
        ]
        if any([process.wait() for process in started]):  # noqa: C419 all of them are waited for
            raise RuntimeError(f"a process of {case} has failed; what it has said is above")
        found = [json.loads(Path(f"{folder}/{rank}.json").read_text()) for rank in range(case.processes)]
    mean = {name: sum(one[name] for one in found) / len(found) for name in found[0]}
    return [{**case._asdict(), **mean, "repeats": STEPS}]


def _environment(size: int, rank: int, port: int) -> dict[str, str]:
    """One thread; loopback only; and what a launcher sets."""
    ours = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if size == 1:
        return ours
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return ours | {name: str(value) for name, value in world.items()}


def _planting(n: int) -> Row:
    """Seconds to sample for one row, which is planting the tree, and for all rows."""
    x_hat = torch.randn(n, EMBEDDING, generator=torch.Generator().manual_seed(0))
    gumbel_top_k(x_hat[:1000], K, 10.0)  # loads the compiled code
    taken = []
    for query in (torch.tensor([0]), None):
        start = time.process_time()
        gumbel_top_k(x_hat, K, 10.0, query=query)
        taken.append(time.process_time() - start)
    return {"planting": taken[0], "seconds": taken[1], "repeats": 1}


def work(n: int) -> Row:
    """One process: its part of some training steps, and what they have cost it."""
    from latentgraph.distributed.group import joined
    from latentgraph.distributed.partition import Partition

    torch.set_num_threads(1)
    torch.manual_seed(0)
    nodes = NodeSet(torch.randn(n, FEATURES), torch.randint(CLASSES, (n,)))
    convolutions = gcn([FEATURES, *[WIDTH] * CONVOLUTIONS], activate_last=True)
    net = DGMNet([(DiscreteDGM(mlp([FEATURES, WIDTH, EMBEDDING]), K), convolutions)], nn.Linear(WIDTH, CLASSES))
    with joined() as team:
        partition = None if team is None else Partition.of(n, team)
        if partition is not None:
            nodes = partition.part(nodes)
        seen: list[dict[str, float]] = []

        def look(state: TrainState) -> None:
            clock = None if team is None else team.clock
            seen.append(
                {
                    "seconds": time.perf_counter(),
                    "processor": time.process_time(),
                    "communication": sum(clock.seconds.values()) if clock else 0.0,
                    "waiting": clock.waiting if clock else 0.0,
                    "received": sum(clock.received.values()) / 1e6 if clock else 0.0,
                }
            )

        if team is not None:
            team.clock.apart = True
        with PeakMemory() as peak:
            fit(net, nodes, baseline=MovingAverageBaseline(n), steps=STEPS + 1, callbacks=[look], sharing=partition)
    steps = [{name: after[name] - before[name] for name in after} for before, after in pairwise(seen)]
    return {name: median(step[name] for step in steps) for name in steps[0]} | {"megabytes": peak.megabytes}


def tables(rows: Sequence[Row]) -> list[Table]:
    header = ["rows", "processes", "s a step", "rows a second, ×", "processor s of each", "communication, %"]
    titles = {"strong": "Strong scaling: the same rows", "weak": "Weak scaling: as many rows for each process"}
    found = []
    for kind, title in titles.items():
        here = [row for row in rows if row["kind"] == kind]
        lines = [
            [
                f"{row['n']:,}",
                str(row["processes"]),
                number(row["seconds"]),
                number(here[0]["seconds"] / row["seconds"] * (row["n"] / here[0]["n"])),
                number(row["processor"]),
                number(100 * row["communication"] / row["seconds"]),
                number(100 * row["waiting"] / row["seconds"]),
                number(row["received"]),
                number(row["megabytes"]),
            ]
            for row in here
        ]
        found.append(Table(title, [*header, "waiting, %", "MB received by each", "memory of each, MB"], lines))
    trees = [row for row in rows if row["kind"] == "tree"]
    lines = [[f"{row['n']:,}", number(row["planting"]), number(row["seconds"])] for row in trees]
    found.append(Table("Sampling, processor s", ["rows", "planting the tree", "planting and sampling"], lines))
    head = [
        "rows",
        "machines",
        "GB received",
        "planting, s",
        "own rows, s",
        "handling, s",
        "network, s",
        "a step, s",
        "by one, s",
    ]
    return [*found, Table("Computed from these, not measured: a step by many machines", head, list(_forecasts(rows)))]


def received(n: int, p: int) -> float:
    """Bytes that each of p processes gets in a step: see docs/distributed.md."""
    others = 1 - 1 / p
    asked = min(1 - math.exp(-K / p), 1.0) * others
    features = CONVOLUTIONS * WIDTH * (asked if asked <= 0.75 * others else others)
    embedding = EMBEDDING * (others + others)  # gathered, and its gradient added up
    return 4.0 * n * (2 * features + embedding + CLASSES * others)


def _forecasts(rows: Sequence[Row]) -> Iterator[list[str]]:
    """T(n, p) = planting(n) + (n / p) w + received(n, p) (handling + 1 / network)."""
    one: Any = max((row for row in rows if row["processes"] == 1 and row["kind"] != "tree"), key=lambda row: row["n"])
    tree: Any = max((row for row in rows if row["kind"] == "tree"), key=lambda row: row["n"])
    each = tree["planting"] / (tree["n"] * math.log2(tree["n"]))

    def planting(n: int) -> float:
        return each * n * math.log2(n)

    own = (one["processor"] - planting(one["n"])) / one["n"]
    # What processes of several have worked beyond their own rows, for each byte that they have received.
    handling = median(
        (row["processor"] - planting(row["n"]) - own * row["n"] / row["processes"]) / (1e6 * row["received"])
        for row in rows
        if row["kind"] != "tree" and row["processes"] > 1
    )
    for n in FORECAST:
        for p in MACHINES:
            size = received(n, p)
            times = [planting(n), own * n / p, size * handling, size / NETWORK]
            yield [f"{n:,}", str(p), *map(number, [size / 1e9, *times, sum(times), planting(n) + own * n])]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(work(int(sys.argv[1]))))
