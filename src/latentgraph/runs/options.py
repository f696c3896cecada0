"""Options of the estimators on the command line: known here, too, since `--help` must not wait for torch."""

from __future__ import annotations

from typing import Any, NamedTuple


class Option(NamedTuple):
    name: str
    default: Any
    help: str
    type: Any = None  # that of the default, unless said


OPTIONS = [
    Option("k", 10, "neighbours sampled for each row"),
    Option("hidden", 64, "width of the hidden layers"),
    Option("embedding_dim", None, "dimensions of the graph embedding; default 16, in large tables 4", int | None),
    Option("geometry", "euclidean", "space of the embedding: euclidean, hyperbolic or sphere"),
    Option("gradient", "softmax", "how the graph learns: softmax, straight_through, implicit, subsets, reinforce, ..."),
    Option("pretrain", "none", "train the embedding before, without labels: none, contrastive or denoising"),
    Option("dropout", 0.3, "share of the units left out in each step"),
    Option("auxiliary", 1.0, "weight of a linear model on the graph embedding"),
    Option("learning_rate", 0.01, "of Adam"),
    Option("weight_decay", 0.3, "of AdamW"),
    Option("steps", 200, "at most so many training steps"),
    Option("patience", 50, "steps without a better validation score that end the training"),
    Option("validation_fraction", 0.15, "part of the labelled rows that decides when to stop"),
    Option("batch_size", 32768, "rows of a training step; larger tables are learned from in random parts"),
    Option("samples", 8, "graphs over which predictions are averaged"),
    Option("trees", 200, "of a random forest that tells the network what it thinks; 0 for none"),
    Option("spread", True, "whether few labels spread over alike rows first: true or false"),
    Option("class_weight", None, "balanced: each class counts the same, however rare", str | None),
    Option("joint", False, "whether new rows that are predicted together see each other: true or false"),
    Option("device", "cpu", "where to train, as torch names it"),
]

DEFAULTS = {option.name: option.default for option in OPTIONS}
