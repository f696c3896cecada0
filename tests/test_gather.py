"""Sums over neighbours against the plain formula, forward and backward."""

from __future__ import annotations

import pytest
import torch

from latentgraph.gather import backwards, sum_over_neighbors, weighted_sum_over_neighbors


@pytest.mark.parametrize(("nodes", "k"), [(1, 1), (7, 3), (50, 5)])
def test_sum_is_the_sum(nodes: int, k: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    neighbors = torch.randint(nodes, (nodes, k), generator=generator)
    neighbors[neighbors == nodes - 1] = 0  # the last node is chosen by nobody
    h = torch.randn(nodes, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    turned = backwards(neighbors)
    out = sum_over_neighbors(neighbors, h, turned)
    torch.testing.assert_close(out, h.index_select(0, neighbors.flatten()).view(nodes, k, 4).sum(1))
    assert torch.autograd.gradcheck(lambda h: sum_over_neighbors(neighbors, h, turned), h)


@pytest.mark.parametrize(("nodes", "k"), [(1, 1), (7, 3), (50, 5)])
def test_weighted_sum_is_the_weighted_sum(nodes: int, k: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    neighbors = torch.randint(nodes, (nodes, k), generator=generator)
    neighbors[neighbors == nodes - 1] = 0
    h = torch.randn(nodes, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(nodes, k, generator=generator, dtype=torch.float64, requires_grad=True)
    turned = backwards(neighbors)
    plain = torch.einsum("ik,ikc->ic", weights, h.index_select(0, neighbors.flatten()).view(nodes, k, 4))
    torch.testing.assert_close(weighted_sum_over_neighbors(neighbors, weights, h, turned), plain)
    assert torch.autograd.gradcheck(lambda w, h: weighted_sum_over_neighbors(neighbors, w, h, turned), (weights, h))


def test_guests_are_chosen_by_nobody() -> None:
    """More rows than nodes that can be chosen: the last rows only choose."""
    neighbors = torch.tensor([[1], [0], [0], [0]])
    chooser, start, edge = backwards(neighbors)
    assert chooser.tolist() == [1, 2, 3, 0]
    assert start.tolist() == [0, 3, 4, 4]
    assert edge.tolist() == [1, 2, 3, 0]
