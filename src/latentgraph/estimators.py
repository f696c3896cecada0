"""scikit-learn estimators: a table and a target in, predictions and a learned graph out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from latentgraph import store
from latentgraph.attended import Attended
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Sphere
from latentgraph.graph import LatentGraph, edge_frequencies, on_graph
from latentgraph.input_graph import InputGraph, as_edge_index
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet, consensus
from latentgraph.sampling import nearest
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.training import History, NodeSet, Task, classification, fit, regression

GEOMETRIES: dict[str, type[Geometry]] = {"euclidean": Euclidean, "hyperbolic": PoincareBall, "sphere": Sphere}
FEW_LABELS = 40  # below, none of them is given away for validation
LARGEST = 20.0  # standardised features are clipped here: one outlier must not decide where everybody else is

Array = NDArray[Any]


class _DGMEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: the population, its network, and how new rows join it."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "k": [Interval(Integral, 1, None, closed="left")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "embedding_dim": [Interval(Integral, 1, None, closed="left")],
        "geometry": [StrOptions(set(GEOMETRIES))],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "auxiliary": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "samples": [Interval(Integral, 1, None, closed="left")],
        "standardize": ["boolean"],
        "joint": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        *,
        k: int = 10,
        hidden: int = 64,
        embedding_dim: int = 8,
        geometry: Literal["euclidean", "hyperbolic", "sphere"] = "euclidean",
        dropout: float = 0.3,
        auxiliary: float = 1.0,
        learning_rate: float = 0.01,
        weight_decay: float = 1e-3,
        steps: int = 200,
        patience: int = 50,
        validation_fraction: float = 0.15,
        samples: int = 8,
        standardize: bool = True,
        joint: bool = False,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.k = k
        self.hidden = hidden
        self.embedding_dim = embedding_dim
        self.geometry = geometry
        self.dropout = dropout
        self.auxiliary = auxiliary
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.steps = steps
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.samples = samples
        self.standardize = standardize
        self.joint = joint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # Fitting

    def _fit(self, x: Array, y: Tensor, outputs: int, task: Task, weight: Tensor | None, graph: InputGraph) -> None:
        """Train the network on rows x with targets y, of which -1 or NaN are unknown."""
        if len(x) < 2:
            raise ValueError(f"n_samples={len(x)}: a graph needs at least 2 samples.")
        random = check_random_state(self.random_state)
        self.seed_ = int(random.randint(2**31 - 1))
        self.scaler_ = StandardScaler().fit(x) if self.standardize else None
        self.population_ = self._features(x)
        self.k_ = min(self.k, len(x) - 1)
        self.edge_index_ = as_edge_index(graph, len(x))
        with torch.random.fork_rng():
            torch.manual_seed(self.seed_)
            self.net_, head = self._network(x.shape[1], outputs)
        learn, stop = self._split(y, random)
        to = torch.device(self.device)
        x32 = self.population_.float()
        nodes = NodeSet(x32, y, learn, self.edge_index_, weight=weight).to(to)
        self.net_.to(to)
        self.history_: History = fit(
            self.net_,
            nodes,
            validation=None if stop is None else NodeSet(x32, y, stop, self.edge_index_).to(to),
            task=task,
            auxiliary=head.to(to) if self.auxiliary else None,
            auxiliary_weight=self.auxiliary,
            steps=self.steps,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            seed=self.seed_,
            show=self.verbose,
            title="learning the graph",
        )
        # Predictions are made in double precision: in single, a row's rounding depends on how many rows are in the call.
        self.net_.to("cpu").double()
        self.n_iter_ = len(self.history_.rows)
        self._look_back(task)

    def _network(self, features: int, outputs: int) -> tuple[DGMNet, nn.Module]:
        """f, a graph, two convolutions on it; and the head that teaches f directly."""
        widths = [features, self.hidden, self.embedding_dim]
        embed = mlp(widths, dropout=self.dropout) if self.edge_index_ is None else gcn(widths, dropout=self.dropout)
        dgm = DiscreteDGM(embed, self.k_, geometry=GEOMETRIES[self.geometry]())
        g = Stack(
            nn.Dropout(self.dropout),
            Attended(features, self.hidden),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            Attended(self.hidden, outputs),
        )
        return DGMNet([(dgm, g)]), nn.Linear(self.embedding_dim, outputs)

    def _split(self, y: Tensor, random: np.random.RandomState) -> tuple[Tensor, Tensor | None]:
        """Masks of the labelled rows to learn from, and of those to stop by: none if labels are few."""
        known = ~y.isnan() if y.is_floating_point() else y >= 0
        rows = known.nonzero()[:, 0].numpy()
        if len(rows) < FEW_LABELS or not self.validation_fraction:
            return known, None
        groups = [rows] if y.is_floating_point() else [rows[y[rows] == c] for c in y[rows].unique()]
        taken = [random.permutation(group)[: int(len(group) * self.validation_fraction)] for group in groups]
        stop = torch.zeros_like(known)
        stop[np.concatenate(taken)] = True
        return known & ~stop, stop if stop.any() else None

    def _look_back(self, task: Task) -> None:
        """What the trained network says of its own population."""
        mean, graphs = consensus(
            self.net_,
            self.population_,
            self.edge_index_,
            samples=self.samples,
            link=task.link,
            generator=torch.Generator().manual_seed(self.seed_),
        )
        self._mean_of_population = mean.numpy()
        last: list[LatentGraph] = [sample[-1] for sample in graphs]
        self.graph_ = edge_frequencies(last)
        self.embedding_ = last[0].x_hat.detach().numpy()

    # New rows

    def _about(self) -> dict[str, Any]:
        """What else `save` has to keep."""
        raise NotImplementedError

    def _restore(self, about: dict[str, Any]) -> None:
        """Set it again."""
        raise NotImplementedError

    def _features(self, x: Array) -> Tensor:
        if self.scaler_ is not None:
            x = self.scaler_.transform(x).clip(-LARGEST, LARGEST)
        return torch.as_tensor(np.ascontiguousarray(x), dtype=torch.float64)

    def _validated(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        found: Array = validate_data(self, X, reset=False, dtype=np.float64)
        return found

    def _mean(self, X: ArrayLike, link: Any) -> Array:
        """Consensus for new rows, which join the population: it does not change, and they do not see each other."""
        x = self._validated(X)
        new = self._features(x)
        options: dict[str, Any] = {} if self.joint else {"guests": len(new), "keys": _keys(x)}
        out, _ = consensus(
            self.net_,
            torch.cat([self.population_, new]),
            self.edge_index_,
            samples=self.samples,
            link=link,
            generator=torch.Generator().manual_seed(self.seed_),
            **options,
        )
        found: Array = out[len(self.population_) :].numpy()
        return found

    @torch.no_grad()
    def transform(self, X: ArrayLike) -> Array:
        """Graph embedding of new rows: (n, embedding_dim). Near rows are probable neighbours."""
        return self._embed(self._validated(X)).numpy()

    @torch.no_grad()
    def _embed(self, x: Array) -> Tensor:
        dgm, new = self._dgm, self._features(x)
        if self.edge_index_ is None:
            return dgm.geometry.project(dgm.embed(new))
        joined = torch.cat([self.population_, new])
        return dgm.geometry.project(on_graph(dgm.embed, joined, self.edge_index_))[len(self.population_) :]

    @property
    def _dgm(self) -> DiscreteDGM:
        dgm = self.net_.dgms[0]
        assert isinstance(dgm, DiscreteDGM)
        return dgm

    @torch.no_grad()
    def neighbors(self, X: ArrayLike | None = None, k: int | None = None) -> tuple[Array, Array]:
        """The most probable neighbours of each row among the rows of `fit`: which of them made this prediction?

        Parameters
        ----------
        X : new rows; None asks for the rows of `fit` themselves
        k : how many, default the k of the graph

        Returns
        -------
        (n, k) row numbers and (n, k) probabilities to be sampled first, largest first
        """
        check_is_fitted(self)
        k = self.k_ if k is None else k
        dgm, old = self._dgm, torch.as_tensor(self.embedding_)
        own = X is None
        new = old if X is None else self._embed(self._validated(X))
        found = nearest(new, k, geometry=dgm.geometry, candidates=None if own else old)
        t = dgm.temperature.detach()
        index = np.empty(found.shape, np.int64)
        probability = np.empty(found.shape)
        step = max(1, (1 << 22) // len(old))
        for start in range(0, len(new), step):
            rows = slice(start, start + step)
            log_p = -t * dgm.geometry.sq_cdist(new[rows], old)
            if own:
                log_p[torch.arange(len(log_p)), torch.arange(start, start + len(log_p))] = -torch.inf
            near = found[rows]
            index[rows] = near.numpy()
            probability[rows] = log_p.log_softmax(1).gather(1, near).exp().numpy()
        return index, probability

    @torch.no_grad()
    def outlier_score(self, X: ArrayLike) -> Array:
        """How far each row is from the rows of `fit`: distance to its k nearest, in units of what is usual there.

        About 1 for a row like the others; several times that for one that the model has never seen the like of.
        Distances are between standardised features, which the network cannot distort.
        """
        x = self._features(self._validated(X))
        near = x[:, None] - self.population_[nearest(x, self.k_, candidates=self.population_)]
        found: Array = (near.norm(dim=2).mean(1) / self._usual_distance()).numpy()
        return found

    def _usual_distance(self) -> float:
        old = self.population_
        near = old[:, None] - old[nearest(old, self.k_)]
        return max(float(near.norm(dim=2).mean(1).median()), math.ulp(1.0))

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write the fitted model into a folder, without pickle: see `latentgraph.store`."""
        check_is_fitted(self)
        tensors = {f"net.{name}": value for name, value in self.net_.state_dict().items()}
        tensors |= {"population": self.population_, "mean": torch.as_tensor(self._mean_of_population)}
        if self.edge_index_ is not None:
            tensors["edge_index"] = self.edge_index_
        if self.scaler_ is not None:
            tensors |= {name: torch.as_tensor(getattr(self.scaler_, name)) for name in ("mean_", "scale_")}
        edges = self.graph_.tocoo()
        tensors |= {name: torch.as_tensor(getattr(edges, name)) for name in ("row", "col", "data")}
        parameters = self.get_params(deep=False)
        if not isinstance(self.random_state, int | None):
            parameters["random_state"] = None  # what it gave is kept as the seed
        about = {
            "kind": type(self).__name__,
            "parameters": parameters,
            "features": self.n_features_in_,
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "seed": self.seed_,
            "k": self.k_,
            "history": self.history_.rows,
            "best_step": self.history_.best_step,
            **self._about(),
        }
        store.save(Path(path), {"model.safetensors": tensors, "model.json": about})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; its predictions are the same, bit for bit."""
        parts = store.load(Path(path))
        about, tensors = parts.json("model.json"), parts.tensors("model.safetensors")
        if about["kind"] != cls.__name__:
            raise InputError(f"{path} holds a {about['kind']}; load it with latentgraph.{about['kind']}.load.")
        model = cls(**about["parameters"])
        model.n_features_in_, model.seed_, model.k_ = about["features"], about["seed"], about["k"]
        if about["feature_names"]:
            model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        model.population_, model.edge_index_ = tensors["population"], tensors.get("edge_index")
        model._mean_of_population = tensors["mean"].numpy()
        model.scaler_ = None
        if model.standardize:
            model.scaler_ = StandardScaler()
            model.scaler_.mean_, model.scaler_.scale_ = tensors["mean_"].numpy(), tensors["scale_"].numpy()
            model.scaler_.n_features_in_ = model.n_features_in_
        model.net_, _ = model._network(model.n_features_in_, model._mean_of_population.shape[1])
        model.net_.double().eval()
        model.net_.load_state_dict({n[4:]: value for n, value in tensors.items() if n.startswith("net.")})
        model.history_ = History(about["history"], about["best_step"])
        model.n_iter_ = len(about["history"])
        entries = tensors["data"].numpy(), (tensors["row"].numpy(), tensors["col"].numpy())
        model.graph_ = sp.csr_array(entries, shape=(len(model.population_), len(model.population_)))
        dgm = model._dgm
        with torch.no_grad():
            model.embedding_ = dgm.geometry.project(on_graph(dgm.embed, model.population_, model.edge_index_)).numpy()
        model._restore(about)
        return model

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def _keys(x: Array) -> Tensor:
    """A number for each row that depends on its values alone: so a row is answered the same in any company."""
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(x + 0.0))
    return torch.tensor([int.from_bytes(digest, "little", signed=True) for digest in digests], dtype=torch.long)


class DGMClassifier(ClassifierMixin, _DGMEstimator):  # type: ignore[misc]
    """Classify rows by a graph between them that is learned along.

    Labels -1 mark rows whose class is unknown: they take part in the graph, and `transduction_` tells their class.
    New rows join the population of `fit` one by one: the answer for a row does not depend on the others in the call.

    Parameters
    ----------
    k : neighbours sampled for each row
    hidden, embedding_dim : widths of f's hidden layer and of the graph embedding
    geometry : space of the embedding
    dropout, weight_decay : regularisation
    auxiliary : weight of the loss of a linear classifier on the graph embedding
    learning_rate, steps, patience : of Adam, full batch; `patience` steps without a better validation score end it
    validation_fraction : part of the labelled rows that decides when to stop; with fewer than 40 labels none does
    samples : graphs over which predictions are averaged
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
        **_DGMEstimator._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        *,
        k: int = 10,
        hidden: int = 64,
        embedding_dim: int = 8,
        geometry: Literal["euclidean", "hyperbolic", "sphere"] = "euclidean",
        dropout: float = 0.3,
        auxiliary: float = 1.0,
        learning_rate: float = 0.01,
        weight_decay: float = 1e-3,
        steps: int = 200,
        patience: int = 50,
        validation_fraction: float = 0.15,
        samples: int = 8,
        standardize: bool = True,
        joint: bool = False,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        shared = {name: value for name, value in locals().items() if name not in ("self", "__class__", "class_weight")}
        super().__init__(**shared)
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
        x, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        known = np.ones(len(labels), bool) if labels.dtype.kind in "OUSb" else labels != -1
        if not known.any():
            raise InputError("all labels are -1, which means unknown; at least one row needs a class.")
        self.classes_, code = np.unique(labels[known], return_inverse=True)
        target = torch.full((len(labels),), -1)
        target[torch.as_tensor(known)] = torch.as_tensor(code)
        weight = self._weights(x, labels, known, sample_weight)
        self._fit(x, target, len(self.classes_), classification(), weight, edge_index)
        self._conclude()
        return self

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


class DGMRegressor(RegressorMixin, _DGMEstimator):  # type: ignore[misc]
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
        x = validate_data(self, X, dtype=np.float64)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        values = _targets(y, len(x))
        known = ~np.isnan(values)
        if not known.any():
            raise InputError("all targets are NaN, which means unknown; at least one row needs a value.")
        self._centre, self._scale = float(values[known].mean()), float(values[known].std()) or 1.0
        weight = None
        if sample_weight is not None:
            found = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
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
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    found = column_or_1d(y, warn=True)
    found = np.asarray(found, dtype=np.float64)
    if np.isinf(found).any():
        raise ValueError("Input y contains infinity; NaN marks an unknown target.")
    check_consistent_length(found, np.empty(rows))
    return found


def _sum_to_one(probability: Array) -> Array:
    """The mean of softmaxes is off by rounding."""
    found: Array = probability / probability.sum(1, keepdims=True)
    return found
