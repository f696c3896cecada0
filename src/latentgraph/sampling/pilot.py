"""The points around the home leaf, which come first: all of them at once, in single precision."""

from __future__ import annotations

from numba import njit, uint32

from latentgraph.sampling import lanes as v
from latentgraph.sampling.costs import INLINE, F, pair_costs
from latentgraph.sampling.kdtree import Array, Tree
from latentgraph.sampling.lanes import LANES
from latentgraph.sampling.packet import NONE, Packet, call, settle
from latentgraph.sampling.streams import ROUGH, log_waiting_times, place_number, words

EXCLUDED = F(3e38)  # the cost of a place without a point, or of the row itself; `supports` keeps others below 1e30
LARGE = 256  # points of a pilot in which it pays to find out first who is too far for any noise
STEPS = 8  # of a bisection: more cost more than they save
LONG_AGO = F(40.0)  # as good as no waiting time is below exp(-40): one in 2e17
MARGIN = F(0.001)  # added to logarithms in single precision, beside the relative `Tree.rounding`


@njit(**INLINE)
def bound_costs(costs: Array, count: int, minima: Array, k: int, bound: Array) -> None:
    """For each row a cost that at least k of `count` points stay below, and not many more.

    The points are dealt to groups; the k-th smallest of the groups' least costs belongs to k different points. It is
    found by bisection of the bits: positive numbers are ordered as their bits are.
    """
    lowest, highest = v.splat(EXCLUDED), v.splat(F(0.0))
    for g in range(0, len(minima), LANES):
        least = v.splat(EXCLUDED)
        for point in range(g, count * LANES, len(minima)):
            least = v.minimum(least, v.load_floats(costs, point))
        v.store(minima, g, least)
        lowest = v.minimum(lowest, least)
        highest = v.maximum(highest, v.choose(v.splat(EXCLUDED), least, highest, least))
    zero, one, enough = v.splat(F(0.0)), v.splat(F(1.0)), v.splat(F(k))
    low, high = v.bits_of(lowest), v.bits_of(highest)
    for _ in range(STEPS):
        middle = v.floats_of((low + high) >> 1)
        even, odd = zero, zero  # two sums: each waits for its own last addition only
        for g in range(0, len(minima), 2 * LANES):
            even = even + v.choose(v.load_floats(minima, g), middle, one, zero)
            odd = odd + v.choose(v.load_floats(minima, g + LANES), middle, one, zero)
        below = even + odd
        high, low = (
            v.bits_of(v.choose(enough, below, middle, v.floats_of(high))),
            v.bits_of(v.choose(enough, below, v.floats_of(low), middle)),
        )
    v.store(bound, 0, v.minimum(v.floats_of(high), v.splat(F(1e38))))


@njit(**INLINE)
def add_noise(packet: Packet, first: int, count: int, asked: int) -> None:
    """Add to the costs of the pilot's points the logarithms of their waiting times, and `LONG_AGO`.

    In a large pilot the cost alone is left of those who are too far for any noise: no value is below it.
    """
    reach = v.splat(F(1e38))
    if count > LARGE:
        bound_costs(packet.costs, count, packet.minima, packet.k, packet.bound)
        reach = v.load_floats(packet.bound, 0) + (LONG_AGO + F(2.0))
    a, b = v.load_ints(packet.key, 0), v.load_ints(packet.key, LANES)
    for point in range(count):
        cost = v.load_floats(packet.costs, point * LANES)
        if ((cost <= reach) & asked) != uint32(0):
            log_time = log_waiting_times(words(a, b, v.splat_int(uint32(place_number(first + point)))))
            v.store(packet.costs, point * LANES, cost + (log_time + LONG_AGO))


@njit(**INLINE)
def race_pilot(
    tree: Tree,
    packet: Packet,
    points: Array,
    own: int,
    first: int,
    count: int,
    home: int,
    asked: int,
    skip_self: bool,
    t: float,
    noise: bool,
) -> None:
    """All points near the home leaf: about k of the best, by values in single precision; then who can still beat them.

    Which points come first does not matter to the result, for each has its own noise. But those who come later meet a
    k-th best value that is nearly the last one, and few can beat it.
    """
    for leaf in range(-(-count // LANES)):
        pair_costs(tree, first // LANES + leaf, packet.query, t, packet.costs, leaf * LANES * LANES)
    if skip_self:
        for lane in range(LANES):
            packet.costs[(home * LANES - first + lane) * LANES + lane] = EXCLUDED
    if noise:
        add_noise(packet, first, count, asked)
    bound_costs(packet.costs, count, packet.minima, packet.k, packet.bound)
    above, up_to = v.splat(NONE), v.load_floats(packet.bound, 0)
    for _ in range(2):
        due = 0
        for point in range(count):
            late = v.load_floats(packet.costs, point * LANES)
            can = (late > above) & (late <= up_to) & asked
            while can != uint32(0):
                due = call(packet, due, v.lowest_lane(can), first + point)
                can &= can - uint32(1)
        settle(tree, packet, points, own, due, t, noise)
        worst = v.load_floats(packet.worst, 0)
        margin = v.maximum(worst, F(0.0) - worst) * F(tree.rounding) + (LONG_AGO + ROUGH if noise else MARGIN)
        above, up_to = up_to, v.minimum(margin - worst, v.splat(F(1e38)))
