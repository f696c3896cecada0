"""A linear layer for features that are mostly zeros, such as the words of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from latentgraph.dropout import drop, drop_part
from latentgraph.errors import InputError
from latentgraph.sparse import LastSeen, Structure, sparse_product, structure_of

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition


class SparseLinear(nn.Linear):
    """x W^T + b for features (n, d) in a sparse CSR tensor, or a plain one; entries of x are dropped in training.

    >>> x = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> layer = SparseLinear(2, 3)
    >>> torch.allclose(layer(x.to_sparse_csr()), layer(x))
    True
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.dropout = dropout
        self._places = LastSeen[Structure]()

    def of_part(self, x: Tensor, partition: Partition) -> Tensor:
        """Some rows of a population that several processes share."""
        if x.layout is not torch.strided:
            raise InputError(
                "sparse features cannot be shared by processes yet: pass x.to_dense(), or start one process."
            )
        return super().forward(drop_part(x, self.dropout, self.training, partition))

    def forward(self, x: Tensor) -> Tensor:
        if x.layout is torch.strided:
            return super().forward(drop(x, self.dropout, self.training))
        places = self._places.get(x, lambda: structure_of(x.crow_indices(), x.col_indices(), x.shape[1]))
        product = sparse_product(drop(x.values(), self.dropout, self.training), places, self.weight.T)
        return product if self.bias is None else product + self.bias
