"""Exact sampling of sparse graphs: `gumbel_top_k`, and `nearest` as its limit without noise.

A backend is one function in a file of its own, imported when it is used: it gets checked arguments and returns node
numbers only. The probability of what it chose is computed elsewhere (`probability.edge_log_p`), once for all backends.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry
from latentgraph.sampling.blocked import blocked_top_k
from latentgraph.sampling.noise import draw_seed

BACKENDS = ("auto", "torch", "tree")
TREE_PAYS = 128  # nodes from which "auto" prefers the tree


def gumbel_top_k(
    x_hat: Tensor,
    k: int,
    temperature: float | Tensor,
    *,
    geometry: Geometry | None = None,
    loop: bool = False,
    batch: Tensor | None = None,
    query: Tensor | None = None,
    generator: torch.Generator | None = None,
    backend: str = "auto",
) -> Tensor:
    r"""Sample k neighbours without replacement for every node, by the Gumbel-top-k trick.

    .. math:: j_{i,1}, \dots, j_{i,k} = \operatorname{arg\,top}_k \left( \log p_{ij} + G_{ij} \right),
              \qquad \log p_{ij} = -t \, \Delta(\hat x_i, \hat x_j)^2, \quad G_{ij} \sim \text{Gumbel}(0, 1)

    so that a first neighbour j is chosen with probability p_ij / sum_r p_ir, the second in the same way from the rest,
    and so on. Every backend samples from exactly this law.

    Parameters
    ----------
    x_hat : (n, d_hat) embedding; moved to `geometry` by its `project`
    k : neighbours for each node
    temperature : t > 0, a number or a 0-d tensor
    geometry : default `Euclidean()`
    loop : whether a node may choose itself. It mostly would, for p_ii = 1 is the largest, at the cost of one of the k
    batch : (n,) ascending graph ids as in PyG; neighbours come from a node's own graph
    query : (q,) the nodes to sample for, default all of them
    generator : one number is drawn from it as the seed. The same state gives the same sample for any number of
        threads, and rows sampled apart with `query` get what they would get together
    backend : "torch" goes through all pairs in blocks, on any device. "tree" runs the race on a kd-tree, on the CPU, in
        less than quadratic time. "auto" takes the tree for 128 nodes or more on the CPU if numba is installed. Each
        gives its own sample for a generator, from the same law

    Returns
    -------
    LongTensor (n, k) or (q, k): node numbers, in order of arrival (largest log p + G first)

    Examples
    --------
    >>> x_hat = torch.tensor([[0.], [1.], [10.], [11.]])
    >>> gumbel_top_k(x_hat, k=1, temperature=5.0, generator=torch.Generator().manual_seed(0)).T
    tensor([[1, 0, 3, 2]])
    """
    t = _check_temperature(temperature)
    x_hat, rows, geometry = _check(x_hat, k, geometry, loop, batch, query, backend)
    seed = draw_seed(generator)
    sampler = _choose(backend, x_hat, t, geometry)
    return sampler(x_hat, int(k), t, geometry=geometry, loop=loop, batch=batch, rows=rows, seed=seed)


def nearest(
    x_hat: Tensor,
    k: int,
    *,
    geometry: Geometry | None = None,
    loop: bool = False,
    batch: Tensor | None = None,
    query: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """The k nearest neighbours of every node, nearest first: `gumbel_top_k` without noise.

    >>> nearest(torch.tensor([[0.], [1.], [3.]]), k=2)
    tensor([[1, 2],
            [0, 2],
            [1, 0]])
    """
    x_hat, rows, geometry = _check(x_hat, k, geometry, loop, batch, query, backend)
    sampler = _choose(backend, x_hat, 1.0, geometry)
    return sampler(x_hat, int(k), 1.0, geometry=geometry, loop=loop, batch=batch, rows=rows, seed=None)


class Sampler(Protocol):
    """What a backend is: checked arguments in, node numbers (r, k) out. `seed=None` means no noise."""

    def __call__(
        self,
        x_hat: Tensor,
        k: int,
        temperature: float,
        /,
        *,
        geometry: Geometry,
        loop: bool,
        batch: Tensor | None,
        rows: Tensor,
        seed: int | None,
    ) -> Tensor: ...


def _choose(backend: str, x_hat: Tensor, temperature: float, geometry: Geometry) -> Sampler:
    """The function behind a backend's name; "auto" takes the fastest that can do it."""
    if backend == "torch" or (backend == "auto" and (x_hat.device.type != "cpu" or len(x_hat) < TREE_PAYS)):
        return blocked_top_k
    try:
        from latentgraph.sampling.tree import supports, tree_top_k
    except ImportError:
        if backend == "auto":
            return blocked_top_k
        raise InputError('backend="tree" needs numba. Install it with: pip install numba') from None
    if supports(x_hat, temperature, geometry):
        return tree_top_k
    if backend == "auto":
        return blocked_top_k
    raise InputError(
        f'backend="tree" has no bounds for {geometry!r} with temperature={temperature:.3g} and coordinates up to '
        f'{float(x_hat.abs().max()):.3g}. Use backend="torch" or "auto".'
    )


def _check_temperature(temperature: float | Tensor) -> float:
    if isinstance(temperature, Tensor) and temperature.numel() != 1:
        raise InputError(f"temperature has shape {tuple(temperature.shape)}; it must be one number for all pairs.")
    t = float(temperature.detach() if isinstance(temperature, Tensor) else temperature)
    if not (math.isfinite(t) and t > 0):
        raise InputError(
            f"temperature={t} but it must be a positive, finite number: log p = -t dist^2 falls with the distance. "
            "Small values give nearly uniform neighbours, large values nearly the nearest ones."
        )
    return t


def _check(
    x_hat: Tensor,
    k: int,
    geometry: Geometry | None,
    loop: bool,
    batch: Tensor | None,
    query: Tensor | None,
    backend: str,
) -> tuple[Tensor, Tensor, Geometry]:
    """Refuse what cannot be sampled, in words; return the points on their geometry and the rows to sample for."""
    if backend not in BACKENDS:
        raise InputError(f"backend={backend!r} is not known; choose one of {', '.join(map(repr, BACKENDS))}.")
    if x_hat.ndim != 2 or not x_hat.is_floating_point():
        raise InputError(
            f"x_hat is a {x_hat.dtype} tensor of shape {tuple(x_hat.shape)}; it must be floating point of shape "
            "(n, d_hat), one row for each node."
        )
    if x_hat.dtype not in (torch.float32, torch.float64):
        x_hat = x_hat.float()
    x_hat = x_hat.detach()
    finite = x_hat.isfinite().all(1)
    if not finite.all():
        bad = int((~finite).nonzero()[0, 0])
        raise InputError(
            f"x_hat has {int((~finite).sum())} rows with NaN or infinite values, the first is row {bad}. Distances to "
            "them are undefined: check the features for missing values and the training for divergence."
        )
    _check_batch(batch, x_hat)
    _check_k(k, loop, batch, len(x_hat))
    geometry = geometry or Euclidean()
    return geometry.project(x_hat), _check_query(query, x_hat), geometry


def _check_batch(batch: Tensor | None, x_hat: Tensor) -> None:
    if batch is None:
        return
    if batch.shape != (len(x_hat),) or batch.is_floating_point():
        raise InputError(
            f"batch is a {batch.dtype} tensor of shape {tuple(batch.shape)}; it must hold one integer graph id for "
            f"each of the {len(x_hat)} rows of x_hat."
        )
    if bool((batch[1:] < batch[:-1]).any()):
        raise InputError("batch must be ascending, so that each graph is a run of rows. Sort the rows by graph first.")


def _check_k(k: int, loop: bool, batch: Tensor | None, num_nodes: int) -> None:
    if not hasattr(k, "__index__") or isinstance(k, bool) or k < 1:  # numpy's whole numbers have it too
        raise InputError(f"k={k!r} but it must be a whole number of neighbours, at least 1.")
    smallest = int(graph_sizes(batch, num_nodes).min()) if num_nodes else 0
    most = smallest if loop else max(smallest - 1, 0)
    if k > most:
        what = "the graph" if batch is None else "the smallest graph of the batch"
        advice = "Lower k or pass loop=True." if k == smallest and not loop and k > 1 else "Lower k."
        if most < 1:
            advice = "It needs more nodes."
        raise InputError(f"k={k} but {what} has {smallest} nodes; k can be at most {most} with loop={loop}. {advice}")


def _check_query(query: Tensor | None, x_hat: Tensor) -> Tensor:
    n = len(x_hat)
    if query is None:
        return torch.arange(n, device=x_hat.device)
    if query.ndim != 1 or query.is_floating_point() or query.dtype == torch.bool:
        raise InputError(
            f"query is a {query.dtype} tensor of shape {tuple(query.shape)}; it must be a vector of row numbers. "
            "For a mask, pass mask.nonzero()[:, 0]."
        )
    if len(query) and (int(query.min()) < 0 or int(query.max()) >= n):
        raise InputError(
            f"query has row numbers from {int(query.min())} to {int(query.max())}; x_hat has rows 0 to {n - 1}."
        )
    return query.to(device=x_hat.device, dtype=torch.long)
