"""What a method sees of a zero-shot problem: the classifiers that it is to predict are not in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from latentgraph.errors import InputError
from latentgraph.training import NodeSet


@dataclass(frozen=True)
class Classes:
    """Classes in the order: `learn` to learn from, `stop` to choose by, `wanted` to predict, then all others.

    Attributes
    ----------
    x : (n, d) word vectors
    parent_edges : (2, e) child above parent in the knowledge graph
    rows : (learn + stop, c) classifiers, those of the wanted classes being unknown
    images : (stop, c) features of an image of each class to choose by
    learn, stop, wanted : how many there are of each
    num_candidates : the first so many of the n are nodes of a learned graph; the others are known to the knowledge
        graph alone

    Examples
    --------
    >>> classes = Classes(torch.randn(6, 4), torch.tensor([[0, 1, 2, 3], [4, 4, 5, 5]]), torch.randn(3, 7),
    ...     torch.randn(1, 7), learn=2, stop=1, wanted=1)
    >>> classes.targets, classes.num_candidates
    (4, 6)
    """

    x: Tensor
    parent_edges: Tensor
    rows: Tensor
    images: Tensor
    learn: int
    stop: int
    wanted: int
    num_candidates: int = -1

    def __post_init__(self) -> None:
        if len(self.rows) != self.learn + self.stop or len(self.images) != self.stop:
            raise InputError(
                f"{len(self.rows)} rows and {len(self.images)} images came for {self.learn} classes to learn from and "
                f"{self.stop} to choose by; there must be a row for each of both, and an image for each of the latter."
            )
        if self.num_candidates == -1:
            object.__setattr__(self, "num_candidates", len(self.x))
        if not self.targets <= self.num_candidates <= len(self.x):
            raise InputError(
                f"num_candidates={self.num_candidates}; it must be {self.targets} (all classes that matter) to "
                f"{len(self.x)} (all there are)."
            )

    @property
    def targets(self) -> int:
        """How many classes have a classifier, known or not: the first nodes."""
        return self.learn + self.stop + self.wanted

    @property
    def length(self) -> Tensor:
        """0-d: mean norm of the known classifiers."""
        return self.rows[: self.learn].norm(dim=1).mean()

    def node_set(self, nodes: Tensor | None = None, *, stop: bool = False) -> NodeSet:
        """These nodes (all that are candidates by default; the targets must come first) for `training.fit`.

        The target of a class is its own number: the loss looks up its row.
        """
        if nodes is None:
            nodes = torch.arange(self.num_candidates)
        y = torch.full((len(nodes),), -1)
        first, last = (self.learn, self.learn + self.stop) if stop else (0, self.learn)
        y[first:last] = torch.arange(first, last)
        return NodeSet(self.x.index_select(0, nodes), y, node_id=nodes)


def subsample(classes: Classes, size: int, generator: torch.Generator) -> Tensor:
    """(size,) nodes: all classes with a classifier, known or wanted, in their order, and others at random.

    The paper's mini-batch: of 21K classes, 7K that contain all to learn from.
    """
    if not classes.targets <= size:
        raise InputError(f"size={size} but {classes.targets} classes are always kept; choose at least as many.")
    others = torch.randperm(classes.num_candidates - classes.targets, generator=generator)[: size - classes.targets]
    return torch.cat([torch.arange(classes.targets), classes.targets + others])


def arrange(
    x: Tensor,
    parent_edges: Tensor,
    rows: Tensor,
    images: Tensor,
    *,
    stop: int,
    wanted: int,
    seed: int,
    num_candidates: int = -1,
) -> tuple[Classes, Tensor]:
    """Hide the classifiers of `wanted` random classes of those with one, the first m = len(rows) nodes.

    Returns
    -------
    the problem, and (m,) which class is where in it: entry i is the old number of the new node i
    """
    m, n = len(rows), len(x)
    if not 0 < stop + wanted < m:
        raise InputError(f"stop={stop}, wanted={wanted}, but there are {m} classifiers: leave some to learn from.")
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    place = torch.arange(n)
    place[order] = torch.arange(m)  # old number -> new number; beyond m nothing moves
    learn = m - stop - wanted
    known, chosen = order[: learn + stop], order[learn : learn + stop]
    x = torch.cat([x.index_select(0, order), x[m:]])
    return Classes(x, place[parent_edges], rows[known], images[chosen], learn, stop, wanted, num_candidates), order


class ZeroShotMethod(ABC):
    """Learns from a problem and predicts the classifiers of all its targets."""

    @abstractmethod
    def fit(self, classes: Classes) -> Self: ...

    @abstractmethod
    def predict(self, classes: Classes) -> Tensor:
        """(targets, c) classifiers, those of the wanted classes last."""
