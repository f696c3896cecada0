"""Point sets on which samplers behave differently, each with the temperature at which it is sampled."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from latentgraph.errors import InputError

NAMES = ("gaussian", "clustered", "flat", "untrained", "duplicates", "low dimension", "scaled")


def points(name: str, n: int, d: int, seed: int = 0) -> tuple[Tensor, float]:
    """(n, d) points and a temperature.

    gaussian: nothing special. clustered: seven tight clusters. flat: so low a temperature that all neighbours are about
    equally probable. untrained: t = 1, where neither the distance nor the noise decides alone. duplicates: every point
    100 times. low dimension: a curved sheet of dimension 3 in d dimensions. scaled: gaussian, at a temperature that
    falls as 1 / d, so that distances weigh the same in any dimension.
    """
    if name not in NAMES:
        raise InputError(f"there are no {name!r} points; there are: {', '.join(NAMES)}.")
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator)
    if name == "clustered":
        centre = torch.randn(7, d, generator=generator)
        x = centre[torch.randint(7, (n,), generator=generator)] + 0.05 * x
    elif name == "duplicates":
        x = x[torch.arange(n) % max(n // 100, 1)]
    elif name == "low dimension":
        sheet = torch.randn(n, 3, generator=generator) @ torch.randn(3, d, generator=generator) / math.sqrt(3)
        x = sheet.tanh() + 0.01 * x
    logarithm = {"flat": -5.0, "untrained": 0.0, "scaled": 4.0 - math.log(d / 4)}.get(name, 4.0)
    return x, math.exp(logarithm)
