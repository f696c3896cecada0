"""Exact sampling of sparse graphs: `gumbel_top_k`, and `nearest` as its limit without noise.

A backend is one function in a file of its own, imported when it is used: it gets checked arguments and returns node
numbers only. The probability of what it chose is computed elsewhere (`probability.edge_log_p`), once for all backends.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.sampling.blocked import blocked_top_k
from latentgraph.sampling.noise import draw_seed
from latentgraph.sampling.population import Population, check_population, check_temperature

# What a backend is: a checked population, k, temperature, seed (None: no noise) -> node numbers (r, k), best first.
Sampler = Callable[[Population, int, float, int | None], Tensor]

BACKENDS = ("auto", "torch", "tree", "keops")
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
    candidates: Tensor | None = None,
    keys: Tensor | None = None,
    generator: torch.Generator | int | None = None,
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
    candidates : (m, d_hat) another embedding: the rows of `x_hat` choose among these rows instead of among themselves
    keys : (n,) whole numbers that name the rows of `x_hat` to the noise, default 0, 1, ... With the same generator
        state, a row of the same key gets the same sample of the same `candidates`, whoever else is in the call
    generator : one number is drawn from it as the seed. The same state gives the same sample for any number of
        threads, and rows sampled apart with `query` get what they would get together. A whole number is taken as
        the seed itself: processes that share a sample draw it once, and tell each other
    backend : "torch" goes through all pairs in blocks, on any device. "tree" runs the race on a kd-tree, on the CPU, in
        less than quadratic time. "keops" finds near points with KeOps and samples the others by thinning, without
        holding pairs, also on a GPU; it needs pykeops and a C++ compiler. "auto" takes the tree for 128 nodes or more
        on the CPU if numba is installed, and torch otherwise. Each gives its own sample for a generator, from the same
        law

    Returns
    -------
    LongTensor (n, k) or (q, k): node numbers (rows of `candidates` where given), in order of arrival (largest
    log p + G first)

    Examples
    --------
    >>> x_hat = torch.tensor([[0.], [1.], [10.], [11.]])
    >>> gumbel_top_k(x_hat, k=1, temperature=5.0, generator=torch.Generator().manual_seed(0)).T
    tensor([[1, 0, 3, 2]])
    """
    _check_backend(backend)
    t = check_temperature(temperature)
    population = check_population(x_hat, k, geometry, loop, batch, query, candidates, keys)
    seed = generator if isinstance(generator, int) else draw_seed(generator)
    return _choose(backend, population, t)(population, int(k), t, seed)


def nearest(
    x_hat: Tensor,
    k: int,
    *,
    geometry: Geometry | None = None,
    loop: bool = False,
    batch: Tensor | None = None,
    query: Tensor | None = None,
    candidates: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """The k nearest neighbours of every node, nearest first: `gumbel_top_k` without noise.

    >>> nearest(torch.tensor([[0.], [1.], [3.]]), k=2)
    tensor([[1, 2],
            [0, 2],
            [1, 0]])
    """
    _check_backend(backend)
    population = check_population(x_hat, k, geometry, loop, batch, query, candidates, None)
    return _choose(backend, population, 1.0)(population, int(k), 1.0, None)


def _check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise InputError(f"backend={backend!r} is not known; choose one of {', '.join(map(repr, BACKENDS))}.")


def _choose(backend: str, population: Population, temperature: float) -> Sampler:
    """The function behind a backend's name; "auto" takes the fastest that can do it."""
    x_hat, points = population.x_hat, population.points
    if backend == "torch" or (backend == "auto" and (x_hat.device.type != "cpu" or len(points) < TREE_PAYS)):
        return blocked_top_k
    if backend == "keops":
        try:
            from latentgraph.sampling.lazy import keops_top_k
        except ImportError:
            raise InputError(
                'backend="keops" needs pykeops. Install it with: pip install "latentgraph[keops]"'
            ) from None
        return keops_top_k
    try:
        from latentgraph.sampling.tree import supports, tree_top_k
    except ImportError:
        if backend == "auto":
            return blocked_top_k
        raise InputError('backend="tree" needs numba. Install it with: pip install numba') from None
    if supports(population, temperature):
        return tree_top_k
    if backend == "auto":
        return blocked_top_k
    raise InputError(
        f'backend="tree" has no bounds for {population.geometry!r} with temperature={temperature:.3g} and coordinates '
        f'up to {float(max(x_hat.abs().max(), points.abs().max())):.3g}. Use backend="torch" or "auto".'
    )
