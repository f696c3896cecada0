"""Cutting all pairs into blocks: nothing lost, nothing twice, never more than the budget."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from latentgraph import blocks
from latentgraph.blocks import Block, all_rows, graph_sizes, other_graph, recomputed, row_blocks

fixed = settings(derandomize=True, deadline=None, max_examples=400, database=None)
graphs = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 25)), max_size=12)  # (rows asked for, nodes)


@fixed
@given(graphs, st.integers(1, 700))
@example([(5, 5)] * 10, 2500)
@example([(0, 20), (0, 20), (3, 2), (0, 9)], 30)
@example([(20, 3), (1, 25), (7, 1)], 1)
def test_blocks_cover_every_row_once(graphs: list[tuple[int, int]], budget: int) -> None:
    """Rows lost or done twice, rows without their candidates, or more memory than was promised."""
    rows, nodes = [r for r, _ in graphs], [n for _, n in graphs]
    row_edges, node_edges = [0, *accumulate(rows)], [0, *accumulate(nodes)]
    done = 0
    for block in row_blocks(rows, nodes, budget):
        assert block.row_start == done
        assert block.row_stop > block.row_start
        assert 0 <= block.start < block.stop <= node_edges[-1]
        done = block.row_stop
        num_rows, num_columns = block.row_stop - block.row_start, block.stop - block.start
        assert num_rows == 1 or num_rows * num_columns <= budget
        for g, (first, last) in enumerate(pairwise(row_edges)):
            if max(first, block.row_start) < min(last, block.row_stop):
                assert block.start <= node_edges[g]
                assert node_edges[g + 1] <= block.stop
    assert done == row_edges[-1]


@fixed
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 4000))
def test_one_graph_is_cut_as_rarely_as_possible(rows: int, nodes: int, budget: int) -> None:
    """Blocks far below the budget: the same result, many times slower."""
    most = max(1, budget // nodes)
    assert len(list(row_blocks([rows], [nodes], budget))) == -(-rows // most)


@fixed
@given(graphs)
def test_small_graphs_share_a_block(graphs: list[tuple[int, int]]) -> None:
    """One call for each of a thousand tiny graphs."""
    rows, nodes = [r for r, _ in graphs], [n for _, n in graphs]
    found = list(row_blocks(rows, nodes, max(1, sum(rows) * sum(nodes))))
    assert len(found) == (1 if sum(rows) else 0)


def test_budget_is_the_module_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constant that everybody reads must be the one that counts, also when it is changed later."""
    assert list(all_rows(None, 10)) == [Block(0, 10, 0, 10)]
    monkeypatch.setattr(blocks, "BLOCK", 30)
    assert list(all_rows(None, 10)) == [Block(0, 3, 0, 10), Block(3, 6, 0, 10), Block(6, 9, 0, 10), Block(9, 10, 0, 10)]
    assert list(all_rows(None, 10, budget=50)) == [Block(0, 5, 0, 10), Block(5, 10, 0, 10)]


def test_rows_and_nodes_belong_to_the_same_graphs() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        list(row_blocks([1, 2], [3], 10))


def test_graph_sizes() -> None:
    """Graph ids need not start at zero nor be consecutive."""
    assert graph_sizes(None, 7).tolist() == [7]
    assert graph_sizes(torch.tensor([-3, -3, 0, 5, 5, 5, 9]), 7).tolist() == [2, 1, 3, 1]


@pytest.mark.parametrize("budget", [1, 12, 30, 1000])
def test_other_graph_masks_all_foreign_pairs(budget: int) -> None:
    """A pair across graphs that is not masked, or a pair inside one that is."""
    batch = torch.tensor([2, 2, 2, 4, 4, 7, 7, 7, 7, 8])
    covered = torch.zeros(10, 10, dtype=torch.bool)
    for block in all_rows(batch, 10, budget):
        rows = torch.arange(block.row_start, block.row_stop)
        foreign = other_graph(batch, rows, block)
        kept = torch.ones(len(rows), block.stop - block.start, dtype=torch.bool) if foreign is None else ~foreign
        covered[block.row_start : block.row_stop, block.start : block.stop] = kept
    assert torch.equal(covered, batch[:, None] == batch)
    assert other_graph(None, torch.arange(3), Block(0, 3, 0, 10)) is None


@pytest.mark.parametrize("budget", [1, 25, 1000])
def test_recomputed_is_the_plain_function(budget: int) -> None:
    """Blocks in the wrong order, or gradients that miss a block or an argument."""
    x = torch.randn(11, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def function(block: Block, x: Tensor, t: Tensor) -> Tensor:
        pairs = x[block.row_start : block.row_stop, None] - x[None, block.start : block.stop]
        return (-t * pairs.square().sum(-1)).exp().sum(1)

    plain = function(Block(0, 11, 0, 11), x, t)
    expected = torch.autograd.grad(plain.square().sum(), (x, t))
    in_blocks = recomputed(function, all_rows(None, 11, budget), x, t)
    torch.testing.assert_close(in_blocks, plain)
    torch.testing.assert_close(torch.autograd.grad(in_blocks.square().sum(), (x, t)), expected)
    with torch.no_grad():
        without = recomputed(function, all_rows(None, 11, budget), x, t)
    torch.testing.assert_close(without, plain)
    assert not without.requires_grad


def test_recomputed_keeps_no_block() -> None:
    """Memory quadratic in n: what autograd keeps of several blocks must not contain their pairs."""
    kept: list[int] = []

    def remember(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    def function(block: Block, x: Tensor) -> Tensor:
        return (x[block.row_start : block.row_stop, None] * x[None, block.start : block.stop]).exp().sum(1)

    x = torch.randn(100, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        recomputed(function, all_rows(None, 100, 1000), x)
    assert max(kept, default=0) <= 100
