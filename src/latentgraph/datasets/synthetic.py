"""Problems whose right graph is known: nodes of the same class belong together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Problem(NamedTuple):
    """Features (n, d), classes (n,), and the input graph (2, e) if there is one."""

    x: Tensor
    y: Tensor
    edge_index: Tensor | None


def two_moons(n: int = 400, *, distractors: int = 8, scale: float = 2.0, noise: float = 0.1, seed: int = 0) -> Problem:
    """Two interleaved half circles in two features, hidden among features that mean nothing."""
    from sklearn.datasets import make_moons

    points, y = make_moons(n, noise=noise, random_state=seed)
    return _hidden(points, y, distractors, scale, seed)


def circles(n: int = 400, *, distractors: int = 8, scale: float = 1.0, noise: float = 0.05, seed: int = 0) -> Problem:
    """A circle inside a circle, hidden among features that mean nothing."""
    from sklearn.datasets import make_circles

    points, y = make_circles(n, noise=noise, factor=0.4, random_state=seed)
    return _hidden(points, y, distractors, scale, seed)


def planted_partition(
    n: int = 400,
    *,
    num_classes: int = 4,
    degree: float = 10.0,
    homophily: float = 0.6,
    signal: float = 0.4,
    features: int = 16,
    seed: int = 0,
) -> Problem:
    """Communities with a noisy graph (a share `homophily` of edges inside a class) and weak features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % num_classes
    means = signal * rng.standard_normal((num_classes, features))
    x = means[y] + rng.standard_normal((n, features))
    inside = homophily * degree * num_classes / n
    across = (1 - homophily) * degree * num_classes / (n * (num_classes - 1))
    edge = rng.random((n, n)) < np.where(y[:, None] == y, inside, across)
    upper = np.triu(edge, 1)
    edge_index = np.stack((upper | upper.T).nonzero())
    return Problem(torch.tensor(x, dtype=torch.float32), torch.tensor(y), torch.tensor(edge_index))


def _hidden(points: np.ndarray, y: np.ndarray, distractors: int, scale: float, seed: int) -> Problem:
    """Standardised signal features, then normal features without meaning, `scale` times as spread out."""
    rng = np.random.default_rng(seed)
    points = (points - points.mean(0)) / points.std(0)
    x = np.concatenate([points, scale * rng.standard_normal((len(y), distractors))], axis=1)
    return Problem(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long), None)


class ClassTree(NamedTuple):
    """Classes that form a tree, the m leaves first: word vectors (n, d), edges (2, n - 1) child above parent,
    classifiers (m, c) of the leaves, and features (m, c) of an image of each."""

    x: Tensor
    parent_edges: Tensor
    rows: Tensor
    images: Tensor


def class_tree(
    branching: int = 4, depth: int = 3, *, features: int = 16, row_features: int = 24, noise: float = 0.5, seed: int = 0
) -> ClassTree:
    """A zero-shot problem: what a class is differs a little from its parent, and its word and classifier tell of it.

    The words are noisy, so that the mean over a class and those around it tells more than its own word.
    """
    rng = np.random.default_rng(seed)
    sizes = [branching**level for level in range(depth, -1, -1)]  # leaves first, the root last
    start = np.concatenate([[0], np.cumsum(sizes)])
    child = np.arange(start[-2])
    level = np.searchsorted(start, child, side="right") - 1
    parent = start[level + 1] + (child - start[level]) // branching
    meaning = np.zeros((start[-1], features))
    for node in child[::-1]:  # parents before children
        meaning[node] = meaning[parent[node]] + rng.standard_normal(features)
    x = meaning + noise * rng.standard_normal(meaning.shape)
    rows = meaning[: sizes[0]] @ rng.standard_normal((features, row_features)) / np.sqrt(features)
    images = rows + noise * rng.standard_normal(rows.shape)
    edges = torch.as_tensor(np.stack([child, parent]))
    return ClassTree(_single(x), edges, _single(rows), _single(images))


def _single(array: np.ndarray) -> Tensor:
    return torch.as_tensor(array, dtype=torch.float32)
