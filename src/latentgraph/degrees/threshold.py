"""As many neighbours as are probable enough."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from latentgraph.degrees.degrees import Degrees
from latentgraph.errors import InputError
from latentgraph.gradients.candidates import exponential
from latentgraph.gradients.implicit import perturbed
from latentgraph.graph import LatentGraph
from latentgraph.probability import log_rest


class Threshold(Degrees):
    r"""Node i keeps those of its k sampled nodes with :math:`\log p_{ij} + G_{ij} > T`.

    Where fewer than k get so far, each edge is there with the chance :math:`1 - \exp(-p_{ij} e^{-T})`, independently of
    the others; of more, the first k are taken (`latentgraph.deadline` has the law). So a node in a crowd has many
    neighbours and a lonely one few, or none. Without noise (`DiscreteDGM(noise=False)`) it keeps those with
    :math:`\log p_{ij} > T`: all within a distance, up to the k nearest.

    The samplers keep no noise; the values are drawn here, from their law given who was sampled. That needs
    :math:`\sum_j p_{ij}`, and with it a pass over all pairs of nodes.

    Parameters
    ----------
    value : initial T, learnable. None sets it at the first call
    mean : to such a value that this many get over the threshold on average, default k / 2

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> dgm = DiscreteDGM(nn.Identity(), k=4, temperature=1.0, degrees=Threshold(-2.0))
    >>> dgm(torch.tensor([[0.0], [0.1], [0.2], [0.3], [9.0]])).degrees[-1]  # too far from all
    tensor(0)
    """

    def __init__(self, value: float | None = None, *, mean: float | None = None) -> None:
        super().__init__()
        if value is not None and (mean is not None or not math.isfinite(value)):
            raise InputError(f"value={value}, mean={mean}; give a finite value, or a mean from which it is set.")
        if mean is not None and not mean > 0:
            raise InputError(f"mean={mean}; it must be positive: how many neighbours a node is to have.")
        self.mean = mean
        self.value = nn.Parameter(torch.tensor(0.0 if value is None else float(value)))
        self.calibrated: Tensor
        self.register_buffer("calibrated", torch.tensor(value is not None))

    def forward(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        assert graph.neighbors is not None
        assert graph.log_p is not None
        self._calibrate(graph, guests)
        log_p = graph.log_p.detach().view(graph.neighbors.shape).double()
        if graph.sampled:
            n, k = graph.neighbors.shape
            places = torch.arange(k + 1, device=log_p.device).expand(n, -1)
            noise = exponential(places, guests=guests, keys=keys, generator=generator)
            # All others count as one candidate more, who has not arrived yet.
            rates = torch.cat([log_p, _rest(graph, guests).double()[:, None]], dim=1)
            log_p = perturbed(rates, k, noise)[:, :k]
        return replace(graph.keep(log_p > self.value.detach()), cutoff=self.value)

    @torch.no_grad()
    def _calibrate(self, graph: LatentGraph, guests: int) -> None:
        if self.calibrated:
            return
        from latentgraph.layers import sampled_distances

        assert graph.neighbors is not None
        residents = graph.x_hat[: graph.num_nodes - guests]
        sq_dist, share = sampled_distances(residents, graph.geometry, graph.batch)
        wanted = graph.neighbors.shape[1] / 2 if self.mean is None else self.mean
        self.value.fill_(_threshold_for(-graph.temperature.double() * sq_dist, wanted * share))
        self.calibrated.fill_(True)

    def extra_repr(self) -> str:
        return f"value={self.value.item():.4g}"


@torch.no_grad()
def _rest(graph: LatentGraph, guests: int) -> Tensor:
    """(n,) log of the sum of p over the candidates that a node has not sampled."""
    assert graph.neighbors is not None
    x_hat, t, geometry = graph.x_hat.detach(), graph.temperature.detach(), graph.geometry
    own = graph.num_nodes - guests
    rest = log_rest(x_hat[:own], graph.neighbors[:own], t, geometry, loop=graph.loop, batch=graph.batch)
    if not guests:
        return rest
    theirs = log_rest(x_hat, graph.neighbors[own:], t, geometry, loop=True, first_row=own, among=own)
    return torch.cat([rest, theirs])


def _threshold_for(log_p: Tensor, count: float) -> float:
    """The T at which so many of a row (r, m) are in time on average. Their number falls from all to none with T."""
    count = min(count, 0.9 * log_p.shape[1])
    low, high = float(log_p.min()) - 10.0, 50.0
    for _ in range(50):
        middle = (low + high) / 2
        found = -torch.expm1(-(log_p - middle).exp()).sum(1).mean()
        low, high = (middle, high) if float(found) > count else (low, middle)
    return middle
