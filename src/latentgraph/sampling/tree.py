"""Backend "tree": the exponential race on a kd-tree, on the CPU. Sub-quadratic, and as exact as the plain one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes
from latentgraph.geometry import Geometry
from latentgraph.sampling.kdtree import Array, Tree, factors_of, plant
from latentgraph.sampling.lanes import LANES
from latentgraph.sampling.race import new_packet, race_leaves

PATIENCE = 2.0  # seconds after which the first call says what it is waiting for
THREADING_PAYS = 64  # leaves


def supports(x_hat: Tensor, temperature: float, geometry: Geometry) -> bool:
    """Whether the bounds of the tree hold for these points: a known geometry, and no overflow in single precision."""
    if factors_of(geometry, x_hat.shape[1]) is None or not x_hat.shape[1]:
        return False
    reach = float(x_hat.abs().max()) if x_hat.numel() else 0.0
    return max(temperature, 1.0) * max(4.0 * x_hat.shape[1] * reach * reach, 1.0) < 1e30


def tree_top_k(
    x_hat: Tensor,
    k: int,
    temperature: float,
    *,
    geometry: Geometry,
    loop: bool,
    batch: Tensor | None,
    rows: Tensor,
    seed: int | None,
) -> Tensor:
    """For each of `rows`, the k candidates with the largest log p + Gumbel noise, largest first: (r, k).

    `seed=None` leaves the noise out: the k nearest neighbours.
    """
    x = np.ascontiguousarray(x_hat.numpy(force=True))
    factors = factors_of(geometry, x.shape[1])
    assert factors is not None
    with _announced():
        tree = plant(x, graph_sizes(batch, len(x)).tolist(), factors)
        out = np.empty((len(x), k), np.int64)
        asked = _asked(tree, rows.numpy(force=True), len(x))
        graph_of = np.repeat(np.arange(len(tree.size)), np.diff(tree.first_leaf))

        def race(begin: int, end: int) -> None:
            packet = new_packet(tree.coords, k)
            race_leaves(
                tree,
                packet,
                begin,
                end,
                graph_of,
                asked,
                not loop,
                temperature,
                seed is not None,
                np.uint64(seed or 0),
                out,
            )

        leaves, threads = len(asked), torch.get_num_threads()
        if threads == 1 or leaves < THREADING_PAYS:
            race(0, leaves)
        else:
            cuts = np.linspace(0, leaves, 4 * threads + 1).astype(int).tolist()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(race, *zip(*pairwise(cuts), strict=True)))
    return torch.from_numpy(out).index_select(0, rows.cpu()).to(x_hat.device)


def _asked(tree: Tree, rows: Array, num_rows: int) -> Array:
    """For every leaf the lanes that hold one of `rows`, as bits."""
    wanted = np.zeros(num_rows + 1, bool)  # the last is read by the unused places, whose row is -1
    wanted[rows] = True
    wanted[-1] = False
    return wanted[tree.rows].reshape(-1, LANES) @ (1 << np.arange(LANES))


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
