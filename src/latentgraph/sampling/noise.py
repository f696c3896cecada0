"""Random numbers addressed by (seed, row, column) instead of drawn in sequence.

The noise of a pair of nodes is a hash of the seed and of the two node numbers. Whoever computes a row, on whatever
device, in whatever order, in one process or in many, meets the same noise. Integer arithmetic wraps around in torch on
every device, which is all that a multiplicative hash needs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def draw_seed(generator: torch.Generator | None) -> int:
    """One 62-bit seed from a torch generator (None: torch's default one); advances it by one draw."""
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(1 << 62, (), generator=generator, device=device))


def exponential_noise(seed: int, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """Independent Exp(1) variables E_ij, one for each pair of a row number (r,) and a column number (c,): (r, c).

    E = -log(1 - U) with U in the open interval (0, 1). Small E win the race, so U has its finest steps near zero:
    31 random bits in single, 62 in double precision.
    """
    row_key, column_key = _keys(seed, rows, columns)
    return _exponential(row_key[:, None], column_key[None], dtype)


def exponential_noise_of_pairs(seed: int, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """The same E_ij for a list of pairs, a row number (m,) and a column number (m,) each: (m,)."""
    row_key, column_key = _keys(seed, rows, columns)
    return _exponential(row_key, column_key, dtype)


def largest_gumbel(dtype: torch.dtype) -> float:
    """No -log(E) is larger: E is at least half a step of U. One bit more, for rounding."""
    return (64 if dtype == torch.float64 else 33) * math.log(2.0)


def _keys(seed: int, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Two random words of 32 bits for each row and for each column."""
    row_key = _mix64(rows * _GOLDEN + seed).view(torch.int32).view(-1, 2)
    return row_key, _mix64(columns * _GOLDEN + 1).view(torch.int32).view(-1, 2)


def _exponential(row_key: Tensor, column_key: Tensor, dtype: torch.dtype) -> Tensor:
    u = _keyed_bits(row_key, column_key).to(dtype)
    if dtype == torch.float64:
        u += (_keyed_bits(row_key.flip(-1), column_key.flip(-1)).to(dtype) + 0.5) * 2.0**-31
    else:
        u += 0.5
    u *= 2.0**-31
    return u.clamp_(max=1 - torch.finfo(dtype).eps).neg_().log1p_().neg_()


_GOLDEN = 0x1E3779B97F4A7C15  # odd, as are all multipliers below; signed constants of 64 and 32 bits
_MULTIPLY_64 = (0x3F58476D1CE4E5B9, 0x14D049BB133111EB)
_MULTIPLY_32 = (0x7FEB352D, 0x846CA68B - (1 << 32))


def _mix64(x: Tensor) -> Tensor:
    """Scatter the bits of int64 numbers: a bijection after which near inputs look unrelated."""
    for shift, factor in zip((30, 27), _MULTIPLY_64, strict=True):
        x = (x ^ _shift_right(x, shift, 64)) * factor
    return x ^ _shift_right(x, 31, 64)


def _keyed_bits(row: Tensor, column: Tensor) -> Tensor:
    """31 random bits for each pair of keys (..., 2), which are broadcast: int32, not negative.

    Both halves of both keys take part: among 100,000 columns some share a half, and their noise in every row.
    """
    (row_a, row_b), (column_a, column_b) = row.unbind(-1), column.unbind(-1)
    x = (column_a.contiguous() ^ row_a) * (row_b | 1)
    x += column_b.contiguous()
    for shift, factor in zip((16, 15), _MULTIPLY_32, strict=True):
        x ^= _shift_right(x, shift, 32)
        x *= factor
    x ^= _shift_right(x, 16, 32)
    return x.bitwise_and_(0x7FFFFFFF)


def _shift_right(x: Tensor, shift: int, bits: int) -> Tensor:
    """Shift in zeros from the left; torch's >> copies the sign."""
    return (x >> shift).bitwise_and_((1 << (bits - shift)) - 1)
