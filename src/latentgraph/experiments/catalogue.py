"""The names of all tables that `latentgraph reproduce` computes. Imports nothing: `--list` and `--help` are quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latentgraph.experiments.experiment import Experiment

# name -> the module below latentgraph.experiments that has it in EXPERIMENTS, and what it is
CATALOGUE = {
    "citation-k": ("citation", "documents of Cora, CiteSeer, PubMed: how many neighbours to sample"),
    "citation-geometry": ("citation", "the same: Euclidean, hyperbolic, spherical and product embeddings"),
    "citation-dim": ("citation", "the same: dimension of the embedding"),
    "citation-layers": ("citation", "the same: how many graph modules, none to three"),
    "citation-f": ("citation", "the same: the function that embeds"),
    "citation-g": ("citation", "the same: the convolution, with and without a learned graph"),
    "citation-methods": ("citation", "the same: all methods beside each other, the paper's split, carefully trained"),
    "citation-public": ("citation", "not of the paper: all methods on the usual split with 20 labels a class"),
    "citation-random": (
        "random_splits",
        "not of the paper: ten random splits, a learned graph against others in pairs",
    ),
    "citation-parts": ("parts", "not of the paper: our recipe with one part changed at a time, by validation accuracy"),
    "citation-tuning": ("tuning", "not of the paper: settings of networks on documents, by validation accuracy"),
    "citation-tuned": ("tuning", "the same on ten random splits, each network with its best settings"),
    "tadpole-architectures": ("tadpole", "diagnosis of 564 patients: the paper's choices of f and g"),
    "tadpole": ("tadpole", "the same: all methods of the paper, and simple ones; also without the score-like columns"),
    "tadpole-inductive": ("tadpole", "the same, when the patients to be diagnosed are not there in training"),
    "tadpole-tuned": (
        "tadpole_tuned",
        "not of the paper: each method with the best of ten settings, chosen in the training rows",
    ),
    "age": ("age", "age group by the cortex of 1,714 people: open stand-in for the paper's UK Biobank"),
    "zeroshot": (
        "zero_shot",
        "classifiers of held-out ImageNet classes by their names: a proxy of the paper's section",
    ),
    "heterophilic": ("heterophilic", "not of the paper: six graphs whose neighbours mostly differ, ten splits each"),
    "no-graph": ("no_graph", "not of the paper: few labels and no graph, seven data sets of graph-structure learners"),
    "no-graph-trials": ("no_graph", "the same: what was tried, by validation accuracy"),
    "whole-graphs": ("whole_graphs", "not of the paper: molecules and proteins, each a graph of its own, ten folds"),
    "shapenet": ("shapenet", "parts of 3D shapes, point by point: DGCNN and dDGM on a subset of ShapeNet part"),
    "shapenet-full": ("shapenet", "the same with all of ShapeNet part and the paper's sizes; wants a GPU"),
    "gradients": ("gradients", "not of the paper: ways to train a sampled graph, in one network on Cora"),
    "learned-graphs": (
        "learned_graphs",
        "not of the paper: same class, same again? Learned graphs of six tables, read",
    ),
    "times": ("times", "training and test iterations from 564 to 1,000,000 nodes"),
    "tables": ("suite", "not of the paper: the classifier as it comes on seven tables, with all labels and with 5 %"),
    "table-parts": ("table_parts", "the same: what the graph, its learning and the forest are worth"),
}

# name -> the same with all of its data. No results are committed: they take data and a machine that were not at hand
IN_FULL = {"shapenet": "shapenet-full"}


def experiment(name: str) -> Experiment:
    module, _ = CATALOGUE[name]
    found: Experiment = import_module(f"latentgraph.experiments.{module}").EXPERIMENTS[name]
    return found
