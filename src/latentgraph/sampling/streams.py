"""Random numbers that are addressed by row and by node or place, not drawn in sequence.

Which rows are asked for, in which order and by how many threads changes none of them. A vector of 32 rows sees the
first bits of its numbers; whoever needs one precisely gets further bits of the same number.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from latentgraph.sampling import lanes as v
from latentgraph.sampling.costs import INLINE, F
from latentgraph.sampling.lanes import Floats, Ints, Word

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ROUGH = F(0.01)  # error of `log_waiting_times`


@njit(**INLINE)
def mix(z: Word) -> Word:
    """Scatter the bits of a 64-bit word."""
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit(**INLINE)
def words(a: Ints, b: Ints, number: Ints) -> Ints:
    """32 random bits in each lane, from two keys, the second odd, and a number."""
    x = (a ^ number) * b
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@njit(**INLINE)
def word(a: Word, b: Word, number: Word) -> Word:
    """What `words` gives in a single lane."""
    x = uint32(uint32(a ^ number) * b)
    x = uint32(uint32(x ^ (x >> uint32(16))) * uint32(0x7FEB352D))
    x = uint32(uint32(x ^ (x >> uint32(15))) * uint32(0x846CA68B))
    return uint32(x ^ (x >> uint32(16)))


@njit(**INLINE)
def uniform(z: Word) -> float:
    """A double in the open interval (0, 1) from 64 random bits."""
    return (float(z >> uint64(11)) + 0.5) * 2.0**-53


@njit(**INLINE)
def uniforms(bits: Ints) -> Floats:
    """Single-precision numbers in [0, 1) from the upper 31 bits of each word, rounded down."""
    return v.to_floats(bits >> 1) * F(2.0**-31)


@njit(**INLINE)
def log_waiting_times(bits: Ints) -> Floats:
    """Lower bounds of the logarithms of the `waiting_time`s that begin with these bits, but for an error of `ROUGH`."""
    u = uniforms(bits)
    left = v.to_floats(((bits >> 1) ^ 0x7FFFFFFF) + 1) * F(2.0**-31)  # 1 - u, also where u is nearly 1
    series = u * (u * (u * (u * F(1 / 4) + F(1 / 3)) + F(1 / 2)) + F(1.0))
    late = F(0.0) - v.log_roughly(left)
    return v.log_roughly(v.choose(u, v.splat(F(0.25)), series, late))


@njit(**INLINE)
def place_number(place: int) -> int:
    return 2 * place


@njit(**INLINE)
def node_number(node: int) -> int:
    return 2 * node + 1
