"""Where the nodes are drawn.

The rule: a graph embedding of 2 dimensions is drawn as it is. Any other is projected on its two main axes (PCA), and up
to `ARRANGED` nodes are then arranged so that probable neighbours attract each other and random pairs repel (the
objective of UMAP, on the learned graph itself). Without an embedding, the slowest modes of a random walk on the graph
take the place of the main axes, and nodes are arranged at any size. Outliers are drawn in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ARRANGED = 20_000  # nodes; above, the main axes of the embedding have to do
EPOCHS = 300  # for up to 2,000 nodes; then fewer, but at least
FEWEST = 60
REPELLED = 5  # random nodes for each node and epoch
SEED = 0

Array = NDArray[Any]


def place(edges: sp.csr_array, embedding: Array | None = None) -> Array:
    """(n, 2) float32 positions, centred, the farthest at distance 1 along an axis; the same for the same input."""
    n = edges.shape[0]
    if embedding is not None and embedding.shape[1] == 2:
        return _framed(embedding)
    axes = _drawn_in(_main_axes(embedding) if embedding is not None else _slow_modes(edges))
    if n > ARRANGED and embedding is not None:
        return _framed(axes)
    return _framed(_drawn_in(_arranged(edges, axes, max(FEWEST, min(EPOCHS, 2_000 * EPOCHS // n)))))


def _drawn_in(xy: Array) -> Array:
    """Outliers drawn in, along each axis to a quarter of the width of the middle 98 % beyond it.

    One row must not shrink the rest; and one that starts too far away would not be attracted by its neighbours.
    """
    low, high = np.quantile(xy, [0.01, 0.99], axis=0)
    margin = (high - low) / 4
    return xy.clip(low - margin, high + margin)


def _framed(xy: Array) -> Array:
    xy = xy - (xy.max(0) + xy.min(0)) / 2
    return (xy / max(float(np.abs(xy).max()), np.finfo(float).tiny)).astype(np.float32)


def _main_axes(embedding: Array) -> Array:
    """The two principal components; the largest entry of an axis is positive, so that the picture is never mirrored."""
    centred = embedding - embedding.mean(0)
    _, _, axes = np.linalg.svd(centred.T @ centred)
    axes = axes[:2] * np.sign(np.take_along_axis(axes[:2], np.abs(axes[:2]).argmax(1)[:, None], 1))
    found = centred @ axes.T
    return found if found.shape[1] == 2 else np.hstack([found, np.zeros_like(found)])


def _slow_modes(edges: sp.csr_array, steps: int = 100) -> Array:
    """Two slow modes of a lazy random walk, by subspace iteration."""
    weight = _both_ways(edges)
    degree = np.maximum(weight.sum(1), 1e-12)
    root = np.sqrt(degree)[:, None]
    modes = np.hstack([root, np.random.default_rng(SEED).standard_normal((len(degree), min(2, len(degree) - 1)))])
    for _ in range(steps):
        modes, _ = np.linalg.qr(modes)
        modes = (modes + (weight @ (modes / root)) / root) / 2
    modes = modes[:, 1:] / root
    return np.pad(modes, [(0, 0), (0, 2 - modes.shape[1])])


def _both_ways(edges: sp.csr_array) -> sp.csr_array:
    found = sp.csr_array(edges + edges.T)
    found.setdiag(0.0)
    found.eliminate_zeros()
    return found


def _arranged(edges: sp.csr_array, start: Array, epochs: int) -> Array:
    """Gradient steps on sum_ij -w_ij log q_ij - sum_random log(1 - q), with q = 1 / (1 + d^2)."""
    random = np.random.default_rng(SEED)
    n = len(start)
    weight = _both_ways(edges)
    share = sp.csr_array(weight / np.maximum(weight.sum(1), 1e-12)[:, None])
    row, col = np.repeat(np.arange(n), np.diff(share.indptr)), share.indices
    # A little noise parts points that coincide; without it they would stay together for ever.
    xy = start / np.maximum(start.std(0), 1e-12) * 5 + random.normal(0, 0.1, start.shape)
    for epoch in range(epochs):
        pull = xy[col] - xy[row]
        pull *= (share.data * 2 / (1 + (pull**2).sum(1)))[:, None]
        step = np.zeros((n, 2))
        for axis in range(2):
            step[:, axis] = np.bincount(row, pull[:, axis], minlength=n)
        for _ in range(REPELLED):
            away = xy - xy[random.integers(n, size=n)]
            square = (away**2).sum(1)
            step += np.clip(away * (2 / ((0.1 + square) * (1 + square)))[:, None], -2, 2)
        xy = xy + (1 - epoch / epochs) * step
    return _main_axes(xy)  # the longest side lies flat, as screens do
