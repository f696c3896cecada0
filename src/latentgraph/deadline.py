r"""The law of neighbours that arrive before a deadline.

:math:`\log p_{ij} + G_{ij} > T` with Gumbel noise G says that j arrives before the time :math:`s = e^{-T}`, if its
arrival :math:`e^{-(\log p_{ij} + G_{ij})}` is exponential with the rate :math:`p_{ij}`. Each j does so with the chance
:math:`1 - e^{-p_{ij} s}`, independently of the others. Node i has those who are in time as its neighbours, but no more
than the first k of them. So a set S of them has the chance

.. math:: P(S) = e^{-Q s} F(s) + [\,|S| = k\,] \int_0^s Q e^{-Q \tau} F(\tau) \, d\tau, \qquad
          F(\tau) = \prod_{j \in S} (1 - e^{-p_{ij} \tau}), \quad Q = \sum_{j \notin S} p_{ij}

All of S are there at the time s and nobody else; or S is full, and was so when, at the time :math:`\tau`, another one
came first.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from latentgraph.graph import LatentGraph
from latentgraph.probability import log_p_of_neighbors, log_rest

NODES = 96  # of the integral, in the logarithm of the time
TAIL = 20.0  # below e^-20 of the time where it is largest, the integrand is less than e^-20 of that


def deadline_log_likelihood(graph: LatentGraph) -> Tensor:
    """Exact log-likelihood of the neighbours of each node, in no order: (n,).

    `graph` has `kept` and a `cutoff` T. Differentiable in the embedding, the temperature and T. It goes through all
    pairs of nodes, in blocks.
    """
    assert graph.neighbors is not None
    assert graph.kept is not None
    assert graph.cutoff is not None
    x_hat, t, geometry = graph.x_hat, graph.temperature, graph.geometry
    rest = log_rest(x_hat, graph.neighbors, t, geometry, loop=graph.loop, batch=graph.batch)
    log_p = log_p_of_neighbors(x_hat, graph.neighbors, t, geometry)
    return log_chance(log_p, graph.kept, rest, graph.cutoff).to(log_p.dtype)


def log_chance(log_p: Tensor, kept: Tensor, rest: Tensor, cutoff: Tensor) -> Tensor:
    r""":math:`\log P(S)` of each row, in double precision: (n,).

    Parameters
    ----------
    log_p : (n, k) of the neighbours
    kept : (n, k) bool, which of them are S
    rest : (n,) :math:`\log \sum p_{ij}` of the candidates that are not among these k
    cutoff : 0-d, T
    """
    log_p, rest, log_s = log_p.double(), rest.double(), -cutoff.double()
    left_out = torch.cat([log_p.masked_fill(kept, -torch.inf), rest[:, None]], dim=1)
    nobody = left_out.isneginf().all(1)
    log_q = left_out.masked_fill(nobody[:, None], 0.0).logsumexp(1).masked_fill(nobody, -torch.inf)
    in_time = (log_arrived(log_p + log_s) * kept).sum(1) - (log_q + log_s).exp()
    full = (kept.all(1) & ~nobody).nonzero()[:, 0]
    if not len(full):
        return in_time
    late = _log_integral(log_p.index_select(0, full), log_q.index_select(0, full), log_s)
    return in_time.index_copy(0, full, torch.logaddexp(in_time.index_select(0, full), late))


def log_arrived(u: Tensor) -> Tensor:
    r""":math:`\log(1 - e^{-e^u})`: of the chance that somebody of rate p is there at the time s, u = log p + log s."""
    # Below -20 it is u, but for 1e-9; above 6 it is 0, but for e^-400.
    return torch.where(u < -20.0, u, torch.log(-torch.expm1(-u.clamp(-20.0, 6.0).exp())))


def _log_integral(log_p: Tensor, log_q: Tensor, log_s: Tensor) -> Tensor:
    r""":math:`\log \int_0^s Q e^{-Q \tau} \prod_j (1 - e^{-p_j \tau}) \, d\tau`: (m, k), (m,), 0-d -> (m,).

    With x = log tau the logarithm of the integrand is concave, rises at least as x while Q tau is small, and falls at
    once when it is large: an interval of about 24 holds all that counts, on which Gauss-Legendre nodes converge.
    """
    upper = torch.minimum(log_s, 3.7 - log_q)
    lower = torch.minimum(log_s, -log_q) - TAIL
    node, weight = (torch.as_tensor(a).to(log_q) for a in np.polynomial.legendre.leggauss(NODES))
    half = (upper - lower)[:, None] / 2
    x = lower[:, None] + half * (node + 1)
    log_f = x + log_q[:, None] - (x + log_q[:, None]).exp()
    for j in range(log_p.shape[1]):
        log_f = log_f + log_arrived(log_p[:, j, None] + x)
    return (log_f + (weight * half).log()).logsumexp(1)
