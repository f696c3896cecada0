"""What scikit-learn asks of every estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from latentgraph.estimators import DGMClassifier, DGMRegressor

WEIGHT = (
    "A row of weight zero stays in the graph, and a repeated row is a neighbour of its copies: neither is the same as "
    "a weight in the loss."
)
UNKNOWN = "-1 marks an unknown class, as in scikit-learn's semi-supervised classifiers, which this check knows by name."


def expected_failures(estimator: Any) -> dict[str, str]:
    return {
        "check_classifiers_classes": UNKNOWN,
        "check_sample_weight_equivalence_on_dense_data": WEIGHT,
    }


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [DGMClassifier(steps=30, samples=2, random_state=0), DGMRegressor(steps=30, samples=2, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
