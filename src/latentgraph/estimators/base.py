"""What classifier and regressor share: the population, its network, and how new rows join it."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from latentgraph import store
from latentgraph.attended import Attended
from latentgraph.errors import InputError
from latentgraph.estimators import keeping
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Sphere
from latentgraph.graph import LatentGraph, edge_frequencies, on_graph
from latentgraph.input_graph import InputGraph, as_edge_index
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet, consensus
from latentgraph.sampling import nearest
from latentgraph.stacks import Stack, gcn, mlp
from latentgraph.training import History, NodeSet, Task, fit

GEOMETRIES: dict[str, type[Geometry]] = {"euclidean": Euclidean, "hyperbolic": PoincareBall, "sphere": Sphere}
FEW_LABELS = 40  # below, none of them is given away for validation
LARGEST = 20.0  # standardised features are clipped here: one outlier must not decide where everybody else is

Array = NDArray[Any]


class DGMEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
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
        to = _device(self.device)
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
        # Predictions in double precision: in single, a row's rounding depends on how many rows are in the call.
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
        store.save(Path(path), keeping.parts_of(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; its predictions are the same, bit for bit."""
        model: Self = keeping.model_of(cls, store.load(Path(path)))
        return model

    @abstractmethod
    def _about(self) -> dict[str, Any]:
        """What else `save` has to keep."""

    @abstractmethod
    def _restore(self, about: dict[str, Any]) -> None:
        """Set it again."""

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


def _device(name: str) -> torch.device:
    """A device that is there."""
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device={name!r} cannot be used here: {str(error).splitlines()[0]} Try device='cpu'."
        ) from None
