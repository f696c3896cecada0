"""`latentgraph bench sampler`: exact Gumbel-top-k beside the dense formula and beside plain nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from latentgraph.bench.measure import side_by_side
from latentgraph.bench.regimes import points
from latentgraph.sampling import gumbel_top_k

Row = dict[str, float | str]

# regime, n, d, k, clouds
CASES = [
    ("gaussian", 1_000, 4, 5, 1),
    ("gaussian", 10_000, 4, 5, 1),
    ("gaussian", 10_000, 16, 5, 1),
    ("clustered", 10_000, 16, 5, 1),
    ("flat", 10_000, 4, 5, 1),
    ("duplicates", 10_000, 4, 5, 1),
    ("low dimension", 10_000, 16, 5, 1),
    ("gaussian", 2_048, 16, 20, 32),
    ("gaussian", 100_000, 4, 5, 1),
    ("gaussian", 1_000_000, 4, 5, 1),
]
QUICK_CASES = [("gaussian", 500, 4, 5, 1), ("gaussian", 200, 16, 5, 4)]
DENSE_LIMIT = 20_000  # nodes beyond which (n, n) matrices do not fit
TORCH_LIMIT = 20_000  # nodes beyond which all pairs take too long


def dense(x_hat: Tensor, k: int, temperature: float) -> Tensor:
    """All distances, all noise, one top-k over the (n, n) matrix: the way it is usually written."""
    log_p = -temperature * torch.cdist(x_hat, x_hat) ** 2
    noise = -torch.log(-torch.log(torch.rand_like(log_p)))
    return (log_p + noise).topk(k, dim=1).indices


def dense_clouds(x_hat: Tensor, k: int, temperature: float, clouds: int) -> list[Tensor]:
    """The dense formula, cloud by cloud."""
    return [dense(cloud, k, temperature) for cloud in x_hat.chunk(clouds)]


def scipy_neighbours(x_hat: Tensor, k: int) -> object:
    """Deterministic nearest neighbours with scipy's kd-tree: no sampling at all."""
    from scipy.spatial import cKDTree

    points = x_hat.numpy()
    return cKDTree(points).query(points, k + 1)


def run(*, quick: bool = False, repeats: int = 3) -> list[Row]:
    """One row for each case and method: seconds, memory, and how many times faster `gumbel_top_k` is."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gumbel_top_k(torch.randn(200, 4), 5, 1.0)  # compile
        cases = QUICK_CASES if quick else CASES
        return [row for case in cases for row in _measure(*case, repeats=1 if quick else repeats)]
    finally:
        torch.set_num_threads(threads)


def _measure(regime: str, n: int, d: int, k: int, clouds: int, *, repeats: int) -> list[Row]:
    x_hat, t = points(regime, n * clouds, d)
    batch = None if clouds == 1 else torch.arange(clouds).repeat_interleave(n)
    candidates: dict[str, Callable[[], object]] = {"gumbel_top_k": partial(gumbel_top_k, x_hat, k, t, batch=batch)}
    if n <= TORCH_LIMIT:
        candidates["gumbel_top_k, torch backend"] = partial(gumbel_top_k, x_hat, k, t, batch=batch, backend="torch")
    if n <= DENSE_LIMIT:
        candidates["dense formula"] = partial(dense_clouds, x_hat, k, t, clouds)
    if clouds == 1 and regime != "duplicates":  # scipy's tree takes minutes on many equal points
        candidates["scipy cKDTree, no noise"] = partial(scipy_neighbours, x_hat, k)
    measured = side_by_side(candidates, repeats=1 if n >= 100_000 else repeats, warm=n < 100_000)
    ours = measured["gumbel_top_k"]
    return [
        {
            "regime": regime,
            "n": f"{clouds} x {n}" if clouds > 1 else str(n),
            "d": str(d),
            "k": str(k),
            "method": name,
            "seconds": value.seconds,
            "megabytes": value.megabytes,
            "ours is faster by": value.seconds / ours.seconds,
        }
        for name, value in measured.items()
    ]
