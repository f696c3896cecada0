"""Backend "tree": the exponential race on a kd-tree, on the CPU. Sub-quadratic, and as exact as the plain one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes
from latentgraph.sampling.crew import share
from latentgraph.sampling.kdtree import Array, Crews, Helpers, factors_of, guests, plant, residents
from latentgraph.sampling.lanes import LANES
from latentgraph.sampling.packet import new_packet
from latentgraph.sampling.population import Population
from latentgraph.sampling.race import race_crews

PATIENCE = 2.0  # seconds after which the first call says what it is waiting for
THREADING_PAYS = 32  # leaves
PARTS = 8  # in which each thread's share of the rows is cut: they do not take equally long


def supports(population: Population, temperature: float) -> bool:
    """Whether the bounds of the tree hold for these points: a known geometry, and no overflow in single precision."""
    d = population.x_hat.shape[1]
    if factors_of(population.geometry, d) is None or not d:
        return False
    reach = _reach(population)
    return max(temperature, 1.0) * max(4.0 * d * reach * reach, 1.0) < 1e30


def _reach(population: Population) -> float:
    """The largest coordinate."""
    tables = {population.x_hat, population.points}  # mostly one and the same
    return max(float(x.abs().max()) if len(x) else 0.0 for x in tables)


def tree_top_k(population: Population, k: int, temperature: float, seed: int | None) -> Tensor:
    """For each of the rows, the k candidates with the largest log p + Gumbel noise, largest first: (r, k).

    `seed=None` leaves the noise out: the k nearest neighbours.
    """
    x = np.ascontiguousarray(population.x_hat.numpy(force=True))
    points = np.ascontiguousarray(population.points.numpy(force=True))
    rows = population.rows.numpy(force=True)
    factors = factors_of(population.geometry, x.shape[1])
    assert factors is not None
    helpers = _helpers(max(len(points), len(x)) // LANES)
    with _announced():
        sizes = graph_sizes(population.batch, len(points)).tolist()
        tree = plant(points, sizes, factors, _reach(population), helpers)
        crews = residents(tree) if population.points is population.x_hat else guests(tree, x)
        asked = _asked(crews, rows, len(x))
        keys = population.keys.numpy(force=True)
        out = np.empty((len(x), k), np.int64)

        def race(begin: int, end: int) -> None:
            race_crews(
                tree,
                crews,
                new_packet(tree, k),
                begin,
                end,
                asked,
                population.skip_self,
                temperature,
                seed is not None,
                np.uint64(seed or 0),
                keys,
                out,
            )

        if helpers is None:
            race(0, len(asked))
        else:
            helpers.each(race, np.linspace(0, len(asked), PARTS * helpers.number + 1).astype(int).tolist())
    return torch.from_numpy(out).index_select(0, population.rows.cpu()).to(population.x_hat.device)


def _helpers(leaves: int) -> Helpers | None:
    """As many threads as torch uses, if there is enough to do for them."""
    threads = torch.get_num_threads()
    if threads == 1 or leaves < THREADING_PAYS:
        return None
    return Helpers(threads, lambda work, cuts: share(work, cuts, threads))


def _asked(crews: Crews, rows: Array, num_rows: int) -> Array:
    """For every crew the lanes that hold one of `rows`, as bits."""
    wanted = np.zeros(num_rows + 1, bool)  # the last is read by the unused places, whose row is -1
    wanted[rows] = True
    wanted[-1] = False
    return wanted[crews.rows].reshape(-1, LANES) @ (1 << np.arange(LANES))


_ready = False


@contextmanager
def _announced() -> Iterator[None]:
    """Tell the user if the first call takes long: numba compiles once, and keeps the result for later processes."""
    global _ready
    if _ready:
        yield
        return
    message = "latentgraph: compiling the tree sampler, once for this machine (up to half a minute) ..."
    timer = threading.Timer(PATIENCE, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
        _ready = True
    finally:
        timer.cancel()
