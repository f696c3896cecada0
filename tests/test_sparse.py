"""Products with a sparse matrix that stays the same, and layers for sparse features, against the plain ones."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from latentgraph.attended import Attended
from latentgraph.diffusion import GCN, Diffusion
from latentgraph.dropout import Dropout
from latentgraph.graph import LatentGraph
from latentgraph.sparse import LastSeen, sparse_product, structure_of
from latentgraph.sparse_linear import SparseLinear


def features(n: int = 9, d: int = 6, seed: int = 0) -> torch.Tensor:
    """Mostly zeros; a row and a column of nothing else."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    x[torch.rand(n, d, generator=generator) < 0.6] = 0
    x[2], x[:, 3] = 0, 0
    return x


def test_product_and_its_gradient() -> None:
    x = features()
    csr = x.to_sparse_csr()
    places = structure_of(csr.crow_indices(), csr.col_indices(), x.shape[1])
    dense = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    torch.testing.assert_close(sparse_product(csr.values(), places, dense), x @ dense)
    assert torch.autograd.gradcheck(lambda dense: sparse_product(csr.values(), places, dense), dense)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layer_on_sparse_features_is_the_plain_one(bias: bool) -> None:
    x = features()
    layer = SparseLinear(6, 3, bias=bias).double()
    csr = x.to_sparse_csr()
    torch.testing.assert_close(layer(csr), nn.functional.linear(x, layer.weight, layer.bias))
    gradients = []
    for given in (x, csr):
        layer.zero_grad()
        layer(given).square().sum().backward()
        gradients.append([p.grad for p in layer.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_other_features_are_seen_as_such() -> None:
    """What is kept of one tensor is not used for another, nor for the same with other entries."""
    layer = SparseLinear(6, 3).double()
    for seed in (0, 1):
        x = features(seed=seed)
        torch.testing.assert_close(layer(x.to_sparse_csr()), layer(x))
    kept = LastSeen[float]()
    x = torch.ones(3)
    assert kept.get(x, lambda: float(x.sum())) == 3
    x[0] = 5
    assert kept.get(x, lambda: float(x.sum())) == 7


def test_layers_can_be_copied_and_pickled() -> None:
    layer = SparseLinear(6, 3).double()
    x = features().to_sparse_csr()
    layer(x)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(again(x), layer(x))


@torch.no_grad()
def test_dropout_of_sparse_entries_has_the_right_mean_and_only_in_training() -> None:
    x = torch.ones(1, 20_000).to_sparse_csr()
    layer = SparseLinear(20_000, 1, bias=False, dropout=0.3)
    nn.init.constant_(layer.weight, 1 / 20_000)
    torch.manual_seed(0)
    assert abs(float(layer(x)) - 1) < 0.025  # 5 standard deviations
    assert float(layer(x)) != float(layer(x))
    layer.eval()
    assert float(layer(x)) == pytest.approx(1, rel=1e-3)


def test_dropout_drops_the_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.ones(100_000, requires_grad=True)
    out = Dropout(0.3)(x)
    assert abs(float((out == 0).float().mean()) - 0.3) < 0.01
    assert out.detach().unique().tolist() == pytest.approx([0, 1 / 0.7])
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())
    assert Dropout(0.3).eval()(x) is x


def test_graph_convolution_on_an_edge_list_is_pygs() -> None:
    """Also with duplicate edges, self-loops, a node without edges, and after another edge list."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    layer = GCN(5, 3).double()
    plain = GCNConv(5, 3).double()
    plain.load_state_dict(layer.conv.state_dict())
    lists: tuple[list[list[int]], ...] = ([[0, 1, 1, 2, 2, 4], [1, 0, 0, 2, 3, 5]], [[0], [1]], [[], []])
    for edges in lists:
        edge_index = torch.tensor(edges, dtype=torch.long)
        torch.testing.assert_close(layer(x, edge_index), plain(x, edge_index))
        torch.testing.assert_close(Diffusion()(plain.lin(x), edge_index) + plain.bias, plain(x, edge_index))
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, edge_index), x)


def test_same_edges_with_more_rows_other_precision_and_inference_mode() -> None:
    """What is kept of an edge list depends on the rows it is used for; nothing made in inference mode is kept."""
    edges = torch.tensor([[0, 1], [1, 0]])
    layer = Diffusion()
    with torch.inference_mode():
        layer(torch.ones(2, 1), edges)
    for n, dtype in ((2, torch.float32), (5, torch.float32), (5, torch.float64)):
        x = torch.arange(n, dtype=dtype)[:, None].requires_grad_()
        out = layer(x, edges)
        torch.testing.assert_close(out[:2], torch.full((2, 1), 0.5, dtype=dtype))
        torch.testing.assert_close(out[2:], x[2:])
        out.sum().backward()
    half = layer(torch.ones(2, 1, dtype=torch.bfloat16), edges)
    assert half.dtype == torch.bfloat16
    with torch.inference_mode():
        made_here = edges.clone()
    torch.testing.assert_close(layer(torch.ones(2, 1), made_here), torch.ones(2, 1))


def test_attended_takes_sparse_features() -> None:
    x = features()
    layer = Attended(6, 3).double()
    neighbors = torch.tensor([[1, 2]] * 9)
    log_p = -torch.rand(18, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    graph = LatentGraph(x, torch.tensor(1.0), None, neighbors=neighbors, log_p=log_p)  # type: ignore[arg-type]
    torch.testing.assert_close(layer(x.to_sparse_csr(), graph), layer(x, graph))
