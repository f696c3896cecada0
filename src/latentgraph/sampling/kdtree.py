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
    coords: int  # coordinates of a point, the further ones below included; in flat space zeros up to a multiple of 4
    first_leaf: Array  # (graphs + 1,)
    size: Array  # (graphs,) number of points
    graph_of: Array  # (leaves,) the graph a leaf belongs to
    # The factors of the geometry. Besides its own coordinates, a ball has a further one that holds 1 - c |x|^2.
    kind: Array  # (factors,) FLAT, SPHERE or BALL
    start: Array  # its coordinates are [start, stop)
    stop: Array
    curvature: Array
    gap: Array  # number of the further coordinate
    bent: tuple[int, ...]  # () if space is one flat factor, in single precision as it came: code is compiled for that
    slack: float  # how far a coordinate in single precision may be off: zero if that is what came
    rounding: float  # relative error of a sum of d squares in single precision and of what follows, with room to spare
    bunch: int  # leaves of a cell that is not split any further


class Crews(NamedTuple):
    """Rows that go through a tree, sixteen at a time: those of a crew have the same home leaf."""

    home: Array  # (crews,) leaf
    rows: Array  # (16 crews,) row of the table; -1 if none
    points: Array  # (16 crews, d) its coordinates
    lanes: Array  # flat (crews, coords, 16) float32, as in the tree
    guests: bool  # whether they come from another table than the points of the tree


def residents(tree: Tree) -> Crews:
    """The points of the tree themselves: each leaf is a crew."""
    return Crews(np.arange(len(tree.graph_of)), tree.rows, tree.points, tree.lanes, False)


def guests(tree: Tree, x: Array) -> Crews:
    """The rows of another table (n, d), each at home in the leaf that it reaches by going to the nearer half."""
    home = _homes(tree, x)
    order = home.argsort(kind="stable")
    leaf, count = np.unique(home, return_counts=True)
    crews = -(-count // LANES)
    first_crew = crews.cumsum() - crews
    place = np.repeat(first_crew * LANES, count) + np.arange(len(x)) - np.repeat(count.cumsum() - count, count)
    rows = np.full(int(crews.sum()) * LANES, -1, np.int64)
    rows[place] = order
    points = np.zeros((len(rows), x.shape[1]), x.dtype)
    points[place] = x[order]
    lanes = np.zeros(len(rows) * tree.coords, np.float32)
    _side_by_side(tree, points, lanes)
    return Crews(np.repeat(leaf, crews), rows, points, lanes, True)


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


def plant(x: Array, sizes: Sequence[int], factors: Sequence[tuple[int, int, float]], reach: float) -> Tree:
    """Build the trees of graphs that are runs of `sizes` rows of x (n, d). No coordinate, also of guests, is larger
    than `reach`.
    """
    size = np.asarray(sizes, dtype=np.int64)
    first_leaf = np.concatenate([[0], (-(-size // LANES)).cumsum()])
    leaves = int(first_leaf[-1])
    kind, dims, curvature = (np.array(column) for column in zip(*factors, strict=True))
    stop = dims.cumsum()
    is_ball = kind == BALL
    exact, eps = x.dtype == np.float32, float(np.finfo(np.float32).eps)
    bent = () if exact and kind.tolist() == [FLAT] else (1,)
    coords = x.shape[1] + int(is_ball.sum()) if bent else -(-x.shape[1] // 4) * 4
    tree = Tree(
        rows=np.empty(leaves * LANES, np.int64),
        points=np.empty((leaves * LANES, x.shape[1]), x.dtype),
        lanes=np.zeros(leaves * coords * LANES, np.float32),
        boxes=np.zeros(4 * leaves * coords, np.float32),
        coords=coords,
        first_leaf=first_leaf,
        size=size,
        graph_of=np.repeat(np.arange(len(size)), np.diff(first_leaf)),
        kind=kind,
        start=stop - dims,
        stop=stop,
        curvature=curvature,
        gap=x.shape[1] + is_ball.cumsum() - 1,
        bent=bent,
        slack=0.0 if exact else 2 * eps * reach,
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
    _side_by_side(tree, tree.points, tree.lanes)
    for graph in range(len(tree.size)):
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
    first, d, n = tree.first_leaf[graph], x.shape[1], tree.size[graph]
    for number in range((tree.first_leaf[graph + 1] - first) * LANES):
        place = first * LANES + number
        row = order[first * LANES + min(number, n - 1)]
        tree.rows[place] = row if number < n else -1
        for c in range(d):
            tree.points[place, c] = x[row, c]


@njit(**JIT)
def _side_by_side(tree: Tree, points: Array, lanes: Array) -> None:
    """Lay points out for the lanes, with the further coordinates that the geometry needs."""
    d, coords = points.shape[1], tree.coords
    for place in range(len(points)):
        base = (place // LANES) * coords * LANES + place % LANES
        for c in range(d):
            lanes[base + c * LANES] = points[place, c]
        for f in range(len(tree.kind)):
            if tree.kind[f] == BALL:
                square = 0.0
                for c in range(tree.start[f], tree.stop[f]):
                    square += float64(points[place, c]) ** 2  # float() would keep float32
                lanes[base + tree.gap[f] * LANES] = 1.0 - tree.curvature[f] * square


@njit(**JIT)
def _homes(tree: Tree, x: Array) -> Array:
    """For each row of x the leaf of the (only) tree that is reached by always going to the nearer box."""
    homes = np.empty(len(x), np.int64)
    for row in range(len(x)):
        node, leaf, m = 0, 0, len(tree.graph_of)
        while m > 1:
            half = m // 2
            if _outside(tree, node + 1, x, row) <= _outside(tree, node + 2 * half, x, row):
                node, m = node + 1, half
            else:
                node, leaf, m = node + 2 * half, leaf + half, m - half
        homes[row] = leaf
    return homes


@njit(**JIT)
def _outside(tree: Tree, node: int, x: Array, row: int) -> float:
    """Squared distance of a row to a box; coordinates only, whatever the geometry."""
    square = 0.0
    for c in range(x.shape[1]):
        low, high = tree.boxes[2 * node * tree.coords + c], tree.boxes[(2 * node + 1) * tree.coords + c]
        away = max(low - x[row, c], x[row, c] - high, 0.0)
        square += away * away
    return square


@njit(**JIT)
def _bound_gaps(tree: Tree, graph: int) -> None:
    """Bound the further coordinates too, where the geometry has some."""
    if len(tree.bent) and tree.coords > tree.points.shape[1]:
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
