"""TADPOLE: 564 patients, three diagnoses, ten folds; the subset that the paper's experiments use.

A pickle of five arrays whose last axis is the fold. Each fold has its own 30 features (selected and scaled per fold,
and stored twice). Column 0 nearly defines the diagnosis: see the results page before you believe an accuracy.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, NamedTuple

import numpy as np

from latentgraph.datasets.root import data_file
from latentgraph.errors import InputError

NAME = "tadpole/tadpole_data.pickle"
HOW_TO_GET = (
    f"Ask for access to the TADPOLE challenge data at the Alzheimer's Disease Neuroimaging Initiative and put the "
    f"prepared file at {NAME} below your data folder."
)
NUM_FOLDS = 10
SAME = 0.9  # columns with a larger correlation are taken for copies of each other


class Fold(NamedTuple):
    """Features (564, 30), classes (564,), and the rows of the two parts."""

    x: np.ndarray[Any, np.dtype[np.float64]]
    y: np.ndarray[Any, np.dtype[np.int64]]
    train: np.ndarray[Any, np.dtype[np.int64]]
    test: np.ndarray[Any, np.dtype[np.int64]]

    def without_scores(self) -> Fold:
        """The fold without column 0, which nearly is the diagnosis, and without its copy; 28 columns are left."""
        return self._replace(x=np.delete(self.x, score_columns(self.x[self.train]), axis=1))


def tadpole(fold: int, root: str | os.PathLike[str] | None = None) -> Fold:
    """One of the ten folds, 0 to 9. The duplicate half of the columns is left out."""
    if fold not in range(NUM_FOLDS):
        raise InputError(f"fold={fold} but TADPOLE has folds 0 to {NUM_FOLDS - 1}.")
    path = data_file(NAME, root, HOW_TO_GET)
    with path.open("rb") as file:
        x, y, train, test, _ = _ArraysOnly(file).load()
    features = x[:, : x.shape[1] // 2, fold]
    return Fold(
        np.ascontiguousarray(features),
        y[:, :, fold].argmax(1),
        train[:, fold].nonzero()[0],
        test[:, fold].nonzero()[0],
    )


def score_columns(x: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Column 0 and what is nearly the same, by the correlation over these rows (n, d); no class is looked at.

    The copy (column 3 or 4, with the fold) has r = 0.998. The next ones have 0.82: other scores, that stay.
    """
    return np.flatnonzero(np.abs(np.corrcoef(x.T)[0]) > SAME)


class _ArraysOnly(pickle.Unpickler):
    """Refuses everything in a pickle but numpy arrays: a pickle may name any function to be called."""

    ALLOWED = frozenset(
        (module, name)
        for package in ("numpy.core", "numpy._core")
        for module, name in ((f"{package}.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"))
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise InputError(f"the file holds {module}.{name}; only numpy arrays are read from it. Do not trust it.")
        if name == "_reconstruct":  # its module has moved between numpy versions
            return super().find_class("numpy._core.multiarray", name)
        return super().find_class(module, name)
