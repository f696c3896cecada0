"""What one would try before learning a graph: a graph convolution on the nearest neighbours of the features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from latentgraph.graph import neighbors_to_edges
from latentgraph.model import DGMNet
from latentgraph.sampling import nearest
from latentgraph.stacks import gcn
from latentgraph.training import NodeSet, fit

Array = NDArray[Any]


class KnnGCN:
    """Two graph convolutions on the graph of the 10 nearest rows; -1 marks unknown labels, new rows join the graph."""

    def __init__(self, seed: int, *, k: int = 10, hidden: int = 64, held_back: float = 0.15) -> None:
        self.seed, self.k, self.hidden, self.held_back = seed, k, hidden, held_back

    def fit(self, x: Array, y: Array) -> Self:
        self._scaler = StandardScaler().fit(x)
        self._x = self._features(x)
        self._edges = neighbors_to_edges(nearest(self._x, min(self.k, len(x) - 1)))
        known = torch.as_tensor(y >= 0)
        stop = known & (torch.rand(len(y), generator=torch.Generator().manual_seed(self.seed)) < self.held_back)
        enough = int(known.sum()) >= 200 and bool(stop.any())
        labels = torch.as_tensor(y)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._net = DGMNet([(None, gcn([x.shape[1], self.hidden, int(y.max()) + 1], dropout=0.5))])
        fit(
            self._net,
            NodeSet(self._x, labels, known & ~stop if enough else known, self._edges),
            validation=NodeSet(self._x, labels, stop, self._edges) if enough else None,
            steps=200,
            lr=1e-2,
            weight_decay=5e-4,
            patience=50,
            seed=self.seed,
        )
        return self

    @torch.no_grad()
    def predict(self, x: Array) -> Array:
        new = self._features(x)
        near = nearest(new, min(self.k, len(self._x)), candidates=self._x)
        source, target = neighbors_to_edges(near)
        edges = torch.cat([self._edges, torch.stack([source, target + len(self._x)])], 1)
        out, _ = self._net(torch.cat([self._x, new]), edges)
        found: Array = out[len(self._x) :].argmax(1).numpy()
        return found

    def _features(self, x: Array) -> Tensor:
        return torch.as_tensor(np.clip(self._scaler.transform(x), -20, 20), dtype=torch.float32)
