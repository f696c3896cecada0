r"""Exact Gumbel-top-k as an exponential race on a kd-tree.

The values log p_ij + G_ij, in decreasing order, are minus the logarithms of the arrival times of a race in which j
arrives at rate p_ij = exp(-cost_ij), cost_ij = t dist^2. The k best are the first k to arrive. A cell of m points, none
of which costs less than c, arrives at a total rate of at most m exp(-c): let a Poisson process of that rate run, give
each of its arrivals to a random member j, and keep it with probability exp(c - cost_ij). That is exactly the race of
the members (a member that arrives again is ignored). Only arrivals above the k-th best value so far matter, and their
number has mean x = m exp(-c) / exp(k-th best). So for a cell:

- x is tiny: one random number tells that nothing arrives, nearly always;
- all members cost about the same: generate the arrivals;
- otherwise ask its two halves, the nearer first; a leaf (in many dimensions, where boxes rule out little, a bunch of
  leaves) asks its points one by one.

Whether to go down depends on bounds and on values already known, never on numbers still to be drawn, so the result has
the law of the race for any tree and any order.

32 rows with the same home leaf go through the tree together, as lanes of a vector. Vector arithmetic is in single
precision and only rules out what is certain to lose, with a margin for its rounding; whoever is left is decided in
double precision. Random numbers are addressed by row and by node or place, not drawn in sequence: which rows are asked
for, and by how many threads, changes nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numba import int64, njit, uint32, uint64

from latentgraph.sampling import lanes as v
from latentgraph.sampling.costs import INLINE, JIT, F, box_cost, cost, far_cost, leaf_cost, nearer_half
from latentgraph.sampling.kdtree import Array, Crews, Tree
from latentgraph.sampling.lanes import LANES, Floats
from latentgraph.sampling.packet import NONE, Packet, call, insert, settle, uniform_of
from latentgraph.sampling.pilot import MARGIN, race_pilot
from latentgraph.sampling.streams import GOLDEN, mix, node_number, place_number, uniform, uniforms, words

SMALL = F(0.3)  # expected arrivals up to which it pays to ask first whether there is any
SPREAD = F(8.0)  # difference of cost within a cell up to which arrivals are generated for the cell as a whole
WORTHWHILE = 64  # points of the smallest such cell
ALL_LANES = np.uint32(0xFFFFFFFF)


@njit(**INLINE)
def can_win(tree: Tree, packet: Packet, lane: int, leaf: int, t: float, noise: bool) -> int:
    """The points of a leaf that can get among the k best of one row, as bits; all of them for a row without k."""
    worst = packet.worst[lane]
    log_expected = MARGIN + F(tree.rounding) * abs(worst) - worst - leaf_cost(tree, leaf, packet.query, lane, t)
    if noise:
        number = v.lane_numbers() * uint32(2) + uint32(place_number(leaf * LANES))
        bits = words(v.splat_int(packet.key[lane]), v.splat_int(packet.key[LANES + lane]), number)
        return uniforms(bits) <= v.exp_above(log_expected)  # P(any arrival) = 1 - exp(-x) <= x
    return log_expected >= F(0.0)


@njit(**INLINE)
def race_leaf(
    tree: Tree, packet: Packet, points: Array, own: int, leaf: int, count: int, rows: int, t: float, noise: bool
) -> None:
    """The points of a leaf against some rows. Rows are looked at without a branch, and few of them get any further."""
    turns, due, left_over = 0, 0, uint32(rows)
    while left_over != uint32(0):
        lane = v.lowest_lane(left_over)
        can = can_win(tree, packet, lane, leaf, t, noise) & uint32((1 << count) - 1)
        packet.turn[turns, 0], packet.turn[turns, 1] = lane, can
        turns += can != uint32(0)
        left_over &= left_over - uint32(1)
    for turn in range(turns):
        can = uint32(packet.turn[turn, 1])
        while can != uint32(0):
            due = call(packet, due, packet.turn[turn, 0], leaf * LANES + v.lowest_lane(can))
            can &= can - uint32(1)
    settle(tree, packet, points, own, due, t, noise)


@njit(**INLINE)
def race_whole_cell(
    tree: Tree,
    packet: Packet,
    points: Array,
    lane: int,
    own: int,
    node: int,
    first: int,
    count: int,
    low: float,
    expected: float,
    t: float,
) -> None:
    """Arrivals of the process that dominates a cell, in order, as long as they beat the k-th best; thinned.

    Mostly the first is thinned out and the second comes too late, which inequalities tell without a logarithm.
    `expected` is at least the expected number of arrivals.
    """
    k, first_best = packet.k, lane * packet.k
    head_start = packet.base[lane] - low
    state = mix(packet.key64[lane] ^ (uint64(node_number(node)) * uint64(0xD1342543DE82EF95)))
    u = uniform_of(packet, lane, node_number(node))
    if u + (1.0 - uniform(mix(state + uint64(3) * GOLDEN))) >= expected:  # -log(1 - u) >= u, and -log(u) >= 1 - u
        place = first + int64(v.multiply_high(mix(state + GOLDEN), uint64(count)))
        more = cost(tree, points, own, place, t) - low
        chance = uniform(mix(state + uint64(2) * GOLDEN))
        if more > 0.0 and chance * (1.0 + more * (1.0 + more * 0.5)) >= 1.0:  # e^x >= 1 + x + x^2 / 2
            return
    time = -math.log(1.0 - u)
    limit = count * math.exp(min(head_start - packet.best[first_best + k - 1], 700.0))
    while time < limit:
        state += GOLDEN
        place = first + int64(v.multiply_high(mix(state), uint64(count)))
        state += GOLDEN
        if uniform(mix(state)) < math.exp(min(low - cost(tree, points, own, place, t), 0.0)):
            known = False
            for a in range(k):
                known |= packet.place[first_best + a] == place
            if not known:
                insert(packet, k, lane, head_start - math.log(time / count), place)
                limit = count * math.exp(min(head_start - packet.best[first_best + k - 1], 700.0))
        state += GOLDEN
        u = uniform(mix(state))
        if time + (1.0 - u) >= limit:  # -log(u) >= 1 - u: mostly the logarithm is not needed
            return
        time -= math.log(u)


@njit(**INLINE)
def push(packet: Packet, depth: int, node: int, leaf: int, m: int, rows: int) -> None:
    """Leave a cell for later."""
    v.put(packet.stack, 4 * depth, node)
    v.put(packet.stack, 4 * depth + 1, leaf)
    v.put(packet.stack, 4 * depth + 2, m)
    v.put(packet.stack, 4 * depth + 3, rows)


@njit(**INLINE)
def ask(
    tree: Tree,
    packet: Packet,
    points: Array,
    own: int,
    node: int,
    leaf: int,
    m: int,
    end: int,
    low: Floats,
    rows: int,
    t: float,
    noise: bool,
) -> int:
    """Whether anybody of a cell arrives in time for some rows; returns those for which one has to look deeper."""
    worst = v.load_floats(packet.worst, 0)
    first = leaf * LANES
    count = min(end, (leaf + m) * LANES) - first
    beaten_by = MARGIN - low - worst + v.maximum(worst, F(0.0) - worst) * F(tree.rounding)
    if not noise:
        return (beaten_by >= F(0.0)) & rows
    expected = v.exp_above(beaten_by) * F(count)
    deeper = (expected > SMALL) & rows
    bits = words(v.load_ints(packet.key, 0), v.load_ints(packet.key, LANES), uint32(node_number(node)))
    whole = (uniforms(bits) <= expected) & rows & ~deeper
    if m > 1 and count >= max(WORTHWHILE, 4 * packet.k) and v.get(tree.uneven, node) * F(t) <= SPREAD:
        even = (far_cost(tree, node, packet.query, t) - low < SPREAD) & deeper & (worst > NONE)
        whole |= even
        deeper &= ~even
    if whole != uint32(0):
        v.store(packet.least, 0, low)
        v.store(packet.expected, 0, expected)
    while whole != uint32(0):
        lane = v.lowest_lane(whole)
        least, at_most = v.get(packet.least, lane), v.get(packet.expected, lane)
        race_whole_cell(tree, packet, points, lane, own + lane, node, first, count, least, at_most, t)
        whole &= whole - uint32(1)
    return deeper


@njit(**INLINE)
def race_cells(
    tree: Tree,
    packet: Packet,
    points: Array,
    own: int,
    level: int,
    end: int,
    asked: int,
    t: float,
    noise: bool,
    guests: bool,
) -> None:
    """A sibling on the path and everything below it, against the rows `asked` of a packet."""
    node, leaf, m = packet.path[level, 0], packet.path[level, 1], packet.path[level, 2]
    below = F(1.0 - tree.rounding)
    low = box_cost(tree, node, packet.query, t) * below
    rows = ask(tree, packet, points, own, node, leaf, m, end, low, uint32(asked), t, noise)
    push(packet, 0, node, leaf, m, rows)
    depth = int64(rows != uint32(0))
    while depth > 0:
        depth -= 1
        node, leaf = v.get(packet.stack, 4 * depth), v.get(packet.stack, 4 * depth + 1)
        m, rows = v.get(packet.stack, 4 * depth + 2), uint32(v.get(packet.stack, 4 * depth + 3))
        if m <= tree.bunch:
            for one in range(leaf, leaf + m):
                here = min(end, (one + 1) * LANES) - one * LANES
                race_leaf(tree, packet, points, own, one, here, rows, t, noise)
            continue
        half = m // 2
        left = box_cost(tree, node + 1, packet.query, t) * below
        right = box_cost(tree, node + 2 * half, packet.query, t) * below
        # The half that is nearer to the home leaf goes first: so nobody's order depends on who else was asked.
        nearer = nearer_half(tree, node + 1, node + 2 * half, packet.guide, t) if guests else left <= right
        to_left = ask(tree, packet, points, own, node + 1, leaf, half, end, left, rows, t, noise)
        to_right = ask(tree, packet, points, own, node + 2 * half, leaf + half, m - half, end, right, rows, t, noise)
        # Who is nearer cannot be predicted: no branch. A half nobody has to look into is overwritten or left above.
        left_on_top = int64(v.lane_count(nearer) * 2 >= LANES and to_right != uint32(0))
        right_on_top = int64(left_on_top == 0 and to_left != uint32(0))
        push(packet, depth + left_on_top, node + 1, leaf, half, to_left)
        push(packet, depth + right_on_top, node + 2 * half, leaf + half, m - half, to_right)
        depth += int64(to_left != uint32(0)) + int64(to_right != uint32(0))


@njit(**INLINE)
def descend(tree: Tree, packet: Packet, graph: int, home: int) -> tuple[int, int, int]:
    """Note the siblings on the way from the root to the pilot around the home leaf.

    Returns its first leaf, the number of its leaves and the number of siblings.
    """
    leaf, depth = tree.first_leaf[graph], 0
    node, m = 2 * leaf, tree.first_leaf[graph + 1] - leaf
    while m > packet.pilot:
        half = m // 2
        if home < leaf + half:
            packet.path[depth, 0], packet.path[depth, 1], packet.path[depth, 2] = node + 2 * half, leaf + half, m - half
            node, m = node + 1, half
        else:
            packet.path[depth, 0], packet.path[depth, 1], packet.path[depth, 2] = node + 1, leaf, half
            node, leaf, m = node + 2 * half, leaf + half, m - half
        depth += 1
    return leaf, m, depth


@njit(**INLINE)
def put_in_order(tree: Tree, packet: Packet, depth: int, seen: int, end: int, t: float, noise: bool) -> None:
    """Write down in which order the siblings are asked: the nearest first.

    But as soon as every row has k, even without itself, large cells go ahead that are even to all points of the home
    leaf: they raise the k-th best cheaply.
    """
    level, number, k = depth - 1, 0, packet.k
    while seen <= k and level >= 0:
        seen += min(end, (packet.path[level, 1] + packet.path[level, 2]) * LANES) - packet.path[level, 1] * LANES
        packet.order[number] = level
        level, number = level - 1, number + 1
    for up in range(level + 1):
        packet.path[up, 3] = 0
    for up in range(level + 1 if noise else 0):
        sibling = packet.path[up, 0]
        count = min(end, (packet.path[up, 1] + packet.path[up, 2]) * LANES) - packet.path[up, 1] * LANES
        if count < WORTHWHILE or count < 4 * k:
            break
        spread = far_cost(tree, sibling, packet.guide, t) - box_cost(tree, sibling, packet.guide, t)
        if (spread < SPREAD) == ALL_LANES:
            packet.order[number], packet.path[up, 3] = up, 1
            number += 1
    for near in range(level, -1, -1):
        packet.order[number] = near
        number += packet.path[near, 3] == 0


@njit(**INLINE)
def race_packet(
    tree: Tree,
    packet: Packet,
    points: Array,
    own: int,
    graph: int,
    home: int,
    asked: int,
    skip_self: bool,
    t: float,
    noise: bool,
    guests: bool,
) -> None:
    """The rows of a packet against all points of their graph: the home leaf first, then the siblings of its path."""
    k = packet.k
    for lane in range(LANES):
        packet.worst[lane] = NONE
        for a in range(lane * k, (lane + 1) * k):
            packet.best[a], packet.place[a] = -np.inf, -1
    end = tree.first_leaf[graph] * LANES + tree.size[graph]
    leaf, m, depth = descend(tree, packet, graph, home)
    first = leaf * LANES
    seen = min(end, (leaf + m) * LANES) - first
    for lane in range(LANES):
        if asked & (1 << lane):
            near = home * LANES + (1 if skip_self and lane == 0 and home * LANES + 1 < end else 0)
            packet.base[lane] = cost(tree, points, own + lane, near, t)
    race_pilot(tree, packet, points, own, first, seen, home, asked, skip_self, t, noise)
    put_in_order(tree, packet, depth, seen, end, t, noise)
    for number in range(depth):
        race_cells(tree, packet, points, own, packet.order[number], end, asked, t, noise, guests)


@njit(**JIT)
def race_crews(
    tree: Tree,
    crews: Crews,
    packet: Packet,
    begin: int,
    end: int,
    asked: Array,
    skip_self: bool,
    t: float,
    noise: bool,
    seed: int,
    keys: Array,
    out: Array,
) -> None:
    """Race for the rows `asked` (bits of lanes) of the crews [begin, end); write row numbers to `out`, best first."""
    coords, k, guests = tree.coords, packet.k, crews.guests
    for crew in range(begin, end):
        if asked[crew] == 0:
            continue
        home, own = crews.home[crew], crew * LANES
        for c in range(coords * LANES):
            packet.query[c] = crews.lanes[crew * coords * LANES + c]
            packet.guide[c] = tree.lanes[home * coords * LANES + c]
        for lane in range(LANES):
            row = crews.rows[own + lane]
            key = mix(uint64(seed) + uint64(keys[max(row, 0)]) * GOLDEN)
            packet.key[lane] = uint32(key)
            packet.key[LANES + lane] = uint32(key >> uint64(32)) | uint32(1)
            packet.key64[lane] = mix(key ^ GOLDEN)
        graph = tree.graph_of[home]
        race_packet(tree, packet, crews.points, own, graph, home, asked[crew], skip_self, t, noise, guests)
        for lane in range(LANES):
            if asked[crew] & (1 << lane):
                for a in range(k):
                    out[crews.rows[own + lane], a] = tree.rows[packet.place[lane * k + a]]
