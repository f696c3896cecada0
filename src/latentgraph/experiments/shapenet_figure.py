"""The paper's figure of point clouds: whom a point would connect to, in the last two graphs of dDGM and of DGCNN."""

from __future__ import annotations

from pathlib import Path

import torch

from latentgraph.clouds import together
from latentgraph.datasets.shapenet import CATEGORIES
from latentgraph.experiments.running import cell_folder
from latentgraph.experiments.shapenet import whole
from latentgraph.experiments.shapenet_networks import OURS, PLAIN, kept_network
from latentgraph.explorer.cloud_figures import cloud_figure
from latentgraph.explorer.picture import saved
from latentgraph.graph import LatentGraph

CATEGORY = "Airplane"
LAYERS = {2: "second graph", 3: "third graph"}


def draw(name: str, data: str, out: Path, quick: bool, data_root: str | None) -> list[Path]:
    """NAME.png from the networks of seed 0; nothing before both are trained."""
    folders = {
        method: cell_folder(name, out, {"data": data, "method": method, "seed": 0}, quick=quick)
        for method in (OURS, PLAIN)
    }
    nets = [(method, net) for method, folder in folders.items() if (net := kept_network(method, folder)) is not None]
    if len(nets) < len(folders):
        return []
    test = whole(data, data_root).test  # with all their points: with the few of the budget a shape is hard to see
    shape = next(cloud for cloud in test if cloud.category == CATEGORIES.index(CATEGORY))
    nodes = together([shape])
    graphs: dict[str, LatentGraph] = {}
    for method, net in nets:
        with torch.no_grad():
            _, found = net(nodes.x, category=nodes.category, generator=torch.Generator().manual_seed(0))
        graphs |= {f"{method}, {words}": found[layer - 1] for layer, words in LAYERS.items()}
    # Points at the ends of the thing: the nose, the tip of a wing.
    chosen = [int(shape.points[:, 0].argmax()), int(shape.points[:, 2].argmax())]
    figure = cloud_figure(shape.points.numpy(), chosen, graphs, tilt=50.0)  # both wings are seen
    return [saved(figure, out / f"{name}{'-quick' if quick else ''}.png")]
