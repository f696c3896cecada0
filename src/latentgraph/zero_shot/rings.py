"""The knowledge graph as features: what stands around a class beside its own word vector."""

from __future__ import annotations

from dataclasses import replace

import torch

from latentgraph.zero_shot.classes import Classes
from latentgraph.zero_shot.hierarchy import SparseMatrix, neighbourhood, row_normalised


def with_rings(classes: Classes, rings: int) -> Classes:
    """The problem with features [x | P x | P^2 x ...], P the mean over a node, its parents and its children."""
    if not rings:
        return classes
    mean = SparseMatrix(row_normalised(neighbourhood(classes.parent_edges, len(classes.x))))
    features = [classes.x]
    for _ in range(rings):
        features.append(mean(features[-1]))
    return replace(classes, x=torch.cat(features, dim=1))
