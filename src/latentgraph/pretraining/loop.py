"""The loop: a few hundred steps on f, and the best of them kept where there is a measure."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from latentgraph.errors import InputError
from latentgraph.geometry import Geometry
from latentgraph.input_graph import InputGraph, as_edge_index
from latentgraph.pretraining.embedding import embedding_of
from latentgraph.pretraining.method import Method, check_count
from latentgraph.pretraining.names import by_name
from latentgraph.progress import progress
from latentgraph.training import History


def pretrain(
    module: nn.Module,
    x: Tensor,
    edge_index: InputGraph = None,
    *,
    method: Method | str = "contrastive",
    geometry: Geometry | None = None,
    steps: int = 200,
    lr: float = 1e-2,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    eval_every: int = 10,
    patience: int | None = None,
    seed: int = 0,
    show: bool = False,
    title: str = "pre-training",
) -> History:
    """Train the embedding f of a graph module before `training.fit`, without labels.

    Parameters
    ----------
    module : a graph module; a network, of whose first graph module f is trained with what comes before it (`pre`); or f
        alone
    x : (n, d) features of all rows, plain or sparse (CSR) if f takes that
    edge_index : an input graph, on which f works, if it does, and which `Links` learns: (2, e) source above target, a
        scipy matrix or a networkx graph
    method : `Links`, `Contrastive`, `Denoising`, or one of their names "links", "contrastive", "denoising"
    geometry : of f alone, default `Euclidean()`. Graph modules have their own
    steps, lr : of Adam, if there is no `optimizer`
    optimizer : function from the module with all that is trained to its optimizer
    eval_every, patience : steps between two measures of what `Links` holds out; so many steps without a better one end
        it. None never stops early
    seed : of everything random. The global random state is left as it was
    show : a progress bar on a terminal, or lines in a log

    Returns
    -------
    `History`: the loss of every step; with `Links` the measures, also those before the first step, and the step whose
    weights were kept, which may be 0. The other methods keep the last weights.

    The temperature of the module is not touched. If it has none yet, it is set at its next call, from the trained
    embedding: so call this before the module is used.

    Examples
    --------
    >>> from latentgraph.layers import DiscreteDGM
    >>> from latentgraph.stacks import mlp
    >>> dgm = DiscreteDGM(mlp([8, 16, 2]), k=3)
    >>> history = pretrain(dgm, torch.randn(50, 8), method="denoising", steps=5)
    >>> len(history.column("loss"))
    5
    """
    method = by_name(method) if isinstance(method, str) else method
    check_count("steps", steps, 1)
    check_count("eval_every", eval_every, 1)
    if not 0 < lr < float("inf"):
        raise InputError(f"lr={lr}; it must be positive, such as 0.01.")
    if x.ndim != 2 or len(x) < 3:
        raise InputError(f"x has shape {tuple(x.shape)}; pre-training needs features (n, d) of at least 3 rows.")
    embedding = embedding_of(module, geometry)
    given = edge_index.cpu() if isinstance(edge_index, Tensor) else edge_index
    edges = as_edge_index(given, len(x))
    generator = torch.Generator().manual_seed(seed)
    history, best = History(), None
    modes = [(part, part.training) for part in embedding.modules()]
    with torch.random.fork_rng(), progress(title, steps, show) as report:
        torch.manual_seed(seed)
        objective = method.begin(embedding, x, None if edges is None else edges.to(x.device), generator)
        objective.to(x.device)
        optim = torch.optim.Adam(objective.parameters(), lr=lr) if optimizer is None else optimizer(objective)
        objective.eval()
        values: dict[str, float] = objective.measure()
        if values:
            history.rows.append({"step": 0, **values})
            history.best_score, best = values["validation"], _weights(embedding)
        for step in range(1, steps + 1):
            objective.train()
            loss: Tensor = objective(generator)
            optim.zero_grad()
            loss.backward()
            optim.step()
            values = {"loss": float(loss.detach())}
            if best is not None and (step % eval_every == 0 or step == steps):
                objective.eval()
                values |= objective.measure()
                if values["validation"] < history.best_score:
                    history.best_step, history.best_score, best = step, values["validation"], _weights(embedding)
            history.rows.append({"step": step, **values})
            report(step, values)
            if best is not None and patience is not None and step - history.best_step >= patience:
                break
    if best is not None:
        embedding.load_state_dict(best)
    else:
        history.best_step = steps
    for part, mode in modes:  # one by one: parts may be frozen
        part.training = mode
    return history


def _weights(module: nn.Module) -> dict[str, Any]:
    return deepcopy(module.state_dict())
