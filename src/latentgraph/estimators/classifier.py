"""`DGMClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.estimators.base import FEW_LABELS, MANY_ROWS, Array, DGMEstimator
from latentgraph.estimators.spreading import Spread
from latentgraph.input_graph import InputGraph
from latentgraph.loss import accuracy_reward, log_probability_reward
from latentgraph.training import classification

OWN = ("spread", "class_weight")  # parameters that a regressor does not have


class DGMClassifier(ClassifierMixin, DGMEstimator):  # type: ignore[misc]
    """Classify rows by a graph between them that is learned along.

    Labels -1 mark rows whose class is unknown: they take part in the graph, and `transduction_` tells their class.
    New rows join the population of `fit` one by one: the answer for a row does not depend on the others in the call.

    Parameters
    ----------
    k : neighbours sampled for each row
    hidden, embedding_dim : widths of f's hidden layer and of the graph embedding, by default 16, or 4 with more than
        50,000 rows
    geometry : space of the embedding
    gradient : how f learns from the task, although which edges are sampled has no gradient: "softmax",
        "straight_through", "implicit", "subsets", "reinforce", "plackett_luce", or "softmax+" and one of the last two;
        see `latentgraph.gradients`
    pretrain : whether f is trained before, without labels and for as many steps: "contrastive", "denoising", or with an
        input graph "links"; see `latentgraph.pretraining`
    dropout, weight_decay : regularisation; the decay is decoupled from the gradient (AdamW)
    auxiliary : weight of the loss of a linear classifier on the graph embedding
    learning_rate, steps, patience : of Adam; `patience` steps without a better validation score end it
    batch_size : rows of a step. A table with more is learned from in random parts of this size, see
        `latentgraph.minibatch.RandomRows`, unless there is an input graph; others as a whole
    validation_fraction : part of the labelled rows that decides when to stop; with fewer than 200 labels none does
    samples : graphs over which predictions are averaged
    trees : of a random forest that is grown first, on the labelled rows. It tells the network which columns matter, and
        what it thinks of each row: the prediction starts there. 0 leaves it out
    spread : whether few labels, less than 200, first spread over alike rows, with a label or without, and the
        prediction starts from there, too; with an input graph or more than 50,000 rows they do not
    standardize : to mean 0 and variance 1, by the rows of `fit`
    joint : whether new rows of one call also see each other
    class_weight : "balanced", or a weight for each class
    device : where to train, as torch names it; the trained model is on the CPU
    random_state, verbose : as usual

    Attributes
    ----------
    classes_ : the classes
    transduction_ : predicted class of each row of `fit`
    label_distributions_ : (n, classes) its probabilities
    graph_ : sparse (n, n), how often each edge was sampled
    embedding_ : (n, embedding_dim) graph embedding of the rows of `fit`
    history_, n_iter_ : what happened in each step, and how many there were
    pretraining_ : the same of the pre-training, or None

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> x, y = load_wine(return_X_y=True)
    >>> unknown = np.arange(len(y)) % 4 > 0
    >>> model = DGMClassifier(random_state=0).fit(x, np.where(unknown, -1, y))
    >>> bool((model.transduction_ == y)[unknown].mean() > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DGMEstimator._parameter_constraints,
        "spread": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        *,
        k: int = 10,
        hidden: int = 64,
        embedding_dim: int | None = None,
        geometry: Literal["euclidean", "hyperbolic", "sphere"] = "euclidean",
        gradient: str = "softmax",
        pretrain: str = "none",
        dropout: float = 0.3,
        auxiliary: float = 1.0,
        learning_rate: float = 0.01,
        weight_decay: float = 0.3,
        steps: int = 200,
        patience: int = 50,
        validation_fraction: float = 0.15,
        batch_size: int = 32768,
        samples: int = 8,
        trees: int = 200,
        standardize: bool = True,
        joint: bool = False,
        spread: bool = True,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        shared = {name: value for name, value in locals().items() if name not in ("self", "__class__", *OWN)}
        super().__init__(**shared)
        self.spread = spread
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        edge_index: InputGraph = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the rows X (n, features) whose label y is not -1.

        Parameters
        ----------
        edge_index : an input graph for f: (2, e) source above target, a scipy matrix or a networkx graph
        sample_weight : (n,) how much each row counts in the loss; it stays in the graph also with weight zero
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(labels)
        known = np.ones(len(labels), bool) if labels.dtype.kind in "OUSb" else labels != -1
        if not known.any():
            raise InputError("all labels are -1, which means unknown; at least one row needs a class.")
        self.classes_, code = np.unique(labels[known], return_inverse=True)
        target = torch.full((len(labels),), -1)
        target[torch.as_tensor(known)] = torch.as_tensor(code)
        weight = self._weights(x, labels, known, sample_weight)
        # The paper's reward for the paper's gradient; elsewhere that of the loss itself.
        reward = accuracy_reward if "reinforce" in self.gradient else log_probability_reward
        self._fit(x, target, len(self.classes_), classification(reward), weight, edge_index)
        self._conclude()
        return self

    def _spread(self, y: Tensor, known: Array, outputs: int) -> tuple[Spread | None, Tensor | None]:
        if not self.spread or known.sum() >= FEW_LABELS or len(y) > MANY_ROWS or self.edge_index_ is not None:
            return None, None
        found, opinion = Spread.over(self._weighed(self.population_).numpy(), y.numpy(), known, outputs)
        return found, torch.as_tensor(opinion)

    def _about(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "class_type": self.classes_.dtype.str}

    def _restore(self, about: dict[str, Any]) -> None:
        kind = about["class_type"]
        self.classes_ = np.array(about["classes"], dtype=object if kind == "|O" else kind)
        self._conclude()

    def _conclude(self) -> None:
        self.label_distributions_ = _sum_to_one(self._mean_of_population)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]

    def _weights(self, x: Array, y: Array, known: Array, sample_weight: ArrayLike | None) -> Tensor | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y[known])
            weight[known] *= of_class[np.searchsorted(self.classes_, y[known])]
        if not weight[known].sum() > 0:
            raise InputError("the weights of the labelled rows add up to zero; at least one must be positive.")
        return torch.as_tensor(weight, dtype=torch.float32)

    def predict_proba(self, X: ArrayLike) -> Array:
        """(n, classes) probabilities of new rows."""
        check_is_fitted(self)
        return _sum_to_one(self._mean(X, nn.Softmax(dim=-1)))

    def predict(self, X: ArrayLike) -> Array:
        """Most probable class of each new row."""
        probability = self.predict_proba(X)
        found: Array = self.classes_[probability.argmax(1)]
        return found


def _sum_to_one(probability: Array) -> Array:
    """The mean of softmaxes is off by rounding."""
    found: Array = probability / probability.sum(1, keepdims=True)
    return found
