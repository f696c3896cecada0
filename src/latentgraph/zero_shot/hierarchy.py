"""Who matters for whom in a hierarchy: the rows that a convolution on it needs, ancestors and descendants by distance.

All matrices are scipy's, row i holding those whom node i collects from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentgraph.sparse import Structure, sparse_product, structure_of


def child_matrix(parent_edges: Tensor, n: int) -> sp.csr_array:
    """(n, n): row i has a one for each child of i."""
    child, parent = parent_edges.numpy()
    matrix = sp.csr_array((np.ones(len(child), np.float32), (parent, child)), shape=(n, n))
    matrix.data[:] = 1.0  # an edge that is named twice is one edge
    return matrix


def neighbourhood(parent_edges: Tensor, n: int) -> sp.csr_array:
    """A (n, n) with parents, children and the node itself."""
    children = child_matrix(parent_edges, n)
    both = sp.csr_array(children + children.T + sp.eye_array(n, dtype=np.float32))
    both.data[:] = 1.0
    return both


def row_normalised(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1 A; a row without entries stays empty."""
    return sp.csr_array(sp.diags_array(1 / np.maximum(adjacency.sum(1), 1)) @ adjacency)


def symmetric_normalised(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2."""
    scale = sp.diags_array(1 / np.sqrt(np.maximum(adjacency.sum(1), 1)))
    return sp.csr_array(scale @ adjacency @ scale)


def by_distance(step: sp.csr_array, furthest: int) -> list[sp.csr_array]:
    """Matrices 0 .. K: entry (i, j) of the d-th is one where the shortest way from i to j has d steps.

    The last one has all that are K *or more* steps away. With `step` the parents of each node these are its ancestors,
    with its children its descendants; the 0-th is the node itself.

    >>> chain = sp.csr_array(np.eye(4, k=1))  # 0 -> 1 -> 2 -> 3
    >>> [matrix.nnz for matrix in by_distance(chain, 2)]
    [4, 3, 3]
    """
    n = step.shape[0]
    step = sp.csr_array(step, dtype=np.float32)
    reached = sp.eye_array(n, dtype=np.float32, format="csr")
    ring, rings = reached, [reached]
    while True:
        ring = sp.csr_array(ring @ step)
        ring.data[:] = 1.0
        ring = sp.csr_array(ring - ring.multiply(reached))  # not those that a shorter way leads to
        ring.eliminate_zeros()
        if not ring.nnz:
            break
        reached = sp.csr_array(reached + ring)
        rings.append(ring)
    near = rings[:furthest]
    far = sum(rings[furthest + 1 :], start=rings[furthest]) if len(rings) > furthest else sp.csr_array((n, n))
    near += [sp.csr_array((n, n), dtype=np.float32)] * (furthest - len(near))
    return [*near, sp.csr_array(far)]


def needed(matrix: sp.csr_array, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns that these rows of a product matrix @ x look at, ascending."""
    return np.unique(matrix[rows].indices).astype(np.int64)


def restricted(matrix: sp.csr_array, rows: NDArray[np.int64], depth: int) -> list[sp.csr_array]:
    """The matrices of `depth` convolutions in a row, cut to what the last one needs to know for these rows: exact.

    The first acts on all n nodes, so that it can be given the features as they are; the last returns the rows in order.
    """
    found: list[sp.csr_array] = []
    for _ in range(depth - 1):
        before = needed(matrix, rows)
        found.append(matrix[rows][:, before])
        rows = before
    found.append(matrix[rows])
    return [sp.csr_array(block) for block in reversed(found)]


class SparseMatrix(nn.Module):
    """A constant sparse matrix (r, n) that multiplies features (n, c)."""

    def __init__(self, matrix: sp.csr_array) -> None:
        super().__init__()
        start = torch.as_tensor(matrix.indptr, dtype=torch.long)
        self.structure: Structure = structure_of(
            start, torch.as_tensor(matrix.indices, dtype=torch.long), matrix.shape[1]
        )
        self.values = torch.as_tensor(matrix.data, dtype=torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        return sparse_product(self.values, self.structure, x)


def stacked(matrices: Sequence[sp.csr_array]) -> sp.csr_array:
    """One above the other."""
    return sp.csr_array(sp.vstack(list(matrices)))
