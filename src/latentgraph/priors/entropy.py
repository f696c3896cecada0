"""How sure a node is of its neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from latentgraph.blocks import Block
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.priors.law import Law, log_share
from latentgraph.priors.prior import Prior, positive


@dataclass(eq=False)
class Entropy(Prior):
    r"""The entropy of each node's law of neighbours P (`latentgraph.priors.law`).

    .. math:: H_i = -\sum_j P_{ij} \log P_{ij}, \qquad
              L = \pm \frac 1 n \sum_i H_i \qquad \text{or} \qquad L = \frac 1 n \sum_i (H_i - \log \rho)^2

    :math:`e^{H_i}` is the perplexity: among how many candidates a node hesitates, 1 to n - 1.

    Parameters
    ----------
    perplexity : :math:`\rho`, or "low" (+, nodes become sure) or "high" (-)
    rows : so many random nodes, with all their candidates, in every step: an unbiased estimate of L in rows times n
        pairs. None: all

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> x = torch.tensor([[0.0], [0.0], [0.0], [0.0]])  # nobody is nearer than the others
    >>> graph = DiscreteDGM(torch.nn.Identity(), k=1, temperature=1.0)(x)
    >>> round(Entropy("low")(graph, x, x).exp().item(), 3)
    3.0
    """

    perplexity: float | Literal["low", "high"] = "low"
    rows: int | None = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "rows")
        if self.perplexity not in ("low", "high") and not (
            isinstance(self.perplexity, int | float) and 1 <= self.perplexity < float("inf")
        ):
            raise InputError(
                f"perplexity={self.perplexity!r}; it must be 'low', 'high', or the number of candidates that a node is "
                "to hesitate between, at least 1."
            )

    def __call__(
        self, graph: LatentGraph, x: Tensor, out: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        law = Law.of(graph)
        entropy = entropies(law, law.some(self.rows, generator))
        if isinstance(self.perplexity, str):
            return entropy.mean() if self.perplexity == "low" else -entropy.mean()
        return (entropy - math.log(self.perplexity)).square().mean()


def entropies(law: Law, rows: Tensor | None = None) -> Tensor:
    """(rows,) H of some nodes, default all; zero for a node without candidates."""

    def of_rows(log_w: Tensor, gone: Tensor, block: Block) -> Tensor:
        log_p = log_share(log_w, gone)
        return -(log_p.exp() * log_p.masked_fill(gone, 0.0)).sum(1)

    return law.over_rows(of_rows, rows=rows)
