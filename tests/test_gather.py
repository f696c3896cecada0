"""Sums over neighbours against the plain formula, forward and backward."""

from __future__ import annotations

import pytest
import torch

from latentgraph.gather import backwards, mean_with_neighbors, sum_over_neighbors, weighted_sum_over_neighbors


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
def test_mean_is_the_mean_with_the_node_itself(nodes: int, k: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    neighbors = torch.randint(nodes, (nodes, k), generator=generator)
    h = torch.randn(nodes, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    turned = backwards(neighbors)
    members = torch.cat([torch.arange(nodes)[:, None], neighbors], 1)
    plain = h.index_select(0, members.flatten()).view(nodes, k + 1, 4).mean(1)
    torch.testing.assert_close(mean_with_neighbors(neighbors, h, turned), plain)
    assert torch.autograd.gradcheck(lambda h: mean_with_neighbors(neighbors, h, turned), h)


def test_gradients_that_are_not_laid_out_in_rows() -> None:
    """A sum's gradient is one number, expanded; torch's embedding bag would read past it."""
    neighbors = torch.tensor([[1], [0], [0]])
    h = torch.randn(3, 4, requires_grad=True)
    mean_with_neighbors(neighbors, h, backwards(neighbors)).sum().backward()
    torch.testing.assert_close(h.grad, torch.tensor([1.5, 1.0, 0.5])[:, None].expand(3, 4))


@pytest.mark.parametrize("num_sources", [None, 60])
def test_edges_counted_are_as_edges_sorted(num_sources: int | None) -> None:
    neighbors = torch.randint(50, (50, 7), generator=torch.Generator().manual_seed(0))
    chosen, edge = neighbors.flatten().sort(stable=True)
    start = torch.searchsorted(chosen, torch.arange(num_sources or 50))
    for found, wanted in zip(backwards(neighbors, num_sources), (edge // 7, start, edge), strict=True):
        torch.testing.assert_close(found.long(), wanted)


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
