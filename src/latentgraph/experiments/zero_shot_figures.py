"""The paper's figure of its zero-shot section: around the sheep, in WordNet and in a learned graph, and edges by hops.

`python -m latentgraph.experiments.zero_shot_figures DATA_FOLDER OUT_FOLDER` trains a network and writes three pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from latentgraph.datasets.zero_shot import ImageNetClasses, imagenet_classes
from latentgraph.experiments.zero_shot import STEPS, problem
from latentgraph.explorer.figures import probability_by_hops, ring_figure
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.sampling import nearest
from latentgraph.zero_shot.hierarchy import child_matrix
from latentgraph.zero_shot.learned_graph import BestDGM

NODE = "sheep"
MOST = 5  # edges of a node that are drawn, as in the paper
HOPS = 8


def trained_module(data: ImageNetClasses, *, steps: int = STEPS, hidden: int = BestDGM.hidden) -> DiscreteDGM:
    """The graph module of "dDGM, best" on the first choice of held-out classes; it sees words alone."""
    method = BestDGM(0, steps=steps)
    method.hidden = hidden
    method.fit(problem(data, 0)[0])
    return next(module for module in method.net.modules() if isinstance(module, DiscreteDGM))


@torch.no_grad()
def write(data: ImageNetClasses, module: DiscreteDGM, out: Path) -> list[Path]:
    """Three pictures: zero_shot_wordnet.png, zero_shot_learned.png, zero_shot_hops.png."""
    space = module.geometry
    # f is node-wise: it also places words that are no class of ImageNet.
    x_hat = space.project(module.embed(F.normalize(data.x)))
    names = [name.replace("_", " ") for name in data.names]
    node = next(i for i in data.animals.tolist() if data.names[i] == NODE)  # another node has the same name
    children = child_matrix(data.parent_edges, len(names))
    around = sp.csr_array(children + children.T)
    n = data.num_candidates
    # The most probable edges are the nearest neighbours; ring_figure orders them by p.
    chosen = nearest(x_hat[:n], MOST, geometry=space)
    square = space.sq_dist(x_hat[:n, None], x_hat[chosen])
    start = np.arange(0, n * MOST + 1, MOST)
    p = torch.exp(-module.temperature * square).double().numpy()
    learned = sp.csr_array((p.ravel(), chosen.numpy().ravel(), start), shape=(n, n))
    graph = LatentGraph(x_hat, module.temperature, space)
    figures = {
        "wordnet": ring_figure(around, node, most=MOST, names=names),
        "learned": ring_figure(learned, node, most=MOST, names=names),
        "hops": probability_by_hops(
            graph, data.parent_edges, HOPS, nodes=data.animals.numpy(), among=data.has_vector.numpy()
        ),
    }
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"zero_shot_{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        figure.savefig(path, dpi=100)
    return paths


def main(data_folder: str, out: str) -> None:
    torch.set_num_threads(1)
    data = imagenet_classes(data_folder)
    for path in write(data, trained_module(data), Path(out)):
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
