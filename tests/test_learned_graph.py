"""Where the right graph is known, the learned one must come near it: the point of the whole library."""

from statistics import fmean

import pytest
import torch
from torch import nn

from latentgraph import DGMNet, DiscreteDGM, MovingAverageBaseline, edge_homophily, nearest
from latentgraph.datasets.synthetic import Problem, circles, planted_partition, two_moons
from latentgraph.graph import neighbors_to_edges
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.training import NodeSet, fit

K = 5
PROBLEMS = {
    "two moons": (two_moons(), 600),
    "circles": (circles(), 800),
    "planted partition": (planted_partition(), 300),
}


def learned_homophily(problem: Problem, steps: int, *, frozen: bool, seed: int = 0) -> float:
    """Homophily between nodes whose labels were never seen, after training with a trained or a frozen f."""
    torch.manual_seed(0)
    n, d = problem.x.shape
    c = int(problem.y.max()) + 1
    f = mlp([d, 32, 4]) if problem.edge_index is None else gcn([d, 16, 4])
    dgm = DiscreteDGM(f, K)
    dgm.requires_grad_(not frozen)
    net = DGMNet([(dgm, Stack(gcn([d, 16]), nn.ReLU()))], head=nn.Linear(16, c), detach=True)
    seen = torch.rand(n) < 0.5
    fit(
        net,
        NodeSet(problem.x, problem.y, seen, problem.edge_index),
        baseline=None if frozen else MovingAverageBaseline(n),
        steps=steps,
        seed=seed,
    )
    _, graphs = net(problem.x, problem.edge_index, generator=torch.Generator().manual_seed(1))
    return homophily_of_unseen(graphs[0].edge_index, problem.y, seen)


def homophily_of_unseen(edge_index: torch.Tensor | None, y: torch.Tensor, seen: torch.Tensor) -> float:
    assert edge_index is not None
    return edge_homophily(edge_index[:, ~seen[edge_index[1]]], y)


@pytest.mark.parametrize("name", PROBLEMS)
def test_learned_graph_joins_nodes_of_a_class(name: str) -> None:
    """f is trained by the graph loss alone (its inputs are detached): without it, f stays as good as random.

    The mean of five trainings: single ones on the two moons differ by several points with the noise of the samples.
    """
    problem, steps = PROBLEMS[name]
    trained = fmean(learned_homophily(problem, steps, frozen=False, seed=seed) for seed in range(5))
    frozen = learned_homophily(problem, steps, frozen=True)
    knn = edge_homophily(neighbors_to_edges(nearest(problem.x, K)), problem.y)
    assert trained > knn + 0.1, f"{name}: learned {trained:.3f}, kNN on the features {knn:.3f}"
    assert trained > frozen + 0.1, f"{name}: trained f {trained:.3f}, frozen f {frozen:.3f}"
