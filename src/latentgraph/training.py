"""One training loop for every kind of node set.

Transductive: the training and the validation set are the same nodes with different masks. Inductive: the training set
holds the training rows only, the validation set all rows. Mini-batches: the training set is a sequence of node sets,
or a function that makes one for each step. Whole graphs with one target each: `graph_sets.GraphSet`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from latentgraph.checkpoint import Checkpoint, Standing
from latentgraph.errors import InputError
from latentgraph.gradients.gradient import Gradient
from latentgraph.gradients.using import gradient_of, use
from latentgraph.graph import LatentGraph
from latentgraph.loss import Likelihood, SampleMeanBaseline, graph_loss
from latentgraph.model import consensus
from latentgraph.node_set import Batches, NodeSet
from latentgraph.priors.prior import Prior, over_graphs
from latentgraph.progress import progress
from latentgraph.task import Task, classification, mean_probability_nll, regression
from latentgraph.working import Alone, Labelled, Working

if TYPE_CHECKING:
    from latentgraph.distributed.partition import Partition
    from latentgraph.distributed.working import Shards
    from latentgraph.priors.anneal import Anneal

__all__ = [
    "Batches",
    "Callback",
    "History",
    "NodeSet",
    "Task",
    "TrainState",
    "classification",
    "evaluate",
    "fit",
    "mean_probability_nll",
    "regression",
]


@dataclass
class TrainState:
    """What a callback sees after every step. Setting `stop` ends the training."""

    net: nn.Module
    step: int
    values: dict[str, float]
    graphs: list[LatentGraph]
    stop: bool = False


@dataclass
class History:
    """What happened: a dict of numbers for every step that was recorded, and the step whose weights were kept."""

    rows: list[dict[str, float]] = field(default_factory=list)
    best_step: int = 0
    best_score: float = float("inf")

    def column(self, name: str) -> list[float]:
        return [row[name] for row in self.rows if name in row]


Callback = Callable[[TrainState], None]


def fit(
    net: nn.Module,
    train: Batches,
    *,
    validation: NodeSet | Sequence[NodeSet] | None = None,
    task: Task | None = None,
    gradient: Gradient | None = None,
    baseline: nn.Module | None = None,
    graph_weight: float = 1.0,
    likelihood: Likelihood = "paper",
    auxiliary: nn.Module | None = None,
    auxiliary_weight: float = 1.0,
    priors: Sequence[Prior] = (),
    anneal: Anneal | None = None,
    samples: int = 1,
    steps: int = 500,
    lr: float = 1e-2,
    weight_decay: float = 0.0,
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: Any | None = None,
    eval_every: int = 10,
    eval_samples: int = 8,
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    seed: int = 0,
    sharing: Partition | Shards | None = None,
    show: bool = False,
    title: str = "training",
) -> History:
    """Train a network by its task loss and its graph loss, in one backward pass.

    Parameters
    ----------
    net : called as `net(x, edge_index, batch, generator=...)` -> (out, graphs), and with `category=` where a node set
        has one
    train : the nodes of every step; a sequence of node sets to go through in order, again and again; or a function of
        (step, generator) that makes one
    validation : nodes on which to stop early and to choose the weights to keep; several sets where one would not fit
        into memory. Without it the last weights are kept
    task : default `classification()`
    gradient : how sampled graphs learn, one of `latentgraph.gradients`: the graph modules of the network use it from
        now on. It decides on the graph loss, too, and on the samples; `graph_weight` still counts, and the reward is
        the task's. Default: what the modules have. Without one, `baseline`, `likelihood` and `samples` decide
    baseline : `MovingAverageBaseline` or `SampleMeanBaseline`; None leaves the graph loss out
    graph_weight, likelihood : weight and kind of the graph loss, which is averaged over labelled nodes
    auxiliary, auxiliary_weight : a head on the embedding of the first graph module (`nn.Linear(d_hat, classes)`),
        whose task loss is added with this weight: f is taught directly, too. The head is trained along
    priors : wishes about the graphs, `latentgraph.priors`: each is added with its weight, summed over the graph
        modules, for the first of the sampled graphs of a step
    anneal : a schedule of the temperatures, `latentgraph.priors.Anneal`
    samples : sampled graphs in one step; at least 2 for `SampleMeanBaseline`
    optimizer, scheduler : default Adam with `lr` and `weight_decay`, and no schedule
    eval_every, eval_samples : steps between validations, graphs in their consensus
    patience : stop after this many steps without a better validation score; None never stops early
    callbacks : called with a `TrainState` after every step
    checkpoint : where to keep how far training has come. If it was interrupted, the same call continues it, to the same
        result bit for bit on the same machine with as many threads; if it was finished, the call returns its result
    seed : of sampling, dropout and batches. The global random state is left as it was
    sharing : how several processes train together, see `latentgraph.distributed`; the result is the same in all of
        them. With a `Partition` the node sets hold the rows of this process, `partition.part(nodes)`. With `Shards`
        each process takes other node sets of a sequence; each has the whole validation set
    show : a progress bar on a terminal, or lines in a log

    Returns
    -------
    `History`. The network holds the kept weights and is in evaluation mode.
    """
    task = task or classification()
    if gradient is not None:
        use(net, gradient)
    gradient = gradient_of(net)
    if gradient is not None:
        if baseline is not None or samples != 1:
            raise InputError(f"{gradient!r} has its own baseline and samples; leave those of fit out.")
        baseline, samples = gradient.baseline, gradient.samples
    _check(train, validation, baseline, samples, steps, eval_every, alone=sharing is None)
    work = _working(sharing)
    if gradient is not None and "partition" in work.options:
        raise InputError(
            f"{gradient!r} needs all rows of a population in one process, but several share them. Use `Attended` "
            "convolutions (gradient='softmax' of the estimators), or baseline=MovingAverageBaseline(...)."
        )
    if sharing is not None and (priors or anneal is not None):
        raise InputError(
            "priors and anneal look at whole graphs in one process, but several share this training. Leave them out, "
            "or start one process."
        )
    if anneal is not None:
        anneal.hold(net)
    optimizer = optimizer or _adam(nn.ModuleList([net, auxiliary or nn.Identity()]), lr, weight_decay)
    side = None if auxiliary is None else (auxiliary, auxiliary_weight)
    generator = torch.Generator().manual_seed(seed)
    options = {
        "seed": seed,
        "steps": steps,
        "samples": samples,
        "lr": lr,
        "weight_decay": weight_decay,
        "graph_weight": graph_weight,
        "likelihood": likelihood,
        "gradient": None if gradient is None else repr(gradient),
        "auxiliary_weight": auxiliary_weight,
        "priors": [repr(prior) for prior in priors] or None,
        "anneal": None if anneal is None else repr(anneal),
        "eval_every": eval_every,
        "eval_samples": eval_samples,
        "patience": patience,
    }
    holders = {"net": net, "auxiliary": auxiliary, "baseline": baseline, "optimizer": optimizer, "scheduler": scheduler}
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    standing = Standing(options, holders, generator, device)
    best: dict[str, Any] | None = None
    history, stop = History(), False
    nets = [module for module in (net, auxiliary, baseline) if module is not None]
    with (
        torch.random.fork_rng(),
        progress(title, steps, show and work.first) as report,
        work.around(nets, train, generator),
    ):
        torch.manual_seed(seed)
        if checkpoint is not None and (kept := work.load(checkpoint)) is not None:
            standing.restore(kept, checkpoint.folder)
            history, best, stop = History(**kept["history"]), kept["best"], kept["stop"]
        elif anneal is not None:
            anneal.begin(net, partial(work.nodes, train, 1), generator)
        while len(history.rows) < steps and not stop:
            step = len(history.rows) + 1
            net.train()
            if anneal is not None and step > 1:
                anneal.advance(net, step)
            nodes = work.nodes(train, step, generator)
            _check_credit(gradient, nodes)
            with work.sampling(generator) as drawn:
                values, graphs = _step(
                    net,
                    nodes,
                    task,
                    gradient,
                    baseline,
                    graph_weight,
                    likelihood,
                    side,
                    priors,
                    samples,
                    optimizer,
                    drawn,
                    work,
                )
            if scheduler is not None:
                scheduler.step()
            state = TrainState(net, step, values, graphs)
            if validation is not None and (step % eval_every == 0 or step == steps):
                values.update(_evaluate(net, validation, task, eval_samples, seed, work.validating))
                if values["validation"] < history.best_score:
                    history.best_step, history.best_score = step, values["validation"]
                    best = deepcopy(net.state_dict())
                state.stop = patience is not None and step - history.best_step >= patience
            for callback in callbacks:
                callback(state)
            history.rows.append({"step": step, **values})
            report(step, values)
            stop = work.agreed(state.stop)
            if checkpoint is not None and work.first and (checkpoint.due or stop or step == steps):
                checkpoint.save(standing.state() | {"history": vars(history), "best": best, "stop": stop})
    if best is not None:
        net.load_state_dict(best)
    else:
        history.best_step = len(history.rows)
    net.eval()
    return history


def evaluate(
    net: nn.Module,
    nodes: NodeSet | Sequence[NodeSet],
    task: Task | None = None,
    *,
    samples: int = 8,
    seed: int = 0,
    partition: Partition | None = None,
) -> dict[str, float]:
    """Consensus prediction of a node set: its score under "validation", and the accuracy of class predictions.

    Of several node sets, the mean over all their labelled nodes. The graphs are sampled with the same seed every time,
    so that two evaluations differ by the network alone. With a `partition` a node set holds the rows of this process,
    and the score is that of all.
    """
    work = _working(partition)
    with work.seeing([net]):
        return _evaluate(net, nodes, task or classification(), samples, seed, work)


def _evaluate(
    net: nn.Module, nodes: NodeSet | Sequence[NodeSet], task: Task, samples: int, seed: int, work: Working
) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    if isinstance(nodes, NodeSet):
        return _evaluate_one(net, nodes, task, samples, generator, work)
    parts = [part for part in nodes if len(work.labelled(part).y)]
    if not parts:
        raise InputError("there is no labelled node to evaluate in any of the node sets.")
    counts = [len(work.labelled(part).y) for part in parts]
    values = [_evaluate_one(net, part, task, samples, generator, work) for part in parts]
    total = sum(counts)
    return {
        name: sum(count * value[name] for count, value in zip(counts, values, strict=True)) / total
        for name in values[0]
    }


def _evaluate_one(
    net: nn.Module, nodes: NodeSet, task: Task, samples: int, generator: torch.Generator, work: Working
) -> dict[str, float]:
    mean, _ = consensus(
        net,
        nodes.x,
        nodes.edge_index,
        nodes.batch,
        category=nodes.category,
        samples=samples,
        link=task.link,
        generator=generator,
        **work.options,
    )
    known = work.labelled(nodes)
    mean, y = work.of_all(mean.index_select(0, known.rows), known), known.y
    values = {"validation": float(task.score(mean, y))}
    if not y.is_floating_point():
        values["accuracy"] = float((mean.argmax(-1) == y).float().mean())
    return values


def _step(
    net: nn.Module,
    nodes: NodeSet,
    task: Task,
    gradient: Gradient | None,
    baseline: nn.Module | None,
    graph_weight: float,
    likelihood: Likelihood,
    side: tuple[nn.Module, float] | None,
    priors: Sequence[Prior],
    samples: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    work: Working,
) -> tuple[dict[str, float], list[LatentGraph]]:
    """One optimisation step: sample graphs, predict, compare with what was expected, one backward pass."""
    labelled = work.labelled(nodes)
    rows, y = labelled.rows, labelled.y
    results = [_call(net, nodes, generator, work.options) for _ in range(samples)]
    outs = [work.of_all(out.index_select(0, rows), labelled) for out, _ in results]
    known = (y,) if labelled.weight is None else (y, labelled.weight)
    task_loss = torch.stack([task.loss(out, *known) for out in outs]).mean()
    values = {"loss": float(task_loss.detach())}
    total = task_loss
    if side is not None:
        head, weight = side
        heads = [head(nodes.per_target(graphs[0].x_hat)).index_select(0, rows) for _, graphs in results]
        told = torch.stack([task.loss(work.of_all(out, labelled), *known) for out in heads])
        total = total + weight * told.mean()
        values["auxiliary_loss"] = float(told.mean().detach())
    if baseline is not None:
        reward = torch.stack([task.reward(out, y) for out in outs])
        deltas = _deltas(baseline, reward, labelled)
        if gradient is None:
            of_graphs: Callable[..., Tensor] = partial(graph_loss, likelihood=likelihood)
        else:
            of_graphs = gradient.graph_loss
            if labelled.weight is not None:  # a reward counts as much as the loss that it stands for
                deltas = deltas * labelled.weight * len(y) / labelled.weight.sum()
        graph_losses = [
            of_graphs(graphs, nodes.credit(labelled.own(delta), rows)) / max(len(y), 1)
            for (_, graphs), delta in zip(results, deltas, strict=True)
        ]
        learned = torch.stack(graph_losses).mean()
        total = total + graph_weight * learned
        values |= {"graph_loss": float(work.total(learned.detach())), "reward": float(reward.mean())}
    for prior in priors:
        out, graphs = results[0]
        wish = over_graphs(prior, graphs, nodes.x, out, generator)
        total = total + prior.weight * wish
        values[prior.name] = float(wish.detach())
    optimizer.zero_grad()
    total.backward()
    work.add_gradients(optimizer)
    optimizer.step()
    return values, results[0][1]


def _call(
    net: nn.Module, nodes: NodeSet, generator: torch.Generator, options: dict[str, Any]
) -> tuple[Tensor, list[LatentGraph]]:
    if nodes.category is not None:  # only a network that is given categories has to know the word
        options = {**options, "category": nodes.category}
    return net(nodes.x, nodes.edge_index, nodes.batch, generator=generator, **options)


def _check_credit(gradient: Gradient | None, nodes: NodeSet) -> None:
    """In every step, for a function that makes node sets does not tell beforehand which kind it makes."""
    if gradient is not None and gradient.spreads_rewards and nodes.shares_rewards:
        raise InputError(
            f"{gradient!r} hands the reward of a node on to others, but in a {type(nodes).__name__} all nodes of a "
            "graph have its reward already: it would count once for each node. Use PlackettLuce(hops=0)."
        )


def _deltas(baseline: nn.Module, reward: Tensor, labelled: Labelled) -> Tensor:
    """Expected minus actual reward: (samples, m) -> (samples, m)."""
    if isinstance(baseline, SampleMeanBaseline):
        return baseline(reward)
    return torch.stack([baseline(r, labelled.node_id) for r in reward])


def _working(sharing: Partition | Shards | None) -> Working:
    if sharing is None:
        return Alone()
    from latentgraph.distributed.partition import Partition
    from latentgraph.distributed.working import SharedRows

    return SharedRows(sharing) if isinstance(sharing, Partition) else sharing


def _adam(net: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam. Weights decay, but not single numbers: a temperature or threshold has no reason to go to one or zero."""
    learned = [p for p in net.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learned if p.ndim > 0]},
        {"params": [p for p in learned if p.ndim == 0], "weight_decay": 0.0},
    ]
    return torch.optim.Adam([g for g in groups if g["params"]], lr=lr, weight_decay=weight_decay)


def _check(
    train: Batches,
    validation: NodeSet | Sequence[NodeSet] | None,
    baseline: nn.Module | None,
    samples: int,
    steps: int,
    eval_every: int,
    *,
    alone: bool,
) -> None:
    if isinstance(baseline, SampleMeanBaseline) and samples < 2:
        raise InputError(
            f"samples={samples} but SampleMeanBaseline compares several sampled graphs of one step. "
            "Pass samples=4, or use MovingAverageBaseline."
        )
    if samples < 1 or steps < 1 or eval_every < 1:
        raise InputError(f"samples={samples}, steps={steps}, eval_every={eval_every}; each must be at least 1.")
    if isinstance(train, NodeSet) and alone and not len(train.rows):
        raise InputError("the training set has no labelled node: every target is -1 or NaN, or the mask is empty.")
    if isinstance(train, Sequence) and not len(train):
        raise InputError("the training set is an empty sequence of node sets; it needs at least one.")
    sets = [validation] if isinstance(validation, NodeSet) else validation
    if sets is not None and alone and not any(len(nodes.rows) for nodes in sets):
        raise InputError("the validation set has no labelled node: every target is -1 or NaN, or the mask is empty.")
