"""scikit-learn estimators: a table and a target in, predictions and a learned graph out."""

from latentgraph.estimators.classifier import DGMClassifier as DGMClassifier
from latentgraph.estimators.regressor import DGMRegressor as DGMRegressor

__all__ = ["DGMClassifier", "DGMRegressor"]
