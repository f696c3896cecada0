"""What a random forest thinks of each row and of each column, told to the network.

Trees see at once what a network learns slowly from few rows: which columns matter, and thresholds in them. A row with
a label is judged only by trees that were grown without it (out of bag): otherwise the forest would look perfect in
training, and the network would learn to trust nothing else.

The grown trees are kept as arrays, which can be saved without a pickle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

Array = NDArray[Any]

ROWS = 4096  # a tree is grown on at most so many rows
DEPTH = 24  # of a tree; in texts they would be hundreds of words deep
SURE = 0.01  # probabilities below are not told apart
IMPORTANCE = 0.5  # the power to which importances are raised: 0 is all alike, 1 few columns decide
BLOCK = 1 << 18  # pairs of row and tree that are followed at a time


@dataclass(frozen=True)
class Forest:
    """Trees in one line, one after the other.

    Attributes
    ----------
    root : (trees,) first node of each tree
    child : (nodes, 2) where to go if the feature is at most the threshold, and if not; a leaf leads to itself
    feature, threshold : (nodes,) the question of each node
    value : (nodes, c) class probabilities, or one number
    importance : (features,) how much each feature helped to tell targets apart; the sum is 1
    depth : steps from a root to the farthest leaf
    """

    root: Array
    child: Array
    feature: Array
    threshold: Array
    value: Array
    importance: Array
    depth: Array

    @classmethod
    def grow(cls, x: Array, y: Array, known: Array, outputs: int, trees: int, seed: int) -> tuple[Self, Array]:
        """A forest grown on the rows of x whose target y is `known`, and its opinions (n, outputs) of all rows."""
        forest, bags = cls.plant(x, y, known, outputs, trees, seed)
        return forest, forest.out_of_bag(x, bags)

    @classmethod
    def plant(cls, x: Array, y: Array, known: Array, outputs: int, trees: int, seed: int) -> tuple[Self, Array]:
        """The forest, and the rows (trees, bag) that each tree was grown on.

        Rows have no weights here: scikit-learn draws heavy rows into every bag, and then no tree is left to judge them.
        """
        kind = RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier
        model = kind(trees, max_samples=min(int(known.sum()), ROWS), max_depth=DEPTH, random_state=seed)
        model.fit(_single(x[known]), y[known])
        parts = [tree.tree_ for tree in model.estimators_]
        root = np.cumsum([0, *(part.node_count for part in parts[:-1])])
        child = [np.stack([p.children_left, p.children_right], 1) + r for p, r in zip(parts, root, strict=True)]
        leaf = np.concatenate([part.children_left < 0 for part in parts])
        value = np.zeros((len(leaf), outputs))
        value[:, getattr(model, "classes_", [0])] = np.concatenate([part.value[:, 0] for part in parts])
        forest = cls(
            root=root,
            child=np.where(leaf[:, None], np.arange(len(leaf))[:, None], np.concatenate(child)),
            feature=np.concatenate([part.feature for part in parts]).clip(0),
            threshold=np.concatenate([part.threshold for part in parts]),
            value=value,
            importance=model.feature_importances_,
            depth=np.array(max(part.max_depth for part in parts)),
        )
        rows = np.flatnonzero(known)
        return forest, np.stack([rows[sample] for sample in model.estimators_samples_])

    def out_of_bag(self, x: Array, bags: Array, first_row: int = 0) -> Array:
        """(n, c) opinions of rows by the trees that were grown without them; x begins with the row `first_row`."""
        outside = np.ones((len(x), len(bags)), bool)
        for tree, bag in enumerate(bags):
            rows = bag - first_row
            outside[rows[(rows >= 0) & (rows < len(x))], tree] = False
        return self(x, outside)

    def __call__(self, x: Array, asked: Array | None = None) -> Array:
        """(n, c) opinions of rows: the mean of all trees, or of those `asked` (n, trees), of probabilities the log."""
        found = np.empty((len(x), self.value.shape[1]))
        step = max(1, BLOCK // len(self.root))
        for start in range(0, len(x), step):
            rows = slice(start, start + step)
            values = self.value[self._leaves(_single(x[rows]))]
            if asked is None:
                found[rows] = values.mean(1)
            else:
                voices = asked[rows].sum(1)[:, None]
                mean = (values * asked[rows, :, None]).sum(1) / voices.clip(1)
                found[rows] = np.where(voices > 0, mean, self.value[self.root].mean(0))
        return np.log(found.clip(SURE)) if self.value.shape[1] > 1 else found

    def weights(self) -> Array:
        """(features,) factors that make features as large as they are important, with mean square 1.

        Neighbours in a wide table are decided by columns that have nothing to do with the target. These are muted.
        """
        found = self.importance**IMPORTANCE
        size = np.sqrt(np.square(found).mean())
        return found / size if size > 0 else np.ones_like(found)

    def _leaves(self, x: Array) -> Array:
        """(n, trees) where each row ends."""
        node = np.broadcast_to(self.root, (len(x), len(self.root)))
        row = np.arange(len(x))[:, None]
        for _ in range(int(self.depth)):
            node = self.child[node, (x[row, self.feature[node]] > self.threshold[node]).astype(np.intp)]
        return node


def _single(x: Array) -> Array:
    """As scikit-learn's trees see numbers: in single precision, and never infinite."""
    largest = np.finfo(np.float32).max
    return x.clip(-largest, largest).astype(np.float32)
