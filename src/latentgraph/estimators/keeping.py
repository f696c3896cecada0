"""A fitted estimator as a folder: numbers as safetensors, everything else as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.preprocessing import StandardScaler

from latentgraph.errors import InputError
from latentgraph.estimators.forest import Forest
from latentgraph.estimators.spreading import Spread
from latentgraph.graph import on_graph
from latentgraph.store import Parts
from latentgraph.training import History


def parts_of(model: Any) -> dict[str, Any]:
    """A fitted estimator as parts of a model folder."""
    tensors = {f"net.{name}": value for name, value in model.net_.state_dict().items()}
    tensors |= {"population": model.population_, "mean": torch.as_tensor(model._mean_of_population)}
    if model.forest_ is not None:
        tensors |= {f"forest.{name}": torch.as_tensor(value) for name, value in vars(model.forest_).items()}
    if model.spread_ is not None:
        tensors |= {f"spread.{name}": torch.as_tensor(value) for name, value in vars(model.spread_).items()}
    if model.opinion_ is not None:
        tensors["opinion"] = model.opinion_
    if model.edge_index_ is not None:
        tensors["edge_index"] = model.edge_index_
    if model.scaler_ is not None:
        tensors |= {name: torch.as_tensor(getattr(model.scaler_, name)) for name in ("mean_", "scale_")}
    tensors |= _edges_of(model)
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    if not isinstance(model.random_state, int | None):
        parameters["random_state"] = None  # what it gave is kept as the seed
    if isinstance(parameters.get("class_weight"), Mapping):  # JSON has no numbers as keys
        parameters["class_weight"] = [[_plain(key), float(value)] for key, value in model.class_weight.items()]
    before = model.pretraining_
    about = {
        "kind": type(model).__name__,
        "parameters": parameters,
        "features": model.n_features_in_,
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "seed": model.seed_,
        "k": model.k_,
        "history": model.history_.rows,
        "best_step": model.history_.best_step,
        "sampled_graphs": model._sampled_graphs,
        "pretraining": before and {"rows": before.rows, "best_step": before.best_step},
        **model._about(),
    }
    return {"model.safetensors": tensors, "model.json": about}


def model_of(kind: type[Any], parts: Parts) -> Any:
    """The estimator of this kind whose parts these are."""
    about, tensors = parts.json("model.json"), parts.tensors("model.safetensors")
    if about["kind"] != kind.__name__:
        raise InputError(f"the folder holds a {about['kind']}; load it with latentgraph.{about['kind']}.load.")
    parameters = about["parameters"]
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    model = kind(**parameters)
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
    grown, spread = (
        {name.removeprefix(of): value.numpy() for name, value in tensors.items() if name.startswith(of)}
        for of in ("forest.", "spread.")
    )
    model.forest_ = Forest(**grown) if grown else None
    model.spread_ = Spread(**spread) if spread else None
    model.opinion_ = tensors.get("opinion")
    with torch.random.fork_rng():  # its first weights are random, and replaced
        model.net_, _ = model._network(model._mean_of_population.shape[1])
    model.net_.double().eval()
    model.net_.load_state_dict({n[4:]: value for n, value in tensors.items() if n.startswith("net.")})
    model.history_ = History(about["history"], about["best_step"])
    model.n_iter_ = len(about["history"])
    before = about["pretraining"]
    model.pretraining_ = before and History(**before)
    model._sampled_graphs = about["sampled_graphs"]
    frequency = tensors["edges.times"].numpy() / model._sampled_graphs
    entries = frequency, tensors["edges.source"].numpy(), tensors["edges.start"].numpy()
    model.graph_ = sp.csr_array(entries, shape=(len(model.population_), len(model.population_)))
    dgm = model._dgm
    with torch.no_grad():
        inputs = model._inputs(model.population_, model.opinion_)
        model.embedding_ = dgm.geometry.project(on_graph(dgm.embed, inputs, model.edge_index_)).numpy()
    model._restore(about)
    return model


def _edges_of(model: Any) -> dict[str, torch.Tensor]:
    """Who was sampled, and in how many of the graphs, row by row: a million rows have a hundred million edges."""
    graph, count = model.graph_, model._sampled_graphs
    times = np.rint(graph.data * count).astype(np.uint8 if count < 256 else np.int32)
    parts = {"times": times, "source": graph.indices, "start": graph.indptr}
    return {f"edges.{name}": torch.as_tensor(value) for name, value in parts.items()}


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
