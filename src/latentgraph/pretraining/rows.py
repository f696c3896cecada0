"""Some rows of a table, plain or sparse (CSR), and what hides a part of their features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def draw_rows(n: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` different rows of n, or all of them if there are no more, in random order."""
    return torch.randperm(n, generator=generator)[:count]


def rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """The rows (b,) of x (n, d), in the layout of x."""
    if x.layout is torch.strided:
        return x.index_select(0, rows)
    places, start = _entries(x, rows)
    return _csr(start, x.col_indices()[places], x.values()[places], x.shape[1])


def with_rows(x: Tensor, rows: Tensor, changed: Tensor) -> Tensor:
    """x, but in the rows (b,) the features `changed` (b, d); of a sparse x, with entries where x has them."""
    if x.layout is torch.strided:
        return x.index_copy(0, rows, changed)
    places, _ = _entries(x, rows)
    values = x.values().index_copy(0, places, changed.values())
    return _csr(x.crow_indices(), x.col_indices(), values, x.shape[1])


def draw_hidden(rows: int, x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """(rows, d) bool: which features of each row are to be hidden, each with probability `share`."""
    return (torch.rand(rows, x.shape[1], generator=generator) < share).to(x.device)


def hide(x: Tensor, hidden: Tensor, table: Tensor, generator: torch.Generator) -> Tensor:
    """Replace the `hidden` (b, d) features of rows x (b, d) by those of random rows of the table, each by its own.

    So every column keeps its values, and f cannot tell what is missing. Of sparse rows, hidden entries become zero,
    which is what a random row mostly has there.
    """
    if x.layout is torch.strided:
        givers = torch.randint(len(table), hidden.shape, generator=generator).to(x.device)
        return torch.where(hidden, table.gather(0, givers), x)
    row = torch.arange(len(x), device=x.device).repeat_interleave(x.crow_indices().diff())
    values = x.values().masked_fill(hidden[row, x.col_indices()], 0.0)
    return _csr(x.crow_indices(), x.col_indices(), values, x.shape[1])


def _entries(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries of a sparse x the rows have, one row after the other; and where each row begins among them."""
    first = x.crow_indices().index_select(0, rows)
    length = x.crow_indices().diff().index_select(0, rows)
    start = F.pad(length.cumsum(0), (1, 0))
    places = torch.arange(int(start[-1]), device=x.device) + (first - start[:-1]).repeat_interleave(length)
    return places, start


def _csr(start: Tensor, column: Tensor, values: Tensor, num_columns: int) -> Tensor:
    return torch.sparse_csr_tensor(start, column, values, (len(start) - 1, num_columns))
