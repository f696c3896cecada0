"""How the point-cloud networks are trained, all in the same way, and what they say of clouds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from latentgraph import store
from latentgraph.checkpoint import Checkpoint
from latentgraph.clouds import Cloud, augmented, in_portions, random_batches, some_points, together
from latentgraph.datasets.shapenet import PARTS, ShapeNetPart
from latentgraph.gradients import StraightThrough
from latentgraph.loss import SampleMeanBaseline
from latentgraph.model import consensus
from latentgraph.presets import PointCloudNet, point_cloud_net, point_net
from latentgraph.segmentation import likeliest_part
from latentgraph.training import History, fit

PLAIN, OURS = "DGCNN", "dDGM"
STRAIGHT, FIXED = "dDGM, straight-through", "dDGM, f not learned"
NETWORKS: dict[str, Callable[[], PointCloudNet]] = {
    "no graph (PointNet)": point_net,
    PLAIN: partial(point_cloud_net, learned=False),
    OURS: point_cloud_net,
    STRAIGHT: point_cloud_net,
    FIXED: point_cloud_net,
}
LR = 2e-3
CHECKPOINT_SECONDS = 20.0
GRAPHS = 2  # in a step where graphs are sampled; each is expected to do as well as the other
NETWORK, WEIGHTS = "network", "weights.safetensors"


@dataclass(frozen=True)
class Budget:
    """The same for all networks.

    Attributes
    ----------
    points : of each cloud, drawn anew in every step
    clouds : in a step
    steps, eval_every : of training, and between validations
    shapes : of each category in each part of the split; None: all
    """

    points: int
    clouds: int
    steps: int
    eval_every: int
    shapes: int | None = None


def trained(
    method: str, seed: int, shapes: ShapeNetPart, budget: Budget, folder: Path
) -> tuple[PointCloudNet, History]:
    """A network with the weights that do best on the validation shapes. An interrupted training goes on in `folder`.

    Adam with a learning rate that falls to zero along a cosine.
    """
    device = _device()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = NETWORKS[method]().to(device)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=LR)
    draw = random_batches(
        shapes.train,
        budget.clouds,
        lambda cloud, generator: augmented(some_points(cloud, budget.points, generator), generator),
    )
    history = fit(
        net,
        lambda step, generator: draw(step, generator).to(device),
        validation=[nodes.to(device) for nodes in in_portions(shapes.validation, budget.clouds)],
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, budget.steps),
        lr=LR,
        steps=budget.steps,
        eval_every=budget.eval_every,
        eval_samples=1,
        checkpoint=Checkpoint(folder, seconds=CHECKPOINT_SECONDS),
        seed=seed,
        **_learning_graphs(method),
    )
    return net, history


def _learning_graphs(method: str) -> dict[str, Any]:
    """How sampled graphs learn: arguments of `fit`.

    In the paper by the graph loss, with the other graph of the same step as what was expected: the points are new in
    every step. Without any of these the networks learn to work on the graphs of an f that stays as it began.
    """
    if method == OURS:
        return {"baseline": SampleMeanBaseline(), "samples": GRAPHS}
    return {"gradient": StraightThrough()} if method == STRAIGHT else {}


def segmented(net: PointCloudNet, clouds: Sequence[Cloud], *, size: int, seed: int = 0) -> list[Tensor]:
    """The likeliest part of every point of each cloud, among the parts of its category; `size` clouds at a time."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for start in range(0, len(clouds), size):
        portion = clouds[start : start + size]
        nodes = together(portion).to(_device())
        probability, _ = consensus(
            net, nodes.x, batch=nodes.batch, category=nodes.category, samples=8, generator=generator
        )
        each = probability.cpu().split([len(cloud.points) for cloud in portion])
        found += [likeliest_part(p, PARTS[cloud.category]) for p, cloud in zip(each, portion, strict=True)]
    return found


def keep_network(net: PointCloudNet, folder: Path) -> None:
    store.save(folder / NETWORK, {WEIGHTS: net.state_dict()})


def kept_network(method: str, folder: Path) -> PointCloudNet | None:
    """The network of a finished cell, ready to be asked; None if there is none."""
    if not (folder / NETWORK).is_dir():
        return None
    net = NETWORKS[method]()
    net.load_state_dict(store.load(folder / NETWORK).tensors(WEIGHTS))
    return net.eval()


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
