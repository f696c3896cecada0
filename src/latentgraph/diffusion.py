r"""Convolutions g that work on any graph: an edge list, a sampled `LatentGraph`, or a continuous one.

On edges they are PyG's convolutions. On a continuous graph the same weights act over all pairs, weighted by
a_ij = sigmoid(t (T - dist^2)), without the (n, n) matrix: block by block, and each block again in the backward pass.
In flat space the backward pass is written out (`continuous`, `attention`, `messages`); elsewhere autograd goes through
each block (`blocks.recomputed`).
"""

from __future__ import annotations

from typing import Literal, TypeGuard

import torch
from torch import Tensor, nn
from torch_geometric.nn import EdgeConv as PyGEdgeConv
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from latentgraph import blocks
from latentgraph.attention import flat_attention
from latentgraph.blocks import Block, all_rows, other_graph, recomputed
from latentgraph.continuous import flat_product, is_flat
from latentgraph.errors import InputError
from latentgraph.gather import mean_with_neighbors, sum_over_neighbors
from latentgraph.graph import AnyGraph, LatentGraph, is_part
from latentgraph.largest import largest
from latentgraph.messages import flat_message_sum, strongest
from latentgraph.probability import adjacency_block, edge_log_p
from latentgraph.sparse import LastSeen, Structure, sparse_product, structure_of
from latentgraph.weighted import weighted_aggregate, weighted_attention, weighted_diffusion, weighted_mean

Graph = AnyGraph
Aggregation = Literal["sum", "mean", "max"]


def adjacency_product(graph: LatentGraph, x: Tensor, *, dense: bool | None = None) -> Tensor:
    """A @ x for the weights A of a continuous graph, differentiable in everything: (n, n) times (n, c).

    `dense=True` forms A (and shares it with other calls on the same graph), `dense=False` works in O(n) memory; by
    default small graphs are dense.
    """
    if dense is None:
        dense = graph.num_nodes**2 <= blocks.BLOCK
    if dense:
        assert graph.adj is not None
        return graph.adj @ x
    geometry, batch = graph.geometry, graph.batch
    if is_flat(geometry, graph.x_hat, graph.temperature, batch):
        return flat_product(graph.x_hat, graph.temperature, _threshold(graph), x, batch)

    def rows_of(block: Block, x_hat: Tensor, t: Tensor, threshold: Tensor, x: Tensor) -> Tensor:
        return adjacency_block(block, x_hat, t, threshold, geometry, batch) @ x[block.columns]

    inputs = graph.x_hat, graph.temperature, _threshold(graph), x
    return recomputed(rows_of, all_rows(batch, len(x)), *inputs, parameters=geometry.learned())


def row_normalised(graph: LatentGraph, x: Tensor, *, dense: bool | None = None) -> Tensor:
    """D^-1 A x: each node takes the weighted mean over all nodes."""
    summed = adjacency_product(graph, torch.cat([x, x.new_ones(len(x), 1)], dim=1), dense=dense)
    return summed[:, :-1] / _positive(summed[:, -1:])


def symmetric_normalised(graph: LatentGraph, x: Tensor, *, dense: bool | None = None) -> Tensor:
    """D^-1/2 A D^-1/2 x, the diffusion of the graph convolutional network. A contains its own self-loops a_ii."""
    scale = _positive(_degree(graph, dense=dense)).rsqrt()
    return scale * adjacency_product(graph, scale * x, dense=dense)


class Diffusion(nn.Module):
    r"""The part of a graph convolution without weights, :math:`D^{-1/2} A D^{-1/2} X`, with self-loops.

    An edge list is normalised when it is first seen, and not again while the same one comes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._normalised = LastSeen[tuple[Tensor, Structure]]()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if isinstance(graph, LatentGraph) and graph.weights is not None:
            return weighted_diffusion(graph, x)
        if _all_have_k(graph) and not graph.loop:
            # k neighbours and itself: all degrees are k + 1, and the normalised sum is a plain mean.
            h = graph.sources(x)
            if h is x:
                return mean_with_neighbors(graph.places, x, graph.backwards)
            return (x + sum_over_neighbors(graph.places, h, graph.backwards)) / (graph.places.shape[1] + 1)
        wide = torch.promote_types(x.dtype, torch.float32)
        if is_part(graph):
            return sparse_product(*graph.normalised(wide), graph.sources(x))
        edge_index = _edges(graph)
        if edge_index is None:
            return symmetric_normalised(_latent(graph), x)
        weights, places = self._normalised.get(edge_index, lambda: _normalised(edge_index, len(x), wide), len(x), wide)
        return sparse_product(weights, places, x)


def _normalised(edge_index: Tensor, n: int, dtype: torch.dtype) -> tuple[Tensor, Structure]:
    """D^-1/2 (A + I) D^-1/2 of an edge list, as PyG's `GCNConv` has it: entries, and where they are."""
    (source, target), weight = gcn_norm(edge_index, None, n, dtype=dtype)
    order = target.argsort(stable=True)
    start = nn.functional.pad(target.bincount(minlength=n).cumsum(0), (1, 0))
    return weight.index_select(0, order), structure_of(start, source.index_select(0, order), n)


class GCN(nn.Module):
    r"""Graph convolution, :math:`D^{-1/2} A D^{-1/2} X \Theta + b`, with self-loops as in PyG's `GCNConv`."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_features, out_features)
        self.diffuse = Diffusion()

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """First whichever leaves fewer columns to diffuse: it is the same product."""
        if self.conv.in_channels < self.conv.out_channels:
            return nn.functional.linear(self.diffuse(x, graph), self.conv.lin.weight, self.conv.bias)
        return self.diffuse(self.conv.lin(x), graph) + self.conv.bias


class RowNormalised(nn.Module):
    r"""The convolution of the paper's zero-shot section, :math:`D^{-1} A X \Theta`, on A as it is (no self-loops).

    On a sampled graph it is the mean over the k sampled neighbours. A node without neighbours gets zeros.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        h = self.linear(x)
        if isinstance(graph, LatentGraph) and graph.weights is not None:
            return weighted_mean(graph, h)
        if _all_have_k(graph):
            return sum_over_neighbors(graph.places, graph.sources(h), graph.backwards) / graph.places.shape[1]
        edge_index = _edges(graph)
        if edge_index is None:
            return row_normalised(_latent(graph), h)
        source, target = edge_index
        summed = torch.zeros_like(h).index_add(0, target, _sources(graph, h).index_select(0, source))
        degree = target.bincount(minlength=len(x)).clamp_min(1)
        return summed / degree[:, None]


class GAT(nn.Module):
    r"""Graph attention. On a continuous graph attention is spread over all pairs in proportion to the weights:

    .. math:: \alpha_{ij} \propto a_{ij} \exp(\text{LeakyReLU}(u^\top h_i + v^\top h_j)), \qquad h = X \Theta
    """

    def __init__(self, in_features: int, out_features: int, *, heads: int = 1, concat: bool = False) -> None:
        super().__init__()
        self.conv = GATConv(in_features, out_features, heads=heads, concat=concat)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if is_part(graph):
            rows, edges = graph.own_first(x)
            return self.conv((rows, x), edges)
        edge_index = _edges(graph)
        weighted = isinstance(graph, LatentGraph) and graph.weights is not None
        if edge_index is not None and not weighted:
            return self.conv(x, edge_index)
        h = self.conv.lin(x).view(len(x), self.conv.heads, -1)
        u, v = (h * self.conv.att_dst).sum(-1), (h * self.conv.att_src).sum(-1)
        attend = weighted_attention if weighted else _attention
        out = attend(_latent(graph), h, u, v, self.conv.negative_slope)
        return (out.flatten(1) if self.conv.concat else out.mean(1)) + self.conv.bias


def _attention(graph: LatentGraph, h: Tensor, u: Tensor, v: Tensor, slope: float) -> Tensor:
    """Attention over all pairs: h (n, heads, c), the scores' parts u and v (n, heads) -> (n, heads, c)."""
    geometry, batch = graph.geometry, graph.batch
    x_hat, t, threshold = graph.x_hat, graph.temperature, _threshold(graph)
    if is_flat(geometry, x_hat, t, batch):
        return flat_attention(x_hat, t, threshold, h, u, v, slope, batch)

    def rows_of(block: Block, x_hat: Tensor, t: Tensor, threshold: Tensor, h: Tensor, u: Tensor, v: Tensor) -> Tensor:
        score = nn.functional.leaky_relu(u[block.rows, None] + v[None, block.columns], slope)  # (rows, columns, heads)
        log_weight = adjacency_block(block, x_hat, t, threshold, geometry, batch, log=True)
        attention = (log_weight[..., None] + score).softmax(1)
        return torch.einsum("ijh,jhc->ihc", attention, h[block.columns])

    walk = all_rows(batch, len(h), _pairs(2 * h.shape[1]))
    return recomputed(rows_of, walk, x_hat, t, threshold, h, u, v, parameters=geometry.learned())


class EdgeConv(nn.Module):
    r"""Edge convolution, :math:`z_i = \square_j \; h(x_i, x_j - x_i)` with the aggregation sum, mean or max.

    On a continuous graph h is weighted by a_ij: the sum is :math:`\sum_j a_{ij} h_{ij}`, the mean divides it by
    :math:`\sum_j a_{ij}`, the maximum is :math:`\max_j a_{ij} h_{ij}`.

    Parameters
    ----------
    message : h, a module from 2 `in_features` to `out_features`; default one linear layer and a ReLU
    """

    def __init__(
        self, in_features: int, out_features: int, *, aggr: Aggregation = "max", message: nn.Module | None = None
    ) -> None:
        super().__init__()
        if aggr not in ("sum", "mean", "max"):
            raise InputError(f"aggr={aggr!r} is not known; choose 'sum', 'mean' or 'max'.")
        # Numbers that a pair carries on a continuous graph.
        self.width = out_features if message is None else max(2 * in_features, out_features)
        self.aggr = aggr
        self.conv = PyGEdgeConv(nn.Identity(), aggr=aggr)
        # Given afterwards, for the constructor would initialise it again.
        self.conv.nn = message or nn.Sequential(nn.Linear(2 * in_features, out_features), nn.ReLU())

    @property
    def message(self) -> nn.Module:
        """h, from [x_i | x_j - x_i] to the message."""
        return self.conv.nn

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if _all_have_k(graph) or (isinstance(graph, LatentGraph) and graph.weights is not None):
            return self._over_neighbors(x, graph)
        edge_index = _edges(graph)
        if edge_index is not None:
            return self.conv((_sources(graph, x), x), edge_index)
        latent = _latent(graph)
        linear = _linear_before_relu(self.message)
        if linear is not None:
            p, q = _linear_parts(linear, x, x)
            if self.aggr == "max":
                return _largest_message(latent, p, q)
            x_hat, t, batch = latent.x_hat, latent.temperature, latent.batch
            if is_flat(latent.geometry, x_hat, t, batch):
                total = flat_message_sum(x_hat, t, _threshold(latent), p, q, batch)
                return total if self.aggr == "sum" else total / _positive(_degree(latent, dense=False))
        return self._of_any_message(latent, x)

    def _over_neighbors(self, x: Tensor, graph: LatentGraph) -> Tensor:
        """On a sampled graph: all have k neighbours (of some weight), so their messages are a cube (n, k, out)."""
        places = graph.weighed

        def theirs(h: Tensor) -> Tensor:
            return graph.sources(h).index_select(0, places.reshape(-1)).unflatten(0, places.shape)

        first, rest = _first_linear(self.message)
        if first is None:
            pairs = torch.cat(torch.broadcast_tensors(x[:, None], theirs(x) - x[:, None]), dim=-1)
        else:
            p, q = _linear_parts(first, x, x)
            pairs = p[:, None] + theirs(q)
        if self.aggr == "max" and graph.weights is None:
            return largest(rest, pairs)
        message = rest(pairs.flatten(0, 1)).unflatten(0, places.shape)
        if graph.weights is not None:
            return weighted_aggregate(graph, message, self.aggr)
        return message.sum(1) if self.aggr == "sum" else message.mean(1)

    def _of_any_message(self, graph: LatentGraph, x: Tensor) -> Tensor:
        geometry, batch = graph.geometry, graph.batch

        def rows_of(block: Block, x_hat: Tensor, t: Tensor, threshold: Tensor, x: Tensor) -> Tensor:
            weight = adjacency_block(block, x_hat, t, threshold, geometry, batch)
            message = self._all_messages(x[block.rows], x[block.columns])
            if self.aggr == "max":
                weighted = weight[..., None] * message
                foreign = other_graph(batch, torch.arange(block.row_start, block.row_stop, device=x.device), block)
                if foreign is not None:  # a message of weight zero would win over negative ones
                    weighted = weighted.masked_fill(foreign[..., None], -torch.inf)
                return weighted.amax(1)
            total = torch.einsum("ij,ijc->ic", weight, message)
            return total if self.aggr == "sum" else total / _positive(weight.sum(1, keepdim=True))

        return recomputed(
            rows_of,
            all_rows(batch, len(x), _pairs(self.width)),
            graph.x_hat,
            graph.temperature,
            _threshold(graph),
            x,
            parameters=[*self.message.parameters(), *geometry.learned()],
        )

    def _all_messages(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        """h(x_i, x_j - x_i) for all pairs of rows (r, d) and (c, d): (r, c, out)."""
        first, rest = _first_linear(self.message)
        if first is None:
            pairs = torch.cat(torch.broadcast_tensors(x_i[:, None], x_j[None] - x_i[:, None]), dim=-1)
        else:
            p, q = _linear_parts(first, x_i, x_j)
            pairs = p[:, None] + q[None]
        # As rows, not as a cube: a normalisation inside h takes its statistics over the first of two dimensions.
        return rest(pairs.flatten(0, 1)).unflatten(0, (len(x_i), len(x_j)))


def _first_linear(message: nn.Module) -> tuple[nn.Linear | None, nn.Module]:
    """The linear layer that a message begins with, and what follows it; None and the message if it does not."""
    if isinstance(message, nn.Sequential) and isinstance(first := message[0], nn.Linear):
        return first, message[1:]
    return None, message


def _linear_parts(linear: nn.Linear, x_i: Tensor, x_j: Tensor) -> tuple[Tensor, Tensor]:
    """p and q with W [x_i | x_j - x_i] + b = p_i + q_j: one product for each node instead of one for each pair."""
    w_1, w_2 = linear.weight.chunk(2, dim=1)
    return nn.functional.linear(x_i, w_1 - w_2, linear.bias), nn.functional.linear(x_j, w_2)


def _linear_before_relu(message: nn.Module) -> nn.Linear | None:
    """The layer L of a message ReLU(L(...)); None if the message is something else."""
    if isinstance(message, nn.Sequential) and len(message) == 2 and isinstance(message[1], nn.ReLU):
        first = message[0]
        return first if isinstance(first, nn.Linear) else None
    return None


def _largest_message(graph: LatentGraph, p: Tensor, q: Tensor) -> Tensor:
    """max_j a_ij ReLU(p_ic + q_jc), (n, c): search without gradients, then compute again the pairs that won."""
    geometry, batch, x_hat, t, threshold = (
        graph.geometry,
        graph.batch,
        graph.x_hat,
        graph.temperature,
        _threshold(graph),
    )
    winner = strongest(lambda block: adjacency_block(block, x_hat, t, threshold, geometry, batch), p, q, batch)
    nodes = torch.arange(len(p), device=p.device).repeat_interleave(p.shape[1])
    edges = torch.stack([winner.flatten(), nodes])
    log_p = edge_log_p(x_hat, edges, t, geometry).view_as(p)  # -t dist^2
    return (t * threshold + log_p).sigmoid() * (p + q.gather(0, winner)).relu()


def _edges(graph: Graph) -> Tensor | None:
    """Edges from rows of `_sources` to rows of x; None for a continuous graph."""
    return graph if isinstance(graph, Tensor) else graph.local_edges


def _all_have_k(graph: Graph) -> TypeGuard[LatentGraph]:
    """Whether it is a sampled graph in which every node has k neighbours, so that rows are gathered, not scattered.

    One of unequal degrees is taken for its edge list, unless it has weights: these are zero where there is no edge.
    """
    return isinstance(graph, LatentGraph) and graph.neighbors is not None and graph.kept is None


def _sources(graph: Graph, h: Tensor) -> Tensor:
    return h if isinstance(graph, Tensor) else graph.sources(h)


def _latent(graph: Graph) -> LatentGraph:
    assert isinstance(graph, LatentGraph)
    return graph


def _threshold(graph: LatentGraph) -> Tensor:
    assert graph.threshold is not None
    return graph.threshold


def _degree(graph: LatentGraph, *, dense: bool | None) -> Tensor:
    """(n, 1) sums of the rows of A. Kept with the graph, for several convolutions share them.

    What is computed without gradients is not kept: it would lose them.
    """
    kept: Tensor | None = vars(graph).get("_degree")
    if kept is not None and torch.is_grad_enabled():
        return kept
    degree = adjacency_product(graph, torch.ones_like(graph.x_hat[:, :1]), dense=dense)
    if torch.is_grad_enabled():
        vars(graph)["_degree"] = degree
    return degree


def _positive(x: Tensor) -> Tensor:
    """Keep a divisor away from zero: with T < 0 all weights of a row may underflow.

    The root of the smallest number: what is divided by it, twice, does not overflow, here or in the backward pass.
    """
    return x.clamp_min(torch.finfo(x.dtype).tiny ** 0.5)


def _pairs(width: int) -> int:
    """Pairs in a block where each pair carries `width` numbers instead of one: 8 MB in single precision."""
    return max(1, 2 * blocks.BLOCK // width)
