"""Numbers of neighbours that are given, or drawn from a given law."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from latentgraph.degrees.degrees import Degrees, first_arrivals
from latentgraph.errors import InputError
from latentgraph.gradients.candidates import exponential
from latentgraph.graph import LatentGraph


class GivenDegrees(Degrees):
    r"""Node i keeps the first :math:`k_i` of the nodes that it sampled: k_i draws without replacement.

    Parameters
    ----------
    degrees : (n,) whole numbers from 0 to k

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> dgm = DiscreteDGM(torch.nn.Identity(), k=3, degrees=GivenDegrees([3, 1, 0, 2, 2]))
    >>> dgm(torch.randn(5, 2)).degrees
    tensor([3, 1, 0, 2, 2])
    """

    def __init__(self, degrees: Tensor | Sequence[int]) -> None:
        super().__init__()
        degrees = torch.as_tensor(degrees)
        if degrees.ndim != 1 or not len(degrees) or degrees.is_floating_point() or int(degrees.min()) < 0:
            raise InputError(
                f"degrees is a {degrees.dtype} tensor of shape {tuple(degrees.shape)}; it must hold one whole number "
                "for each node, 0 or more."
            )
        self.degrees: Tensor
        self.register_buffer("degrees", degrees.long())

    def forward(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        if graph.num_nodes != len(self.degrees):
            raise InputError(
                f"there are degrees for {len(self.degrees)} nodes, but the graph has {graph.num_nodes}. For nodes that "
                "change, or join later, use a law: RandomDegrees."
            )
        _check_most(int(self.degrees.max()), graph)
        return first_arrivals(graph, self.degrees)


class RandomDegrees(Degrees):
    r"""Each node draws how many of its k sampled nodes it keeps: d with the chance :math:`\pi_d`.

    The number is drawn anew for every sampled graph, and does not depend on the embedding.

    Parameters
    ----------
    chances : (most + 1,) the chances :math:`\pi_0, \pi_1, \dots` of 0, 1, ... neighbours; they are divided by their sum

    Examples
    --------
    >>> RandomDegrees([0.0, 1.0, 1.0]).mean
    1.5
    >>> RandomDegrees.power_law(mean=3.0, most=20)
    RandomDegrees(mean=3, most=20)
    """

    def __init__(self, chances: Tensor | Sequence[float]) -> None:
        super().__init__()
        chances = torch.as_tensor(chances, dtype=torch.float64)
        total = float(chances.sum())
        if chances.ndim != 1 or not (chances >= 0).all() or not 0 < total < float("inf"):
            raise InputError(
                f"chances={chances.tolist()}; they must be numbers for 0, 1, 2, ... neighbours, none of them negative, "
                "at least one positive."
            )
        self.chances: Tensor
        self.register_buffer("chances", chances / total)

    @classmethod
    def power_law(cls, mean: float, most: int) -> RandomDegrees:
        r""":math:`\pi_d \propto d^{-\gamma}` for d = 1 ... most, with the exponent that gives this mean."""
        if not 1 < mean <= (most + 1) / 2:
            raise InputError(
                f"mean={mean}: the mean of a power law on 1 to {most} is more than 1, and at most {(most + 1) / 2}. "
                "Raise most, or choose a mean between."
            )
        number = torch.arange(1, most + 1, dtype=torch.float64)
        low, high = 0.0, 64.0  # the mean falls with the exponent
        for _ in range(60):
            gamma = (low + high) / 2
            chances = (-gamma * number.log()).softmax(0)
            low, high = (gamma, high) if float(chances @ number) > mean else (low, gamma)
        return cls(torch.nn.functional.pad(chances, (1, 0)))

    @property
    def mean(self) -> float:
        """The expected number of neighbours."""
        return float(self.chances @ torch.arange(len(self.chances)).to(self.chances))

    def forward(
        self,
        graph: LatentGraph,
        *,
        guests: int = 0,
        keys: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LatentGraph:
        most = len(self.chances) - 1
        _check_most(most, graph)
        one_each = torch.zeros(graph.num_nodes, 1, dtype=torch.long, device=graph.x_hat.device)
        noise = exponential(one_each, guests=guests, keys=keys, generator=generator)
        uniform = -(-noise[:, 0]).expm1()
        drawn = torch.searchsorted(self.chances.double().cumsum(0), uniform, right=True).clamp_max(most)
        return first_arrivals(graph, drawn)

    def extra_repr(self) -> str:
        return f"mean={self.mean:.3g}, most={len(self.chances) - 1}"


def _check_most(most: int, graph: LatentGraph) -> None:
    assert graph.neighbors is not None
    k = graph.neighbors.shape[1]
    if most > k:
        raise InputError(f"a node may have {most} neighbours, but only k={k} are sampled. Pass k={most} or more.")
