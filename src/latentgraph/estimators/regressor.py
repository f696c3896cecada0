"""`DGMRegressor`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

from latentgraph.errors import InputError
from latentgraph.estimators.base import Array, DGMEstimator
from latentgraph.input_graph import InputGraph
from latentgraph.training import regression


class DGMRegressor(RegressorMixin, DGMEstimator):  # type: ignore[misc]
    """Regress on rows by a graph between them that is learned along; NaN marks an unknown target.

    Parameters and attributes as in `DGMClassifier`; `transduction_` holds the predicted value of each row of `fit`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> x, y = load_diabetes(return_X_y=True)
    >>> DGMRegressor(random_state=0, steps=50).fit(x, y).score(x, y) > 0.4
    True
    """

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        edge_index: InputGraph = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the rows X (n, features) whose target y is not NaN; see `DGMClassifier.fit`."""
        x = validate_data(self, X, dtype=np.float64, order="C")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        values = _targets(y, len(x))
        known = ~np.isnan(values)
        if not known.any():
            raise InputError("all targets are NaN, which means unknown; at least one row needs a value.")
        with np.errstate(over="ignore", invalid="ignore"):
            self._centre, self._scale = float(values[known].mean()), float(values[known].std()) or 1.0
        if not np.isfinite(self._scale):
            raise InputError("the targets are too large to be squared; give them in another unit.")
        weight = None
        if sample_weight is not None:
            found = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
            if not found[known].sum() > 0:
                raise InputError("the weights of the labelled rows add up to zero; at least one must be positive.")
            weight = torch.as_tensor(found, dtype=torch.float32)
        target = torch.as_tensor((values - self._centre) / self._scale, dtype=torch.float32)
        self._fit(x, target, 1, regression(), weight, edge_index)
        self._conclude()
        return self

    def _about(self) -> dict[str, Any]:
        return {"centre": self._centre, "scale": self._scale}

    def _restore(self, about: dict[str, Any]) -> None:
        self._centre, self._scale = about["centre"], about["scale"]
        self._conclude()

    def _conclude(self) -> None:
        self.transduction_ = self._mean_of_population[:, 0] * self._scale + self._centre

    def predict(self, X: ArrayLike) -> Array:
        """Value of each new row."""
        check_is_fitted(self)
        return self._mean(X, nn.Identity())[:, 0] * self._scale + self._centre


def _targets(y: ArrayLike, rows: int) -> Array:
    found = column_or_1d(y, warn=True)
    found = np.asarray(found, dtype=np.float64)
    if np.isinf(found).any():
        raise ValueError("Input y contains infinity; NaN marks an unknown target.")
    check_consistent_length(found, np.empty(rows))
    return found
