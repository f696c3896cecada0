"""What one would use in place of `gumbel_top_k`: the dense formula, and libraries that find nearest neighbours.

The libraries do not sample: they are given here because their speed is the usual measure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from latentgraph.bench.libraries import installed
from latentgraph.sampling import BACKENDS, gumbel_top_k

MILLION = 1_000_000
OURS = "gumbel_top_k"


def dense(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """All distances, all noise, one top-k over the (n, n) matrix: the way it is usually written."""
    log_p = -temperature * torch.cdist(x_hat, x_hat) ** 2
    noise = -torch.log(-torch.log(torch.rand_like(log_p)))
    return (log_p + noise).topk(k, dim=1).indices


def dense_clouds(x_hat: Tensor, k: int, temperature: float, clouds: int) -> list[Tensor]:
    """The dense formula, cloud by cloud."""
    return [dense(cloud, k, temperature) for cloud in x_hat.chunk(clouds)]


def keops(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """Nearest neighbours by KeOps: all pairs, on the fly. A node finds itself first."""
    from pykeops.torch import LazyTensor

    to, of = LazyTensor(x_hat[:, None, :]), LazyTensor(x_hat[None, :, :])
    found: Tensor = ((to - of) ** 2).sum(-1).argKmin(k + 1, dim=1)
    return found[:, 1:]


def scipy_tree(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """Nearest neighbours by scipy's kd-tree."""
    from scipy.spatial import cKDTree

    points = x_hat.numpy()
    found = cKDTree(points).query(points, k + 1, workers=torch.get_num_threads())[1]
    return torch.from_numpy(found[:, 1:])


def faiss_flat(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """Nearest neighbours by faiss: all pairs, blocked and vectorised."""
    import faiss

    points = x_hat.numpy()
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    return torch.from_numpy(index.search(points, k + 1)[1][:, 1:])


def nn_descent(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """Approximate nearest neighbours by pynndescent."""
    from pynndescent import NNDescent

    index = NNDescent(x_hat.numpy(), n_neighbors=k + 1, n_jobs=torch.get_num_threads(), random_state=0)
    return torch.from_numpy(index.neighbor_graph[0][:, 1:])


class Method(NamedTuple):
    """A function of points, k and temperature, and the numbers of nodes between which it is measured."""

    sample: Callable[[Tensor, int, float], Tensor]
    most: int  # in up to four dimensions
    most_wide: int  # in more
    least: int = 0


def methods() -> dict[str, Method]:
    """Ours, and every alternative that is installed. Limits keep a call below about a minute, and in memory."""
    found = {
        OURS: Method(gumbel_top_k, MILLION, 100_000),
        "torch backend": Method(partial(gumbel_top_k, backend="torch"), 20_000, 20_000),
        "dense formula": Method(dense, 20_000, 20_000),
        "scipy, no noise": Method(scipy_tree, MILLION, 20_000),
    }
    if installed("pykeops"):
        if "keops" in BACKENDS:
            found["keops backend"] = Method(partial(gumbel_top_k, backend="keops"), 50_000, 20_000)
        found["KeOps, no noise"] = Method(keops, 100_000, 50_000)
    if installed("faiss"):
        found["faiss, no noise"] = Method(faiss_flat, 100_000, 50_000)
    if installed("pynndescent"):  # compiles for about a minute in every process: not for small sets
        found["pynndescent, approximate"] = Method(nn_descent, 100_000, 100_000, least=1_000)
    return found
