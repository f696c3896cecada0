"""A linear layer for features that are mostly zeros, such as the words of documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SparseLinear(nn.Linear):
    """x W^T + b for features (n, d) in a sparse CSR tensor, or a plain one; entries of x are dropped in training.

    What the backward pass needs of x, its transpose, is made when a tensor is first seen, and kept until another one
    comes: training calls the layer with the same features again and again.

    >>> x = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> layer = SparseLinear(2, 3)
    >>> torch.allclose(layer(x.to_sparse_csr()), layer(x))
    True
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.dropout = dropout
        self._seen: tuple[Tensor, _Structure] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if x.layout is torch.strided:
            return super().forward(F.dropout(x, self.dropout, self.training))
        if self._seen is None or self._seen[0] is not x:
            self._seen = x, _structure(x)
        values = F.dropout(x.values(), self.dropout, self.training)
        product: Tensor = _Product.apply(values, self.weight, self._seen[1])  # type: ignore[no-untyped-call]
        return product if self.bias is None else product + self.bias

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the layer makes its own transpose: autograd's tensors would be copied along."""
        return {**self.__dict__, "_seen": None}


class _Structure(NamedTuple):
    """Where the entries of a sparse matrix are, by rows and, in the order `turned`, by columns."""

    shape: tuple[int, int]
    rows: tuple[Tensor, Tensor]
    columns: tuple[Tensor, Tensor]
    turned: Tensor


def _structure(x: Tensor) -> _Structure:
    n, d = x.shape
    start, column = x.crow_indices(), x.col_indices()
    row = torch.arange(n, device=x.device).repeat_interleave(start.diff())
    turned = column.argsort(stable=True)
    ends = column.bincount(minlength=d).cumsum(0)
    return _Structure((n, d), (start, column), (F.pad(ends, (1, 0)), row.index_select(0, turned)), turned)


class _Product(torch.autograd.Function):
    """X W^T, with a gradient for W alone."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, structure: _Structure) -> Tensor:
        ctx.save_for_backward(values)
        ctx.structure = structure
        return _matrix(structure.rows, values, structure.shape) @ weight.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        (values,) = ctx.saved_tensors
        structure: _Structure = ctx.structure
        n, d = structure.shape
        turned = _matrix(structure.columns, values.index_select(0, structure.turned), (d, n))
        return None, (turned @ grad.contiguous()).T, None


def _matrix(places: tuple[Tensor, Tensor], values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(*places, values, shape, check_invariants=False)
