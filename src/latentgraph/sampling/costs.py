"""What a connection costs: t times a squared distance, and bounds of it for the boxes of a kd-tree.

32 rows against a box, one row or 32 against the points of a leaf: in single precision, by vectors, rounded so
that bounds hold (`Tree.slack`). One row against one point: in double precision, as the race decides.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, njit

from latentgraph.sampling import lanes as v
from latentgraph.sampling.kdtree import BALL, FLAT, SPHERE, Array, Tree
from latentgraph.sampling.lanes import LANES, Floats

JIT = {**v.JIT, "_nrt": False}  # nothing here makes an array: numba need not count references to those it gets
INLINE = {**JIT, "forceinline": True}
F = np.float32


@njit(**JIT)
def bend(kind: int, curvature: float, square: Floats, gaps: Floats) -> Floats:
    """From squared chords to lower bounds of squared distances on a sphere or in a ball."""
    if kind == SPHERE:  # (2 arcsin(s / 2))^2 = s^2 + s^4 / 12 + s^6 / 90 + ..., all terms positive
        return square * ((square * F(1 / 90) + F(1 / 12)) * square + F(1.0))
    z = square * F(curvature) / gaps
    arsinh = v.log(v.sqrt(z) + v.sqrt(z + F(1.0)))
    far = v.maximum(arsinh * F(1 - 1e-6) - F(3e-7), v.splat(F(0.0)))  # the logarithm of about 1 is off by eps
    near = z * (F(1.0) - z * F(1 / 3))  # arsinh(sqrt(z))^2 = z - z^2 / 3 + ..., alternating
    return v.maximum(far * far, near) * F(4.0 / curvature)


@njit(**JIT)
def bend_up(kind: int, curvature: float, square: Floats, gaps: Floats) -> Floats:
    """Upper bounds of the same: cells that look even but are not would be thinned for ever."""
    if kind == SPHERE:  # the rest of the series is at most what it is at s = 2, times (s / 2)^8
        return square * (((square * F(0.01495) + F(1 / 90)) * square + F(1 / 12)) * square + F(1.0))
    z = square * F(curvature) / gaps
    arsinh = v.log(v.sqrt(z) + v.sqrt(z + F(1.0))) * F(1 + 1e-6) + F(3e-7)
    return v.minimum(arsinh * arsinh, z) * F(4.0 / curvature)


@njit(**INLINE)
def loosen(square: Floats, slack: float, dims: int) -> Floats:
    """Allow for coordinates that are off by `slack`."""
    if slack > 0.0:
        root = v.maximum(v.sqrt(square) - F(slack * math.sqrt(dims)), v.splat(F(0.0)))
        return root * root
    return square


@njit(**INLINE)
def finish(kind: int, curvature: float, slack: float, dims: int, square: Floats, gaps: Floats) -> Floats:
    """From the squared differences in a factor to squared distances. `gaps` matter to a ball only.

    It takes numbers, not the tree: numba counts references to arrays handed to a function that branches.
    """
    square = loosen(square, slack, dims)
    return square if kind == FLAT else bend(kind, curvature, square, gaps)


# The factors of space. The length of `tree.bent` is known when compiling, and a single flat factor takes no loop.


@njit(**INLINE)
def factors(tree: Tree) -> int:
    return len(tree.kind) if len(tree.bent) else 1


@njit(**INLINE)
def kind_of(tree: Tree, f: int) -> int:
    return tree.kind[f] if len(tree.bent) else FLAT


@njit(**INLINE)
def start_of(tree: Tree, f: int) -> int:
    return tree.start[f] if len(tree.bent) else 0


@njit(**INLINE)
def stop_of(tree: Tree, f: int) -> int:
    return tree.stop[f] if len(tree.bent) else (tree.coords >> 2) << 2  # the compiler sees that it is a multiple of 4


@njit(**INLINE)
def slack_of(tree: Tree) -> float:
    return tree.slack if len(tree.bent) else 0.0


@njit(**INLINE)
def box_cost(tree: Tree, node: int, query: Array, t: float) -> Floats:
    """What the nearest point of a box may cost the 32 rows."""
    low, high = 2 * node * tree.coords, (2 * node + 1) * tree.coords
    total = v.splat(F(0.0))
    for f in range(factors(tree)):
        square = v.splat(F(0.0))
        for c in range(start_of(tree, f), stop_of(tree, f)):
            q = v.load_floats(query, c * LANES)
            outside = v.maximum(v.spread(tree.boxes, low + c) - q, q - v.spread(tree.boxes, high + c))
            outside = v.maximum(outside, v.splat(F(0.0)))
            square = square + outside * outside
        gaps = v.load_floats(query, tree.gap[f] * LANES) * v.spread(tree.boxes, high + tree.gap[f])
        dims = stop_of(tree, f) - start_of(tree, f)
        total = total + finish(kind_of(tree, f), tree.curvature[f], slack_of(tree), dims, square, gaps)
    return total * F(t)


@njit(**INLINE)
def far_cost(tree: Tree, node: int, query: Array, t: float) -> Floats:
    """What the farthest corner of a box costs, roughly: it only decides how to go on."""
    low, high = 2 * node * tree.coords, (2 * node + 1) * tree.coords
    total = v.splat(F(0.0))
    for f in range(factors(tree)):
        square = v.splat(F(0.0))
        for c in range(start_of(tree, f), stop_of(tree, f)):
            q = v.load_floats(query, c * LANES)
            across = v.maximum(q - v.spread(tree.boxes, low + c), v.spread(tree.boxes, high + c) - q)
            square = square + across * across
        if kind_of(tree, f) != FLAT:
            gaps = v.load_floats(query, tree.gap[f] * LANES) * v.spread(tree.boxes, low + tree.gap[f])
            square = bend_up(kind_of(tree, f), tree.curvature[f], square, gaps)
        total = total + square
    return total * F(t)


@njit(**INLINE)
def add_square(total: Floats, points: Array, base: int, query: Array, lane: int, c: int) -> Floats:
    """Add the squared differences of coordinate c between one row and the 32 points of a leaf."""
    difference = v.load_floats(points, base + c * LANES) - v.spread(query, c * LANES + lane)
    return total + difference * difference


@njit(**INLINE)
def leaf_cost(tree: Tree, leaf: int, query: Array, lane: int, t: float) -> Floats:
    """What the 32 points of a leaf cost one row."""
    base = leaf * tree.coords * LANES
    total = v.splat(F(0.0))
    for f in range(factors(tree)):
        # Four sums at a time: each waits for its own last addition only.
        s0, s1, s2, s3 = v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0))
        c, stop = start_of(tree, f), stop_of(tree, f)
        while c + 3 < stop:
            s0 = add_square(s0, tree.lanes, base, query, lane, c)
            s1 = add_square(s1, tree.lanes, base, query, lane, c + 1)
            s2 = add_square(s2, tree.lanes, base, query, lane, c + 2)
            s3 = add_square(s3, tree.lanes, base, query, lane, c + 3)
            c += 4
        while c < stop:
            s0 = add_square(s0, tree.lanes, base, query, lane, c)
            c += 1
        square, gap = (s0 + s1) + (s2 + s3), tree.gap[f] * LANES
        gaps = v.load_floats(tree.lanes, base + gap) * v.spread(query, gap + lane)
        dims = stop_of(tree, f) - start_of(tree, f)
        total = total + finish(kind_of(tree, f), tree.curvature[f], slack_of(tree), dims, square, gaps)
    return total * F(t)


@njit(**INLINE)
def add_squares(total: Floats, q: Floats, points: Array, at: int) -> Floats:
    """Add the squared differences of one coordinate between the 32 rows and one point."""
    difference = q - v.spread(points, at)
    return total + difference * difference


@njit(**INLINE)
def pair_costs(tree: Tree, leaf: int, query: Array, t: float, costs: Array, at: int) -> None:
    """What the 32 points of a leaf cost the 32 rows, written to `costs`: a point's 32 rows side by side."""
    for j in range(0, LANES, 4):  # four points at a time: each sum waits for its own last addition only
        base = leaf * tree.coords * LANES + j
        total0, total1, total2, total3 = v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0))
        for f in range(factors(tree)):
            s0, s1, s2, s3 = v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0)), v.splat(F(0.0))
            for c in range(start_of(tree, f), stop_of(tree, f)):
                q, p = v.load_floats(query, c * LANES), base + c * LANES
                s0 = add_squares(s0, q, tree.lanes, p)
                s1 = add_squares(s1, q, tree.lanes, p + 1)
                s2 = add_squares(s2, q, tree.lanes, p + 2)
                s3 = add_squares(s3, q, tree.lanes, p + 3)
            kind, curvature, dims = kind_of(tree, f), tree.curvature[f], stop_of(tree, f) - start_of(tree, f)
            own, gap = v.load_floats(query, tree.gap[f] * LANES), base + tree.gap[f] * LANES
            total0 = total0 + finish(kind, curvature, slack_of(tree), dims, s0, own * v.spread(tree.lanes, gap))
            total1 = total1 + finish(kind, curvature, slack_of(tree), dims, s1, own * v.spread(tree.lanes, gap + 1))
            total2 = total2 + finish(kind, curvature, slack_of(tree), dims, s2, own * v.spread(tree.lanes, gap + 2))
            total3 = total3 + finish(kind, curvature, slack_of(tree), dims, s3, own * v.spread(tree.lanes, gap + 3))
        out = at + j * LANES
        v.store(costs, out, total0 * F(t))
        v.store(costs, out + LANES, total1 * F(t))
        v.store(costs, out + 2 * LANES, total2 * F(t))
        v.store(costs, out + 3 * LANES, total3 * F(t))


@njit(**{**INLINE, "fastmath": {*JIT["fastmath"], "reassoc"}})
def cost(tree: Tree, points: Array, own: int, place: int, t: float) -> float:
    """What a point costs a row, in double precision."""
    total, width = 0.0, tree.points.shape[1]
    for f in range(factors(tree)):
        square, own_norm, its_norm = 0.0, 0.0, 0.0
        for c in range(start_of(tree, f), tree.stop[f]):
            a, b = v.get(points, own * width + c), v.get(tree.points, place * width + c)
            a, b = float64(a), float64(b)  # float() would keep float32
            square += (a - b) * (a - b)
            if kind_of(tree, f) != FLAT:
                own_norm += a * a
                its_norm += b * b
        if kind_of(tree, f) == SPHERE:
            antichord = math.sqrt(max(2.0 * (own_norm + its_norm) - square, 0.0))
            square = (2.0 * math.atan2(math.sqrt(square), antichord)) ** 2
        elif kind_of(tree, f) == BALL:
            c = tree.curvature[f]
            gaps = max(1.0 - c * own_norm, 1e-10) * max(1.0 - c * its_norm, 1e-10)
            square = 4.0 / c * math.asinh(math.sqrt(c * square / gaps)) ** 2
        total += square
    return t * total


@njit(**JIT)
def nearer_half(tree: Tree, left: int, right: int, guide: Array, t: float) -> int:
    """The lanes of a guide to whom the left box is not farther than the right one."""
    return box_cost(tree, left, guide, t) <= box_cost(tree, right, guide, t)
