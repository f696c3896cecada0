"""32 rows on their way through the tree, and who has arrived at them so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, uint32, uint64

from latentgraph.sampling import lanes as v
from latentgraph.sampling.costs import INLINE, F, cost
from latentgraph.sampling.kdtree import Array, Tree
from latentgraph.sampling.lanes import FEW, LANES
from latentgraph.sampling.streams import GOLDEN, mix, place_number, uniform, word

NONE = F(-3e38)  # the k-th best value of a row that has fewer than k
PILOT = 64  # leaves around home that are gone through point by point, at most


class Packet(NamedTuple):
    """32 rows on their way through the tree."""

    query: Array  # flat (coords, 32) float32: their coordinates side by side
    guide: Array  # the same of the home leaf, whose points decide in which order cells are asked
    key: Array  # (64,) uint32: two random words of each row
    key64: Array  # (32,) uint64: a third, longer one
    base: (
        Array  # (32,) float64: what some near point costs; values are counted from there, or noise would be rounded off
    )
    k: int
    best: Array  # flat (32, k) float64: the k best values so far, plus base, best first
    place: Array  # flat (32, k) int64: who they belong to
    worst: Array  # (32,) float32: the k-th best value, or NONE
    stack: Array  # flat (128, 4) int64: cells still to be looked into: node, first leaf, leaves, lanes
    least: Array  # (32,) float32: what the cell at hand costs at least
    expected: Array  # (32,) float32: its expected arrivals above the k-th best, at most
    pilot: int  # leaves around the home leaf that are gone through point by point
    costs: Array  # flat (32 pilot, 32) float32: of each point of the pilot for each row, then with its noise
    minima: Array  # flat (groups, 32) float32: the least of these in each group of the pilot's points
    bound: Array  # (32,) float32: of at least k points of the pilot they are no more
    turn: Array  # (32, 2) int64: lanes with points of a leaf that can get among their k best, and which, as bits
    due: Array  # flat (pairs, 2) int64: lane and place of arrivals to be decided
    value: Array  # (pairs,) float64: their values, plus base
    left: Array  # (pairs,) float64: numbers whose logarithms are minus their waiting times
    path: Array  # (64, 4) int64: siblings on the way from the root to the home leaf: node, leaf, leaves, ahead
    order: Array  # (64,) int64: in which order these are asked


def new_packet(tree: Tree, k: int) -> Packet:
    coords, groups = tree.coords, max(64, 4 * k)
    pilot = min(PILOT, 4 * k if tree.bunch > 1 else max(2, (k + 1) // 2))
    return Packet(
        query=np.zeros(coords * LANES, np.float32),
        guide=np.zeros(coords * LANES, np.float32),
        key=np.zeros(2 * LANES, np.uint32),
        key64=np.zeros(LANES, np.uint64),
        base=np.zeros(LANES),
        k=k,
        best=np.zeros(LANES * k),
        place=np.zeros(LANES * k, np.int64),
        worst=np.zeros(LANES, np.float32),
        stack=np.zeros(128 * 4, np.int64),
        least=np.zeros(LANES, np.float32),
        expected=np.zeros(LANES, np.float32),
        pilot=pilot,
        costs=np.zeros(pilot * LANES * LANES, np.float32),
        minima=np.zeros(groups * LANES, np.float32),
        bound=np.zeros(LANES, np.float32),
        turn=np.zeros((LANES, 2), np.int64),
        due=np.zeros(pilot * LANES * LANES * 2, np.int64),
        value=np.zeros(pilot * LANES * LANES),
        left=np.zeros(pilot * LANES * LANES),
        path=np.zeros((64, 4), np.int64),
        order=np.zeros(64, np.int64),
    )


@njit(**INLINE)
def uniform_of(packet: Packet, lane: int, number: int) -> float:
    """A uniform number that begins with the bits `uniforms` saw and goes on with further ones.

    -log(1 - u) is the waiting time, Exp(1), of the point or cell of this number.
    """
    bits = word(v.get(packet.key, lane), v.get(packet.key, LANES + lane), uint32(number))
    further = uniform(mix(v.get(packet.key64, lane) + uint64(number) * GOLDEN))
    return (float(bits >> uint32(1)) + further) * 2.0**-31


@njit(**INLINE)
def insert(packet: Packet, k: int, lane: int, value: float, place: int) -> None:
    """Put an arrival into a row's list of the k best, if it is one of them. Nobody could predict a branch here."""
    for a in range(lane * k, (lane + 1) * k):
        there, who = v.get(packet.best, a), v.get(packet.place, a)
        better = value > there
        v.put(packet.best, a, value if better else there)
        v.put(packet.place, a, place if better else who)
        value, place = there if better else value, who if better else place
    worst = v.get(packet.best, (lane + 1) * k - 1) - v.get(packet.base, lane)
    v.put(packet.worst, lane, F(max(worst, float(NONE))))


@njit(**INLINE)
def call(packet: Packet, due: int, lane: int, place: int) -> int:
    """Add an arrival to those that are due; returns how many there are."""
    v.put(packet.due, 2 * due, lane)
    v.put(packet.due, 2 * due + 1, place)
    return due + 1


@njit(**INLINE)
def settle(tree: Tree, packet: Packet, points: Array, own: int, due: int, t: float, noise: bool) -> None:
    """Let the points that are due arrive: first all values, none of which waits for another, then who is in."""
    for number in range(due):
        lane, place = v.get(packet.due, 2 * number), v.get(packet.due, 2 * number + 1)
        v.put(packet.value, number, v.get(packet.base, lane) - cost(tree, points, own + lane, place, t))
        if noise:
            v.put(packet.left, number, 1.0 - uniform_of(packet, lane, place_number(place)))
    if noise:
        for number in range(0, due, FEW):
            log_time = v.log_precisely(0.0 - v.log_precisely(v.load_doubles(packet.left, number)))
            v.store(packet.value, number, v.load_doubles(packet.value, number) - log_time)
    for number in range(due):
        lane, place = v.get(packet.due, 2 * number), v.get(packet.due, 2 * number + 1)
        insert(packet, packet.k, lane, v.get(packet.value, number), place)
