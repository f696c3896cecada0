"""Point clouds: many in one call, and how they are varied in training.

Every function that draws takes a `torch.Generator`, and none changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.training import NodeSet


class Cloud(NamedTuple):
    """Points (n, 3) of one thing, the number of the part (n,) that each belongs to, and what kind of thing it is."""

    points: Tensor
    part: Tensor
    category: int


def together(clouds: Sequence[Cloud]) -> NodeSet:
    """Clouds of any sizes as one node set: points below each other, `batch` says whose they are.

    >>> nodes = together([Cloud(torch.zeros(n, 3), torch.zeros(n, dtype=torch.long), n) for n in (2, 3)])
    >>> nodes.batch, nodes.category
    (tensor([0, 0, 1, 1, 1]), tensor([2, 3]))
    """
    if not clouds:
        raise InputError("there is no cloud to put together; at least one is needed.")
    sizes = torch.tensor([len(cloud.points) for cloud in clouds])
    return NodeSet(
        torch.cat([cloud.points for cloud in clouds]),
        torch.cat([cloud.part for cloud in clouds]),
        batch=torch.arange(len(clouds)).repeat_interleave(sizes),
        category=torch.tensor([cloud.category for cloud in clouds]),
    )


def in_portions(clouds: Sequence[Cloud], size: int) -> list[NodeSet]:
    """The clouds in order, `size` of them in each node set: to evaluate more than fit into memory."""
    return [together(clouds[start : start + size]) for start in range(0, len(clouds), size)]


def random_batches(
    clouds: Sequence[Cloud], size: int, vary: Callable[[Cloud, torch.Generator], Cloud] | None = None
) -> Callable[[int, torch.Generator], NodeSet]:
    """For `training.fit`: in every step `size` other clouds, each changed by `vary`."""
    if not 1 <= size <= len(clouds):
        raise InputError(f"size={size} clouds in a batch but there are {len(clouds)}; choose 1 to {len(clouds)}.")

    def batch(step: int, generator: torch.Generator) -> NodeSet:
        chosen = [clouds[i] for i in torch.randperm(len(clouds), generator=generator)[:size].tolist()]
        return together(chosen if vary is None else [vary(cloud, generator) for cloud in chosen])

    return batch


def some_points(cloud: Cloud, count: int, generator: torch.Generator | None = None) -> Cloud:
    """`count` points drawn without putting back, in random order; all of them if there are not more."""
    chosen = torch.randperm(len(cloud.points), generator=generator)[:count]
    return cloud._replace(points=cloud.points[chosen], part=cloud.part[chosen])


def in_unit_sphere(points: Tensor) -> Tensor:
    """Centred on the mean and scaled so that the farthest point has norm one; a single place stays at zero.

    >>> in_unit_sphere(torch.tensor([[1.0, 0.0, 0.0], [5.0, 0.0, 0.0]]))
    tensor([[-1.,  0.,  0.],
            [ 1.,  0.,  0.]])
    """
    centred = points - points.mean(0)
    return centred / centred.norm(dim=1).max().clamp_min(torch.finfo(points.dtype).tiny)


def stretched(points: Tensor, generator: torch.Generator | None = None, *, most: float = 1.5) -> Tensor:
    """Each axis scaled by a factor of its own, uniform between 1 / `most` and `most`."""
    factor = 1 / most + (most - 1 / most) * torch.rand(points.shape[1], generator=generator)
    return points * factor.to(points)


def shifted(points: Tensor, generator: torch.Generator | None = None, *, most: float = 0.2) -> Tensor:
    """All points moved by the same amount, uniform between -`most` and `most` on each axis."""
    return points + (most * (2 * torch.rand(points.shape[1], generator=generator) - 1)).to(points)


def jittered(
    points: Tensor, generator: torch.Generator | None = None, *, deviation: float = 0.01, most: float = 0.05
) -> Tensor:
    """Each coordinate moved by normal noise, cut off at `most`."""
    noise = deviation * torch.randn(points.shape, generator=generator)
    return points + noise.clamp(-most, most).to(points)


def augmented(cloud: Cloud, generator: torch.Generator | None = None) -> Cloud:
    """Stretched, shifted and jittered, as is usual for segmentation."""
    points = stretched(cloud.points, generator)
    return cloud._replace(points=jittered(shifted(points, generator), generator))
