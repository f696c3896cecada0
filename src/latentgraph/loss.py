"""The graph loss: how a sampled graph learns from right and wrong answers, although sampling has no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from latentgraph.deadline import deadline_log_likelihood
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.probability import plackett_luce

Likelihood = Literal["paper", "probability", "plackett_luce"]
Reward = Callable[[Tensor, Tensor], Tensor]


def graph_loss(
    graphs: LatentGraph | Sequence[LatentGraph],
    delta: Tensor,
    *,
    likelihood: Likelihood = "paper",
    reduction: Literal["sum", "mean"] = "sum",
) -> Tensor:
    r"""The paper's equation (8): edges of nodes that did better than expected become more probable.

    .. math:: L_{graph} = \sum_l \sum_i \delta_i \sum_{j : (i,j) \in \mathcal E^{(l)}} \log p_{ij}^{(l)},
              \qquad \delta_i = E(a_i) - a_i

    Parameters
    ----------
    graphs : the sampled graphs of all layers (continuous and nearest-neighbour ones have no sampled edges and are
        passed over)
    delta : (n,) expected minus actual reward of each node; zero for nodes without a label
    likelihood : "paper" sums the unnormalised log p, whose gradient is biased and which has no lower bound: a node
        that does worse than expected pushes its neighbours away without end. "probability" sums p = exp(log p)
        instead, as the authors' public code does: biased as well, but edges that are improbable already are left alone.
        "plackett_luce" uses the exact log-likelihood of the ordered sample: with a baseline that does not depend on
        this sample, its gradient is that of the expected reward as far as a node's reward depends on its own edges.
        Where neighbours were cut off by a threshold, it is the exact one of that law (`deadline_log_likelihood`).
        No kind credits the edges of its neighbours, which matter too where several convolutions follow each other
    reduction : "sum" as in the paper, or "mean" over nodes

    Returns
    -------
    0-d tensor, differentiable in the embeddings and temperatures

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> graph = DiscreteDGM(nn.Linear(3, 2), k=2)(torch.randn(6, 3))
    >>> graph_loss(graph, delta=torch.zeros(6)).item()
    0.0
    """
    if likelihood not in get_args(Likelihood):
        raise InputError(f"likelihood={likelihood!r} is not known; choose one of {get_args(Likelihood)}.")
    if isinstance(graphs, LatentGraph):
        graphs = [graphs]
    delta = delta.detach()
    total = delta.new_zeros(())
    for graph in graphs:
        if graph.neighbors is None or graph.log_p is None or not graph.sampled:
            continue
        if delta.shape != (graph.num_nodes,):
            raise InputError(
                f"delta has shape {tuple(delta.shape)} but the graph has {graph.num_nodes} nodes; "
                "it must hold one number for each node (zero where there is no label)."
            )
        if likelihood == "plackett_luce":
            likely = deadline_log_likelihood(graph) if graph.cutoff is not None else _plackett_luce(graph)
        else:
            of_edges = graph.log_p if likelihood == "paper" else graph.log_p.exp()
            likely = graph.per_node(of_edges).sum(1)
        total = total + (delta * likely).sum()
    return total / len(delta) if reduction == "mean" else total


def _plackett_luce(graph: LatentGraph) -> Tensor:
    assert graph.neighbors is not None
    return plackett_luce(
        graph.all_x_hat,
        graph.neighbors,
        graph.temperature,
        graph.geometry,
        loop=graph.loop,
        batch=graph.batch,
        first_row=graph.first_row,
        kept=graph.kept,
    )


class MovingAverageBaseline(nn.Module):
    r"""Expected reward of every node as an exponential moving average over training steps.

    .. math:: E(a_i) \leftarrow \alpha \, E(a_i) + (1 - \alpha) \, a_i

    For node sets that stay the same during training. The averages are a buffer addressed by node id: they are in the
    `state_dict` of the baseline and work with mini-batches of nodes. A node's first reward is its first
    average, so its first delta is zero: nothing was expected yet.

    >>> baseline = MovingAverageBaseline(num_nodes=2)
    >>> baseline(torch.tensor([1.0, 0.0]))
    tensor([0., 0.])
    >>> baseline(torch.tensor([0.0, 0.0]))
    tensor([1., 0.])
    >>> baseline.average
    tensor([0.9000, 0.0000])
    """

    def __init__(self, num_nodes: int, alpha: float = 0.9) -> None:
        super().__init__()
        if not 0 <= alpha < 1:
            raise InputError(f"alpha={alpha} but it must be in [0, 1): the share of the old average that is kept.")
        self.alpha = alpha
        self.average: Tensor
        self.seen: Tensor
        self.register_buffer("average", torch.zeros(num_nodes))
        self.register_buffer("seen", torch.zeros(num_nodes, dtype=torch.bool))

    @torch.no_grad()
    def forward(self, reward: Tensor, node_id: Tensor | None = None) -> Tensor:
        """Rewards (m,) of the nodes `node_id` (m,), default all of them in order -> delta (m,) = E(a) - a.

        In training mode the averages are then updated; in evaluation mode they are only read.
        """
        nodes = self.average.shape if node_id is None else node_id.shape
        if reward.shape != nodes:
            raise InputError(
                f"{tuple(reward.shape)} rewards came for {tuple(nodes)} nodes; there must be one for each. "
                f"The baseline knows {len(self.average)} nodes; pass node_id= for a part of them."
            )
        reward = reward.to(self.average.dtype)
        which = slice(None) if node_id is None else node_id
        expected = torch.where(self.seen[which], self.average[which], reward)
        if self.training:
            self.average[which] = self.alpha * expected + (1 - self.alpha) * reward
            self.seen[which] = True
        return expected - reward


class SampleMeanBaseline(nn.Module):
    """Expected reward from several sampled graphs of the same step: for each, the mean over the *others*.

    For node sets that change from step to step. Leaving a sample's own reward out keeps the gradient unbiased; with S
    samples the result is S / (S - 1) times the deviation from the mean over all of them.

    >>> SampleMeanBaseline()(torch.tensor([[1.0], [0.0], [0.5]]))
    tensor([[-0.7500],
            [ 0.7500],
            [ 0.0000]])
    """

    @torch.no_grad()
    def forward(self, reward: Tensor, node_id: Tensor | None = None) -> Tensor:
        """Rewards (s, m) of s >= 2 sampled graphs -> delta (s, m). Node ids are not needed."""
        samples = len(reward)
        if reward.ndim != 2 or samples < 2:
            raise InputError(
                f"SampleMeanBaseline got rewards of shape {tuple(reward.shape)}; it needs (samples, nodes) with at "
                "least 2 sampled graphs of the same nodes. Raise samples, or use MovingAverageBaseline."
            )
        return (reward.sum(0, keepdim=True) - reward) / (samples - 1) - reward


def accuracy_reward(out: Tensor, y: Tensor) -> Tensor:
    """The paper's reward: 1 where the largest output (n, c) is the right class (n,), else 0."""
    return (out.detach().argmax(-1) == y).to(out.dtype)


def probability_reward(out: Tensor, y: Tensor) -> Tensor:
    """Probability of the true class: unlike accuracy it also tells near misses from far ones."""
    return out.detach().softmax(-1).gather(-1, y[:, None])[:, 0]


def log_probability_reward(out: Tensor, y: Tensor) -> Tensor:
    """Minus the cross-entropy of each node: with it a graph loss follows the loss that is trained."""
    return out.detach().log_softmax(-1).gather(-1, y[:, None])[:, 0]


def negative_loss_reward(out: Tensor, y: Tensor) -> Tensor:
    """For regression: minus the squared error of each node, outputs (n,) or (n, c)."""
    return -(out.detach() - y.view_as(out)).square().reshape(len(out), -1).sum(1)


def nearest_class_reward(class_vectors: Tensor) -> Reward:
    """For zero-shot learning: 1 where the predicted vector is nearest to its own class's vector.

    Returns a reward of (out (n, c), class numbers (n,)); `class_vectors` is (classes, c).
    """

    def reward(out: Tensor, y: Tensor) -> Tensor:
        nearest = torch.cdist(out.detach(), class_vectors.to(out)).argmin(-1)
        return (nearest == y).to(out.dtype)

    return reward
