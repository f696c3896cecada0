"""Products with a sparse matrix that stays the same from step to step: features of documents, a given graph.

Autograd would turn the matrix over in every backward pass. Here that is done once, when it is first seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

T = TypeVar("T")

with warnings.catch_warnings():  # torch says once in a process that such tensors are in beta: said here, to nobody
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), dtype=torch.float32)


class Structure(NamedTuple):
    """Where the entries of a sparse (n, m) matrix are, by rows and, taken in the order `turned`, by columns."""

    shape: tuple[int, int]
    rows: tuple[Tensor, Tensor]  # where each row begins (n + 1,); the column of each entry
    columns: tuple[Tensor, Tensor]  # where each column begins (m + 1,); the row of each entry
    turned: Tensor


def structure_of(start: Tensor, column: Tensor, num_columns: int) -> Structure:
    """Of entries by rows: where each row begins (n + 1,), and the column of each entry."""
    n = len(start) - 1
    row = torch.arange(n, device=start.device).repeat_interleave(start.diff())
    turned = column.argsort(stable=True)
    ends = column.bincount(minlength=num_columns).cumsum(0)
    columns = F.pad(ends, (1, 0)), row.index_select(0, turned)
    return Structure((n, num_columns), (start, column), columns, turned)


def sparse_product(values: Tensor, structure: Structure, dense: Tensor) -> Tensor:
    """S @ dense for the sparse S (n, m) with these entries, (n, m) times (m, c). The gradient is that of `dense`.

    Half precision is computed in single: torch has no such product on a CPU.
    """
    wide = torch.promote_types(dense.dtype, torch.float32)
    product: Tensor = _Product.apply(values.to(wide), dense.to(wide), structure)  # type: ignore[no-untyped-call]
    return product.to(dense.dtype)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, structure: Structure) -> Tensor:
        ctx.save_for_backward(values)
        ctx.structure = structure
        return _weighted_sums(structure.rows, values, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        (values,) = ctx.saved_tensors
        structure: Structure = ctx.structure
        return None, _weighted_sums(structure.columns, values.index_select(0, structure.turned), grad), None


def _weighted_sums(places: tuple[Tensor, Tensor], values: Tensor, dense: Tensor) -> Tensor:
    """The rows of `dense` that the entries name, weighted and added up: faster than torch's CSR product."""
    start, index = places
    return F.embedding_bag(
        index, dense.contiguous(), start, mode="sum", per_sample_weights=values, include_last_offset=True
    )


class LastSeen(Generic[T]):
    """What was worked out for a tensor, kept for as long as the same tensor comes again, unchanged.

    >>> kept, x = LastSeen[int](), torch.ones(2)
    >>> kept.get(x, lambda: 1), kept.get(x, lambda: 2)
    (1, 1)
    >>> kept.get(x.add_(1), lambda: 3)
    3
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, tuple[Any, ...], T] | None = None

    def get(self, tensor: Tensor, work_out: Callable[[], T], *also: Any) -> T:
        """What `work_out` makes of the tensor; anything else that it depends on is named in `also`."""
        if tensor.is_inference() or torch.is_inference_mode_enabled():
            return work_out()  # such a tensor has no version, and what is made now could not be used in training
        last, wanted = self._last, (tensor._version, *also)
        if last is None or last[0] is not tensor or last[1] != wanted:
            last = self._last = tensor, wanted, work_out()
        return last[2]

    def __deepcopy__(self, memo: dict[int, Any]) -> LastSeen[T]:
        return LastSeen()

    def __reduce__(self) -> tuple[type[LastSeen[T]], tuple[()]]:
        return LastSeen, ()
