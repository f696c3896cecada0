"""By trial and error: the edges of nodes that did better than expected become more probable (REINFORCE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.gradients.credit import credit
from latentgraph.gradients.gradient import Gradient
from latentgraph.graph import LatentGraph
from latentgraph.loss import SampleMeanBaseline, graph_loss


@dataclass
class Reinforce(Gradient):
    r"""The paper's: :math:`\sum_i \delta_i \sum_{j \in \mathcal N_i} \log p_{ij}`, where p is not normalised.

    Biased (`latentgraph.loss.graph_loss` says why), and each node answers for its own edges only.

    Parameters
    ----------
    baseline : expected rewards, such as `MovingAverageBaseline(num_nodes)`
    samples : sampled graphs in a step
    """

    baseline: nn.Module
    samples: int = 1

    def __post_init__(self) -> None:
        _check(self.baseline, self.samples)

    def graph_loss(self, graphs: Sequence[LatentGraph], delta: Tensor) -> Tensor:
        return graph_loss(graphs, delta, likelihood="paper")


@dataclass
class PlackettLuce(Gradient):
    r"""The exact likelihood of the ordered sample, and credit for everybody whom a node's edges reach:

    .. math:: \sum_j \Big( \sum_{i \to j} \delta_i \Big) \log P(\mathcal N_j)

    The inner sum goes over the nodes i whose answer depends on the edges of j: those that come to j, going from
    neighbour to neighbour, in at most `hops` steps of the sampled graph. After C convolutions on one graph these are
    C - 1. So many hops, or more, make the gradient unbiased, if the reward is minus the loss and the baseline does not
    depend on the sample; fewer leave something out; more add noise.

    Parameters
    ----------
    samples : sampled graphs in a step
    hops : how far credit goes. 0: to the node's own reward, as in the paper. None: all rewards of its graph. Whole
        graphs with one target each (`GraphSet`) need 0: all nodes have the reward of their graph already
    baseline : expected rewards; default for each sample the mean over the others

    Examples
    --------
    >>> PlackettLuce(samples=8, hops=1)
    PlackettLuce(samples=8, hops=1, baseline=SampleMeanBaseline())
    """

    samples: int = 4
    hops: int | None = None
    baseline: nn.Module = field(default_factory=SampleMeanBaseline)

    def __post_init__(self) -> None:
        _check(self.baseline, self.samples)
        if self.hops is not None and self.hops < 0:
            raise InputError(f"hops={self.hops}; it must be 0 or more, or None for the whole graph.")

    @property
    def spreads_rewards(self) -> bool:
        return self.hops != 0

    def graph_loss(self, graphs: Sequence[LatentGraph], delta: Tensor) -> Tensor:
        drawn = [graph for graph in graphs if graph.neighbors is not None and graph.sampled]
        if self.hops and len(drawn) > 1:
            raise InputError(
                f"hops={self.hops} follows the edges of one sampled graph, but the network has {len(drawn)}, and the "
                "edges of one matter to the next. Use hops=None."
            )
        total = delta.new_zeros(())
        for graph in drawn:
            total = total + graph_loss(graph, credit(graph, delta, self.hops), likelihood="plackett_luce")
        return total


def _check(baseline: nn.Module, samples: int) -> None:
    if samples < 1 or (isinstance(baseline, SampleMeanBaseline) and samples < 2):
        raise InputError(
            f"samples={samples}; the mean over other samples needs at least 2. With a MovingAverageBaseline 1 will do."
        )
