"""A balanced kd-tree over the points of every graph of a batch, laid out for 32 lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, njit, uint32, uint64

from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Product, Sphere
from latentgraph.sampling.lanes import JIT, LANES, Word

Array = np.ndarray[Any, np.dtype[Any]]


class Helpers(NamedTuple):
    """Threads that share work."""

    number: int
    each: Callable[[Callable[[int, int], None], Sequence[int]], None]  # calls a function with (cuts[i], cuts[i + 1])


FLAT, SPHERE, BALL = 0, 1, 2
SAMPLE = 64  # points that tell which side of a cell is the widest
MANY_DIMENSIONS = 12  # from here on the box of 32 points is so large that asking the points costs less than testing it


class Tree(NamedTuple):
    """The trees of all graphs, one after the other.

    A leaf holds 32 places, of which only the last leaf of a graph may leave some unused. A node of m leaves has its
    left child, of m // 2 leaves, at its own number + 1 and its right child at its number + 2 (m // 2); the root of a
    graph is twice the number of its first leaf. So the points below a node sit side by side.
    """

    rows: Array  # (places,) which row of the table sits here; -1 if none does
    points: Array  # (places, d) its coordinates as they came
    lanes: Array  # flat (leaves, coords, 32) float32: the points of a leaf side by side, coordinate by coordinate
    boxes: Array  # flat (nodes, 2, coords) float32: lowest and highest coordinates below a node
    uneven: Array  # (nodes,) float32: squared distances to the nearest and to the farthest corner of the box differ by
    # no less, from wherever they are taken; zero if space is not flat
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
    """Rows that go through a tree, 32 at a time: those of a crew have the same home leaf."""

    home: Array  # (crews,) leaf
    rows: Array  # (32 crews,) row of the table; -1 if none
    points: Array  # (32 crews, d) its coordinates
    lanes: Array  # flat (crews, coords, 32) float32, as in the tree
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
    _side_by_side(tree, points, lanes, 0, len(rows))
    return Crews(np.repeat(leaf, crews), rows, points, lanes, True)


def factors_of(geometry: Geometry, d: int) -> list[tuple[int, int, float]] | None:
    """(kind, coordinates, curvature) of each factor of a geometry; None for one that has no bounds here."""
    match geometry:
        case Euclidean():
            return [(FLAT, d, 1.0)]
        case Sphere(curvature=1.0):  # others have no bounds here
            return [(SPHERE, d, 1.0)]
        case PoincareBall():
            return [(BALL, d, float(geometry.curvature))]
        case Product():
            parts = [factors_of(factor, dim) for factor, dim in geometry.factors]
            known = [part for part in parts if part is not None]
            return [f for part in known for f in part] if len(known) == len(parts) else None
        case _:
            return None


def plant(
    x: Array,
    sizes: Sequence[int],
    factors: Sequence[tuple[int, int, float]],
    reach: float,
    helpers: Helpers | None = None,
) -> Tree:
    """Build the trees of graphs that are runs of `sizes` rows of x (n, d). No coordinate, also of guests, is larger
    than `reach`. The tree does not depend on the `helpers`.
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
        uneven=np.zeros(2 * leaves, np.float32),
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
        bunch=1 if x.shape[1] < MANY_DIMENSIONS else 4,
    )
    cards, spare = np.empty(leaves * LANES, np.uint64), np.empty(leaves * LANES, np.uint64)
    parts = 1 if helpers is None else helpers.number
    large = -(-leaves // parts)  # leaves of the largest cell that is sorted by one thread
    cells = np.empty((len(size) + 4 * parts, 4), np.int64)
    count = _sort_top(x, tree, cards, spare, large, cells)
    if helpers is None:
        _sort_cells(x, tree, cards, spare, cells, 0, count)
    else:
        cuts = np.searchsorted(cells[:count, 1], np.arange(parts + 1) * leaves // parts).tolist()
        helpers.each(lambda begin, end: _sort_cells(x, tree, cards, spare, cells, begin, end), cuts)
    _bound_top(tree, large)
    return tree


# A row on its way to its leaf is a card: 32 bits that order it by a coordinate in single precision, then its number. No
# two cards are alike, so who belongs to which cell does not depend on how they are sorted; it need not be exact either,
# for any tree gives the same law.


@njit(**JIT)
def _card(x: Array, row: int, c: int) -> Word:
    """The bits of a float are in the order of the floats, but for its sign."""
    bits = np.float32(x[row, c]).view(np.uint32)
    ordered = bits ^ uint32(0xFFFFFFFF) if bits >> uint32(31) else bits | uint32(0x80000000)
    return (uint64(ordered) << uint64(32)) | uint64(row)


@njit(**JIT)
def _row(card: Word) -> int:
    return int64(card & uint64(0xFFFFFFFF))


@njit(**JIT)
def _sort_top(x: Array, tree: Tree, cards: Array, spare: Array, large: int, cells: Array) -> int:
    """Deal the rows of every graph, cutting cells until none has more than `large` leaves; returns their number.

    A row of `cells`: node, first leaf, leaves, end of the points. They are written in the order of their leaves.
    """
    count, row = 0, 0
    stack = np.empty((128, 3), np.int64)
    for graph in range(len(tree.size)):
        first = tree.first_leaf[graph]
        end = first * LANES + tree.size[graph]
        for place in range(first * LANES, end):
            cards[place] = row
            row += 1
        stack[0, 0], stack[0, 1], stack[0, 2] = 2 * first, first, tree.first_leaf[graph + 1] - first
        depth = 1
        while depth > 0:
            depth -= 1
            node, leaf, m = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            if m <= large:
                cells[count, 0], cells[count, 1], cells[count, 2], cells[count, 3] = node, leaf, m, end
                count += 1
                continue
            half = m // 2
            _halve(x, cards, spare, leaf * LANES, min(end, (leaf + m) * LANES), (leaf + half) * LANES)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = node + 2 * half, leaf + half, m - half
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = node + 1, leaf, half
            depth += 2
    return count


@njit(**JIT)
def _sort_cells(x: Array, tree: Tree, cards: Array, spare: Array, cells: Array, begin: int, stop: int) -> None:
    """Finish the cells [begin, stop): sort their rows into leaves, put the points there, bound them."""
    for cell in range(begin, stop):
        node, leaf, m, end = cells[cell, 0], cells[cell, 1], cells[cell, 2], cells[cell, 3]
        _sort(x, cards, spare, leaf, m, end)
        _fill(x, tree, cards, leaf, m, end)
        _side_by_side(tree, tree.points, tree.lanes, leaf * LANES, (leaf + m) * LANES)
        _bound(tree, node, leaf, m, 0)


@njit(**JIT)
def _sort(x: Array, cards: Array, spare: Array, leaf: int, m: int, end: int) -> None:
    """Sort the rows of a cell into its leaves."""
    if m > 1:
        half = m // 2
        _halve(x, cards, spare, leaf * LANES, min(end, (leaf + m) * LANES), (leaf + half) * LANES)
        _sort(x, cards, spare, leaf, half, end)
        _sort(x, cards, spare, leaf + half, m - half, end)


@njit(**JIT)
def _halve(x: Array, cards: Array, spare: Array, begin: int, end: int, middle: int) -> None:
    """Order the cards [begin, end) such that those before `middle` are lower than the others along the widest side.

    Of a large cell some cards tell which side that is.
    """
    step, widest, width = max((end - begin) // SAMPLE, 1), 0, -1.0
    for c in range(x.shape[1]):
        low = high = x[_row(cards[begin]), c]
        for i in range(begin + step, end, step):
            value = x[_row(cards[i]), c]
            low, high = min(low, value), max(high, value)
        if high - low > width:
            widest, width = c, high - low
    for i in range(begin, end):
        cards[i] = _card(x, _row(cards[i]), widest)
    _select(cards, spare, begin, end, middle)


@njit(**JIT)
def _select(cards: Array, spare: Array, begin: int, end: int, middle: int) -> None:
    """Reorder [begin, end) such that no card before `middle` is above one from there on (quickselect).

    Cards are dealt to both ends of `spare` without a branch, which nobody could predict.
    """
    while end - begin > 1 and begin < middle < end:
        pivot = _pivot(cards, begin, end, middle)
        low, high = begin, end - 1
        for i in range(begin, end):
            card = cards[i]
            spare[low] = spare[high] = card
            is_low = int64(card < pivot)
            low += is_low
            high -= 1 - is_low
        for i in range(begin, end):
            cards[i] = spare[i]
        if middle < low:
            end = low
        else:
            begin = low


@njit(**JIT)
def _pivot(cards: Array, begin: int, end: int, middle: int) -> Word:
    """A number near the card that belongs at `middle`: some cards are below it, and some are not."""
    a, b, c = cards[begin], cards[(begin + end) >> 1], cards[end - 1]
    lowest, highest = min(a, b, c), max(a, b, c)
    if 4 * (middle - begin) < end - begin:
        return lowest + uint64(1)
    if 4 * (end - middle) < end - begin:
        return highest
    return max(min(a, b), min(max(a, b), c), lowest + uint64(1))


@njit(**JIT)
def _fill(x: Array, tree: Tree, cards: Array, leaf: int, m: int, end: int) -> None:
    """Copy points into their places; unused places repeat the last point."""
    for place in range(leaf * LANES, (leaf + m) * LANES):
        row = _row(cards[min(place, end - 1)])
        tree.rows[place] = row if place < end else -1
        for c in range(x.shape[1]):
            tree.points[place, c] = x[row, c]


@njit(**JIT)
def _side_by_side(tree: Tree, points: Array, lanes: Array, begin: int, end: int) -> None:
    """Lay the points [begin, end) out for the lanes, with the further coordinates that the geometry needs."""
    d, coords = points.shape[1], tree.coords
    for place in range(begin, end):
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
def _bound_top(tree: Tree, large: int) -> None:
    """Bound the cells of more than `large` leaves."""
    for graph in range(len(tree.size)):
        first = tree.first_leaf[graph]
        _bound(tree, 2 * first, first, tree.first_leaf[graph + 1] - first, large)


@njit(**JIT)
def _bound(tree: Tree, node: int, leaf: int, m: int, large: int) -> None:
    """Lowest and highest coordinates of a cell and those below it, but for cells of up to `large` leaves."""
    if m <= large:
        return
    coords, half = tree.coords, m // 2
    if m > 1:
        _bound(tree, node + 1, leaf, half, large)
        _bound(tree, node + 2 * half, leaf + half, m - half, large)
    uneven = np.float32(0.0)
    for c in range(coords):
        if m == 1:
            base = (leaf * coords + c) * LANES
            low = high = tree.lanes[base]
            for lane in range(1, LANES):
                low, high = min(low, tree.lanes[base + lane]), max(high, tree.lanes[base + lane])
        else:
            a, b = 2 * (node + 1) * coords + c, 2 * (node + 2 * half) * coords + c
            low, high = min(tree.boxes[a], tree.boxes[b]), max(tree.boxes[a + coords], tree.boxes[b + coords])
        tree.boxes[2 * node * coords + c], tree.boxes[(2 * node + 1) * coords + c] = low, high
        uneven += (high - low) * (high - low)
    tree.uneven[node] = np.float32(0.0) if len(tree.bent) else uneven / np.float32(4.0)
