"""What classifier and regressor share: the population, its network, and how new rows join it."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from latentgraph import store
from latentgraph.checkpoint import Checkpoint
from latentgraph.errors import InputError
from latentgraph.estimators import keeping
from latentgraph.estimators.forest import Forest
from latentgraph.estimators.learning import node_sets
from latentgraph.estimators.network import CONVOLUTIONS, FromPrincipal, adamw, network
from latentgraph.estimators.spreading import Spread
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Sphere
from latentgraph.gradients import NAMES, by_name
from latentgraph.graph import LatentGraph, edge_frequencies, on_graph
from latentgraph.input_graph import InputGraph, as_edge_index
from latentgraph.layers import DiscreteDGM
from latentgraph.model import DGMNet, consensus
from latentgraph.pretraining import METHODS, pretrain
from latentgraph.sampling import nearest
from latentgraph.training import History, NodeSet, Task, fit
from latentgraph.working import current_team

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition
    from latentgraph.explorer import Page

GEOMETRIES: dict[str, type[Geometry]] = {"euclidean": Euclidean, "hyperbolic": PoincareBall, "sphere": Sphere}
FEW_LABELS = 200  # below, none of them is given away for validation
ABSURD = 1e15  # larger features leave no digits for the others
DIMENSIONS, FEW_DIMENSIONS = 16, 4  # of the graph embedding, unless said
MANY_ROWS = 50_000  # above, few dimensions: in many, finding neighbours takes ever more time for each row
LARGEST = 20.0  # standardised features are clipped here: one outlier must not decide where everybody else is

Array = NDArray[Any]


class DGMEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What classifier and regressor share: the population, its network, and how new rows join it."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "k": [Interval(Integral, 1, None, closed="left")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "embedding_dim": [Interval(Integral, 1, None, closed="left"), None],
        "geometry": [StrOptions(set(GEOMETRIES))],
        "gradient": [StrOptions(set(NAMES))],
        "pretrain": [StrOptions({"none", *METHODS})],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "auxiliary": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "samples": [Interval(Integral, 1, None, closed="left")],
        "trees": [Interval(Integral, 0, None, closed="left")],
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
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.k = k
        self.hidden = hidden
        self.embedding_dim = embedding_dim
        self.geometry = geometry
        self.gradient = gradient
        self.pretrain = pretrain
        self.dropout = dropout
        self.auxiliary = auxiliary
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.steps = steps
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.batch_size = batch_size
        self.samples = samples
        self.trees = trees
        self.standardize = standardize
        self.joint = joint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # Fitting

    _checkpoint: Checkpoint | None = None  # where `fit` keeps how far it has come, and goes on from

    def _fit(self, x: Array, y: Tensor, outputs: int, task: Task, weight: Tensor | None, graph: InputGraph) -> None:
        """Train the network on rows x with targets y, of which -1 or NaN are unknown."""
        if len(x) < 2:
            raise ValueError(f"n_samples={len(x)}: a graph needs at least 2 samples.")
        to = usable_device(self.device)
        random = check_random_state(self.random_state)
        self.seed_ = int(random.randint(2**31 - 1))
        self.scaler_ = StandardScaler().fit(x) if self.standardize else None
        self.population_ = self._features(x)
        if not float(self.population_.abs().max()) < ABSURD:  # NaN is not, either
            raise InputError(
                f"a feature is larger than {ABSURD:g}{' after standardisation' if self.standardize else ''}, or not a "
                "number then. Correct or remove such values."
            )
        self.k_ = int(min(self.k, len(x) - 1))
        self.edge_index_ = as_edge_index(graph, len(x))
        if self.pretrain == "links" and self.edge_index_ is None:
            raise InputError(
                "pretrain='links' learns an input graph, but there is none. Pass edge_index=... to fit, or choose "
                "'contrastive' or 'denoising'."
            )
        partition = self._partition(x, y)
        self.forest_, opinion = self._forest(y, weight, outputs, partition)
        self.spread_, of_neighbours = self._spread(y, _known(y, weight).numpy(), outputs)
        self.opinion_ = _side_by_side(opinion, of_neighbours)
        inputs = self._inputs(self.population_, self.opinion_).float()
        with torch.random.fork_rng():
            torch.manual_seed(self.seed_)
            self.net_, head = self._network(outputs)
            embed = self._dgm.embed
            assert isinstance(embed, FromPrincipal)
            embed.start(inputs)
        learn, stop = self._split(y, weight, random)
        # Several processes share all rows; one that is alone learns from a large table in parts.
        part_size = self.batch_size if partition is None else len(inputs)
        train, validation, watch = node_sets(
            NodeSet(inputs, y, learn, self.edge_index_, weight=weight), stop, part_size, self.seed_, to
        )
        if partition is not None:
            assert isinstance(train, NodeSet)
            train, validation = partition.part(train), validation and partition.part(validation)
        self.net_.to(to)
        head.to(to)
        if self._dgm.gradient is not None and self._dgm.gradient.baseline is not None:
            self._dgm.gradient.baseline.to(to)  # no part of the network
        self.pretraining_ = self._pretrained(inputs.to(to))
        self.history_: History = fit(
            self.net_,
            train,
            validation=validation,
            task=task,
            auxiliary=head if self.auxiliary else None,
            auxiliary_weight=self.auxiliary,
            optimizer=adamw(nn.ModuleList([self.net_, head]), self.learning_rate, self.weight_decay),
            steps=self.steps,
            patience=self.patience,
            callbacks=[watch],
            checkpoint=self._checkpoint,
            seed=self.seed_,
            sharing=partition,
            show=self.verbose,
            title="learning the graph",
        )
        # Predictions in double precision: in single, a row's rounding depends on how many rows are in the call.
        self.net_.to("cpu").double()
        self.n_iter_ = len(self.history_.rows)
        self._look_back(task, partition)

    def _pretrained(self, inputs: Tensor) -> History | None:
        """Train f on the inputs. Of several processes each does so, with all rows; the first one's weights count."""
        if self.pretrain == "none":
            return None
        return pretrain(
            self.net_,
            inputs,
            self.edge_index_,
            method=self.pretrain,
            steps=self.steps,
            optimizer=partial(adamw, lr=self.learning_rate, weight_decay=0.0),
            patience=self.patience,
            seed=self.seed_,
            show=self.verbose,
            title="pre-training f",
        )

    def _partition(self, x: Array, y: Tensor) -> Partition | None:
        """Inside `latentgraph.distributed.group.joined` the processes share the rows; each was given all of them."""
        team = current_team()
        if team is None:
            return None
        from latentgraph.distributed.estimating import partition_of

        self.seed_, found = partition_of(x, y, self.seed_, team)
        return found

    def _forest(
        self, y: Tensor, weight: Tensor | None, outputs: int, partition: Partition | None
    ) -> tuple[Forest | None, Tensor | None]:
        """Trees grown on the labelled rows, and what they think of each row."""
        if not self.trees:
            return None, None
        x, target, known = self.population_.numpy(), y.numpy(), _known(y, weight).numpy()
        grow = (x, target, known, outputs, self.trees, self.seed_)
        if partition is not None:
            from latentgraph.distributed.estimating import grow_together

            return grow_together(*grow, partition)
        forest, opinion = Forest.grow(*grow)
        return forest, torch.as_tensor(opinion)

    def _spread(self, y: Tensor, known: Array, outputs: int) -> tuple[Spread | None, Tensor | None]:
        """What nearest rows say, and the opinions of the rows of `fit`, for a kind of target that can be spread."""
        return None, None

    def _weighed(self, features: Tensor) -> Tensor:
        """Features as large as they are important."""
        return features if self.forest_ is None else features * torch.as_tensor(self.forest_.weights())

    def _opinions(self, features: Tensor) -> Tensor | None:
        """What the forest thinks of new rows, and what their nearest rows say."""
        forest = None if self.forest_ is None else torch.as_tensor(self.forest_(features.numpy()))
        if self.spread_ is None:
            return forest
        near = self.spread_(self._weighed(features).numpy(), self._weighed(self.population_).numpy())
        return _side_by_side(forest, torch.as_tensor(near))

    def _inputs(self, features: Tensor, opinion: Tensor | None = None) -> Tensor:
        """What the network sees of rows: their features, weighed by importance, and what others think of them."""
        opinion = self._opinions(features) if opinion is None else opinion
        weighed = self._weighed(features)
        return weighed if opinion is None else torch.cat([weighed, opinion], 1)

    def _network(self, outputs: int) -> tuple[DGMNet, nn.Module]:
        opinions = (self.forest_ is not None) + (self.spread_ is not None)
        return network(
            self.population_.shape[1] + opinions * outputs,
            outputs,
            self.k_,
            hidden=self.hidden,
            embedding_dim=self.embedding_dim or (DIMENSIONS if len(self.population_) <= MANY_ROWS else FEW_DIMENSIONS),
            geometry=GEOMETRIES[self.geometry](),
            dropout=self.dropout,
            input_graph=self.edge_index_ is not None,
            opinions=opinions,
            gradient=by_name(self.gradient, num_nodes=len(self.population_), convolutions=CONVOLUTIONS),
        )

    def _split(self, y: Tensor, weight: Tensor | None, random: np.random.RandomState) -> tuple[Tensor, Tensor | None]:
        """Masks of the labelled rows to learn from, and of those to stop by: none if labels are few."""
        known = _known(y, weight)
        rows = known.nonzero()[:, 0].numpy()
        if len(rows) < FEW_LABELS or not self.validation_fraction:
            return known, None
        groups = [rows] if y.is_floating_point() else [rows[y[rows] == c] for c in y[rows].unique()]
        taken = [random.permutation(group)[: int(len(group) * self.validation_fraction)] for group in groups]
        stop = torch.zeros_like(known)
        stop[np.concatenate(taken)] = True
        return known & ~stop, stop if stop.any() else None

    def _look_back(self, task: Task, partition: Partition | None) -> None:
        """What the trained network says of its own population."""
        self._sampled_graphs = int(self.samples)  # of `graph_`; the option may be changed for predictions
        inputs = self._inputs(self.population_, self.opinion_)
        if partition is not None:
            from latentgraph.distributed.estimating import consensus_together

            generator = torch.Generator().manual_seed(self.seed_)
            mean, graphs = consensus_together(
                self.net_, inputs, self.edge_index_, self.samples, task.link, generator, partition
            )
            self._mean_of_population = mean.numpy()
            self.graph_ = edge_frequencies(graphs)
            self.embedding_ = graphs[0].x_hat.detach().numpy()
            return
        outs: list[Tensor] = []
        total = sp.csr_array((len(self.population_),) * 2, dtype=np.float64)
        for out, graph in self._sampled(inputs, task.link):
            outs.append(out)
            total = total + edge_frequencies([graph])
            self.embedding_ = graph.x_hat.numpy()
        total.data /= self.samples
        self.graph_ = total
        self._mean_of_population = torch.stack(outs).mean(0).numpy()

    def _sampled(self, inputs: Tensor, link: Any, **joining: Any) -> Iterator[tuple[Tensor, LatentGraph]]:
        """A consensus, one sampled graph after the other: a million rows have no room for all of them."""
        generator = torch.Generator().manual_seed(self.seed_)
        for _ in range(self.samples):
            out, ((graph,),) = consensus(
                self.net_, inputs, self.edge_index_, samples=1, link=link, generator=generator, **joining
            )
            yield out, graph

    # New rows

    def _features(self, x: Array) -> Tensor:
        if self.scaler_ is not None:
            x = self.scaler_.transform(x).clip(-LARGEST, LARGEST)
        return torch.as_tensor(np.ascontiguousarray(x), dtype=torch.float64)

    def _validated(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        found: Array = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return found

    def _mean(self, X: ArrayLike, link: Any) -> Array:
        """Consensus for new rows, which join the population: it does not change, and they do not see each other."""
        x = self._validated(X)
        options: dict[str, Any] = {} if self.joint else {"guests": len(x), "keys": _keys(x)}
        new = slice(len(self.population_), None)
        outs = [out[new].clone() for out, _ in self._sampled(self._joined(x), link, **options)]
        found: Array = torch.stack(outs).mean(0).numpy()
        return found

    def _joined(self, x: Array) -> Tensor:
        """The inputs of the population, and below them those of new rows."""
        new = self._inputs(self._features(x))
        return torch.cat([self._inputs(self.population_, self.opinion_), new])

    @torch.no_grad()
    def transform(self, X: ArrayLike) -> Array:
        """Graph embedding of new rows: (n, embedding_dim). Near rows are probable neighbours."""
        return self._embed(self._validated(X)).numpy()

    @torch.no_grad()
    def _embed(self, x: Array) -> Tensor:
        dgm = self._dgm
        if self.edge_index_ is None:
            return dgm.geometry.project(dgm.embed(self._inputs(self._features(x))))
        embedded = on_graph(dgm.embed, self._joined(x), self.edge_index_)
        return dgm.geometry.project(embedded)[len(self.population_) :]

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
        near = nearest(x, self.k_, candidates=self.population_)
        found: Array = (_mean_distance(x, self.population_, near) / self._usual_distance).numpy()
        return found

    @property
    def _usual_distance(self) -> float:
        if not hasattr(self, "_usual"):
            usual = _mean_distance(self.population_, self.population_, nearest(self.population_, self.k_)).median()
            self._usual = max(float(usual), math.ulp(1.0))
        return self._usual

    def explore(self, path: str | Path | None = None, *, y: ArrayLike | None = None, table: Any = None) -> Page:
        """A page to look at the learned graph: one HTML file that opens offline; in a notebook it shows itself.

        Parameters
        ----------
        path : where to write it; None: nowhere, the page is returned only
        y : labels of the rows of `fit`, also those that it did not see
        table : one row for each row of `fit`, to be shown with the nodes; default: their features are not shown

        `latentgraph.explorer.from_estimator` takes more: names of rows and classes, splits.
        """
        from latentgraph.explorer import from_estimator

        check_is_fitted(self)
        page = from_estimator(self, y=y, table=table)
        if path is not None:
            page.write(path)
        return page

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


def _side_by_side(*opinions: Tensor | None) -> Tensor | None:
    """Those that there are, (n, c) each, as columns."""
    found = [opinion for opinion in opinions if opinion is not None]
    return torch.cat(found, 1) if found else None


def _known(y: Tensor, weight: Tensor | None) -> Tensor:
    """The rows to learn from: those with a target and, if they have weights, a positive one."""
    known = ~y.isnan() if y.is_floating_point() else y >= 0
    return known if weight is None else known & (weight > 0)


def _mean_distance(x: Tensor, to: Tensor, near: Tensor) -> Tensor:
    """Mean distance of each row of x to the rows `near` (n, k) of `to`."""
    distances = [(x - to.index_select(0, column)).norm(dim=1) for column in near.T]
    return torch.stack(distances).mean(0)


def usable_device(name: str) -> torch.device:
    """A device that is there."""
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device={name!r} cannot be used here: {str(error).splitlines()[0]} Try device='cpu'."
        ) from None
