"""A balanced kd-tree over the points of every graph of a batch, laid out for sixteen lanes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numba import float64, njit

from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Product, Sphere
from latentgraph.sampling.lanes import JIT, LANES

Array = np.ndarray[Any, np.dtype[Any]]

FLAT, SPHERE, BALL = 0, 1, 2
MANY_DIMENSIONS = 12  # from here on the box of 16 points is so large that asking the points costs less than testing it


class Tree(NamedTuple):
    """The trees of all graphs, one after the other.

    A leaf holds 16 places, of which only the last leaf of a graph may leave some unused. A node of m leaves has its
    left child, of m // 2 leaves, at its own number + 1 and its right child at its number + 2 (m // 2); the root of a
    graph is twice the number of its first leaf. So the points below a node sit side by side.
    """

    rows: Array  # (places,) which row of the table sits here; -1 if none does
    points: Array  # (places, d) its coordinates as they came
    lanes: Array  # flat (leaves, coords, 16) float32: the points of a leaf side by side, coordinate by coordinate
    boxes: Array  # flat (nodes, 2, coords) float32: lowest and highest coordinates below a node
    coords: int  # coordinates of a point, the further ones below included
    first_leaf: Array  # (graphs + 1,)
    size: Array  # (graphs,) number of points
    # The factors of the geometry. Besides its own coordinates, a ball has a further one that holds 1 - c |x|^2.
    kind: Array  # (factors,) FLAT, SPHERE or BALL
    start: Array  # its coordinates are [start, stop)
    stop: Array
    curvature: Array
    gap: Array  # number of the further coordinate
    slack: float  # how far a coordinate in single precision may be off: zero if that is what came
    rounding: float  # relative error of a sum of d squares in single precision and of what follows, with room to spare
    bunch: int  # leaves of a cell that is not split any further


def factors_of(geometry: Geometry, d: int) -> list[tuple[int, int, float]] | None:
    """(kind, coordinates, curvature) of each factor of a geometry; None for one that has no bounds here."""
    match geometry:
        case Euclidean():
            return [(FLAT, d, 1.0)]
        case Sphere():
            return [(SPHERE, d, 1.0)]
        case PoincareBall():
            return [(BALL, d, geometry.curvature)]
        case Product():
            parts = [factors_of(factor, dim) for factor, dim in geometry.factors]
            known = [part for part in parts if part is not None]
            return [f for part in known for f in part] if len(known) == len(parts) else None
        case _:
            return None


def plant(x: Array, sizes: Sequence[int], factors: Sequence[tuple[int, int, float]]) -> Tree:
    """Build the trees of graphs that are runs of `sizes` rows of x (n, d)."""
    size = np.asarray(sizes, dtype=np.int64)
    first_leaf = np.concatenate([[0], (-(-size // LANES)).cumsum()])
    leaves = int(first_leaf[-1])
    kind, dims, curvature = (np.array(column) for column in zip(*factors, strict=True))
    stop = dims.cumsum()
    is_ball = kind == BALL
    coords = x.shape[1] + int(is_ball.sum())
    exact, eps = x.dtype == np.float32, float(np.finfo(np.float32).eps)
    tree = Tree(
        rows=np.empty(leaves * LANES, np.int64),
        points=np.empty((leaves * LANES, x.shape[1]), x.dtype),
        lanes=np.empty(leaves * coords * LANES, np.float32),
        boxes=np.empty(4 * leaves * coords, np.float32),
        coords=coords,
        first_leaf=first_leaf,
        size=size,
        kind=kind,
        start=stop - dims,
        stop=stop,
        curvature=curvature,
        gap=x.shape[1] + is_ball.cumsum() - 1,
        slack=0.0 if exact else 2 * eps * float(np.abs(x).max()),
        rounding=(x.shape[1] + 8) * eps,
        bunch=1 if x.shape[1] < MANY_DIMENSIONS else 8,
    )
    order = np.zeros(leaves * LANES, np.int64)
    first_row = [0, *accumulate(sizes)]
    for graph, rows in enumerate(sizes):
        begin = first_leaf[graph] * LANES
        order[begin : begin + rows] = np.arange(first_row[graph], first_row[graph] + rows)
    _sort_all(
        x, tree, order, np.empty(len(order), x.dtype), np.empty((128, 3), np.int64), np.empty((2, coords), x.dtype)
    )
    return tree


@njit(**JIT)
def _sort_all(x: Array, tree: Tree, order: Array, key: Array, stack: Array, box: Array) -> None:
    for graph in range(len(tree.size)):
        _sort(x, tree, graph, order, key, stack, box)
        _fill(x, tree, graph, order)
        _bound_gaps(tree, graph)


@njit(**JIT)
def _sort(x: Array, tree: Tree, graph: int, order: Array, key: Array, stack: Array, box: Array) -> None:
    """Order the rows of a graph such that each node's points are together, cutting the widest side in the middle."""
    first = tree.first_leaf[graph]
    begin, n, d, coords = first * LANES, tree.size[graph], x.shape[1], tree.coords
    stack[0, 0], stack[0, 1], stack[0, 2] = 2 * first, 0, tree.first_leaf[graph + 1] - first
    depth = 1
    while depth > 0:
        depth -= 1
        node, leaf, m = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        lo, hi = begin + leaf * LANES, begin + min(n, (leaf + m) * LANES)
        for c in range(d):
            box[0, c] = box[1, c] = x[order[lo], c]
        for i in range(lo + 1, hi):
            for c in range(d):
                value = x[order[i], c]
                box[0, c], box[1, c] = min(box[0, c], value), max(box[1, c], value)
        widest = 0
        for c in range(d):
            tree.boxes[2 * node * coords + c] = box[0, c]
            tree.boxes[(2 * node + 1) * coords + c] = box[1, c]
            if box[1, c] - box[0, c] > box[1, widest] - box[0, widest]:
                widest = c
        if m == 1:
            continue
        half = m // 2
        if box[1, widest] > box[0, widest]:
            for i in range(lo, hi):
                key[i] = x[order[i], widest]
            _partition(key, order, lo, hi, begin + (leaf + half) * LANES)
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = node + 1, leaf, half
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = node + 2 * half, leaf + half, m - half
        depth += 2


@njit(**JIT)
def _partition(key: Array, order: Array, lo: int, hi: int, middle: int) -> None:
    """Reorder [lo, hi) such that no key before `middle` is above one from there on (quickselect)."""
    left, right = lo, hi - 1
    while left < right:
        a, b, c = key[left], key[(left + right) >> 1], key[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while key[i] < pivot:
                i += 1
            while key[j] > pivot:
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@njit(**JIT)
def _fill(x: Array, tree: Tree, graph: int, order: Array) -> None:
    """Copy the points of a graph into their places; unused places repeat the last point."""
    first, d, coords, n = tree.first_leaf[graph], x.shape[1], tree.coords, tree.size[graph]
    for number in range((tree.first_leaf[graph + 1] - first) * LANES):
        place = first * LANES + number
        row = order[first * LANES + min(number, n - 1)]
        tree.rows[place] = row if number < n else -1
        base = (place // LANES) * coords * LANES + place % LANES
        for c in range(d):
            tree.points[place, c] = x[row, c]
            tree.lanes[base + c * LANES] = x[row, c]
        for f in range(len(tree.kind)):
            if tree.kind[f] == BALL:
                square = 0.0
                for c in range(tree.start[f], tree.stop[f]):
                    square += float64(x[row, c]) ** 2  # float() would keep float32
                tree.lanes[base + tree.gap[f] * LANES] = 1.0 - tree.curvature[f] * square


@njit(**JIT)
def _bound_gaps(tree: Tree, graph: int) -> None:
    """Bound the further coordinates too, where the geometry has some."""
    if tree.coords > tree.points.shape[1]:
        first = tree.first_leaf[graph]
        _bound_gaps_below(tree, 2 * first, first, tree.first_leaf[graph + 1] - first)


@njit(**JIT)
def _bound_gaps_below(tree: Tree, node: int, leaf: int, m: int) -> None:
    d, coords = tree.points.shape[1], tree.coords
    half = m // 2
    if m > 1:
        _bound_gaps_below(tree, node + 1, leaf, half)
        _bound_gaps_below(tree, node + 2 * half, leaf + half, m - half)
    for c in range(d, coords):
        if m == 1:
            base = (leaf * coords + c) * LANES
            low = high = tree.lanes[base]
            for lane in range(1, LANES):
                low, high = min(low, tree.lanes[base + lane]), max(high, tree.lanes[base + lane])
        else:
            a, b = 2 * (node + 1) * coords + c, 2 * (node + 2 * half) * coords + c
            low, high = min(tree.boxes[a], tree.boxes[b]), max(tree.boxes[a + coords], tree.boxes[b + coords])
        tree.boxes[2 * node * coords + c], tree.boxes[(2 * node + 1) * coords + c] = low, high
