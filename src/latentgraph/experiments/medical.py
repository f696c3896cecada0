"""What the tables about patients have in common: the methods, and the two ways to ask them.

Transductive: everybody is there from the beginning, but the classes of the people to be tested on are not. Inductive:
these people join only after training. In both a part of the training rows is held back, by which the networks stop and
the simple methods choose their strength.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from latentgraph.baselines import simple
from latentgraph.baselines.dgcnn import DGCNN
from latentgraph.baselines.inception_gcn import InceptionGCN
from latentgraph.baselines.knn_gcn import KnnGCN
from latentgraph.baselines.lds import LDS
from latentgraph.baselines.method import Method, Population
from latentgraph.baselines.mlp import MLP
from latentgraph.baselines.multi_gcn import MultiGCN
from latentgraph.baselines.spectral_gcn import SpectralGCN
from latentgraph.experiments.dgm_method import DGM, AsItComes
from latentgraph.presets import medical_net
from latentgraph.stacks import Builder, edge_conv, gcn, mlp

TRANSDUCTIVE, INDUCTIVE = "transductive", "inductive"
SETTINGS = (TRANSDUCTIVE, INDUCTIVE)
HELD_BACK = 0.15  # of the training rows
LEARNED = ("cDGM", "dDGM")
BEST = "GC + EC"  # f + g of the second graph module and of the diffusion, the paper's choice in all other tables

Array = NDArray[Any]
Make = Callable[[int, int], Method]  # (seed, steps) -> method


def architecture(kind: str, words: str) -> Callable[[int, int], Any]:
    """The paper's network for "cDGM" or "dDGM" with f + g such as "MLP + GC", as a function of its two sizes."""
    f, g = words.split(" + ")
    continuous = kind == "cDGM"
    # over a continuous graph an edge convolution takes the mean: see medical_net
    edges: Builder = partial(edge_conv, aggr="mean") if continuous else edge_conv
    embed, diffuse = {"MLP": mlp, "GC": gcn}[f], {"GC": gcn, "EC": edges}[g]
    return partial(medical_net, continuous=continuous, f=embed, g=diffuse)


def learned(kind: str, words: str = BEST) -> Make:
    build = architecture(kind, words)
    return lambda seed, steps: DGM(build, seed, steps=steps)


SIMPLE: dict[str, Make] = {
    "linear classifier": lambda seed, steps: simple.linear_classifier(),
    "logistic regression": lambda seed, steps: simple.logistic_regression(strengths=simple.STRENGTHS),
    "random forest": lambda seed, steps: simple.random_forest(seed),
}
NETWORKS: dict[str, Make] = {
    "MLP": lambda seed, steps: MLP(seed, steps=steps),
    "kNN-GCN": lambda seed, steps: KnnGCN(seed, steps=steps),
    "Spectral-GCN": lambda seed, steps: SpectralGCN(seed, steps=steps),
    "Multi-GCN": lambda seed, steps: MultiGCN(seed, steps=steps),
    "InceptionGCN": lambda seed, steps: InceptionGCN(seed, steps=steps),
    "DGCNN": lambda seed, steps: DGCNN(seed, steps=steps),
    "LDS": lambda seed, steps: LDS(seed, steps=steps),
    **{kind: learned(kind) for kind in LEARNED},
    "DGMClassifier": lambda seed, steps: AsItComes(seed, steps=steps),
}


def population(
    x: Array, y: Array, train: Array, num_classes: int, *, seed: int, meta: Mapping[str, Array] | None = None
) -> Population:
    """The rows x (n, d) with the classes of the rows `train` alone, of which 15 % are to stop by, of each class."""
    known = np.full(len(x), -1)
    known[train] = y[train]
    _, held_back = train_test_split(train, test_size=HELD_BACK, stratify=known[train], random_state=seed)
    stop = np.isin(np.arange(len(x)), held_back)
    rows = torch.tensor(x, dtype=torch.float32)
    return Population(rows, torch.tensor(known), num_classes, torch.tensor(stop), meta=meta or {})


def answers(method: Method, population: Population, setting: str) -> Array:
    """(n,) the class of every row, after training with all rows or with those alone whose class is known."""
    seen = population.select(population.known.nonzero()[:, 0]) if setting == INDUCTIVE else population
    return method.fit(seen).predict(population).numpy()
