"""Molecules and proteins as whole graphs: MUTAG, PROTEINS and ENZYMES of the TU collection.

In the text form in which the graph isomorphism network came: the number of graphs; for each graph a line `n label`;
then for each of its nodes `tag degree neighbour neighbour ...`, nodes counted from 0 in each graph.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph.datasets.root import data_file
from latentgraph.errors import InputError
from latentgraph.graph_sets import GraphSet

NAMES = ("MUTAG", "PROTEINS", "ENZYMES")
HIGHEST_DEGREE = 10  # nodes with more neighbours count as having so many
HOW_TO_GET = "Put MUTAG.txt, PROTEINS.txt and ENZYMES.txt, in the text form of the GIN data sets, into tu/ there."


class Graphs(NamedTuple):
    """Graphs as they are in a file: a tag (n,) for each node, links (2, e), graph numbers (n,), classes (g,)."""

    tag: Tensor
    edge_index: Tensor
    batch: Tensor
    y: Tensor


def tu(name: str, root: str | os.PathLike[str] | None = None) -> GraphSet:
    """One of the three collections; features of a node: its tag, then its degree up to 10, each one-hot."""
    if name not in NAMES:
        raise InputError(f"there is no collection {name!r}; there is: {', '.join(NAMES)}.")
    graphs = read_graphs(data_file(f"tu/{name}.txt", root, HOW_TO_GET))
    degree = graphs.edge_index[1].bincount(minlength=len(graphs.tag)).clamp_max(HIGHEST_DEGREE)
    x = torch.cat([F.one_hot(graphs.tag), F.one_hot(degree, HIGHEST_DEGREE + 1)], dim=1).float()
    return GraphSet(x, graphs.y, edge_index=graphs.edge_index, batch=graphs.batch)


def read_graphs(path: Path) -> Graphs:
    """Read the text form. Tags and classes are numbered anew, from 0, in the order of their names in the file."""
    rows = [[int(word) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    tags: list[int] = []
    sizes: list[int] = []
    labels: list[int] = []
    edges: list[tuple[int, int]] = []
    place = 1
    try:
        for _ in range(rows[0][0]):
            size, label = rows[place]
            first = len(tags)
            for node, (tag, degree, *neighbours) in enumerate(rows[place + 1 : place + 1 + size]):
                if len(neighbours) != degree or not all(0 <= other < size for other in neighbours):
                    raise ValueError
                tags.append(tag)
                edges += [(first + other, first + node) for other in neighbours]
            if size < 1 or len(tags) != first + size:
                raise ValueError
            sizes.append(size)
            labels.append(label)
            place += 1 + size
    except (ValueError, IndexError):
        raise InputError(
            f"graph {len(sizes)} of {path} is not in the expected form: a line `n label`, then n lines "
            "`tag degree neighbours...` with neighbours from 0 to n-1."
        ) from None
    tag = torch.tensor(tags).unique(return_inverse=True)[1]
    y = torch.tensor(labels).unique(return_inverse=True)[1]
    links = torch.tensor(edges, dtype=torch.long).view(-1, 2).T.contiguous()
    return Graphs(tag, links, torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), y)
