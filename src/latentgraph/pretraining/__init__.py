"""Training f before the task: from an input graph, or from the features alone. No label is used.

One method in each file, all with the interface of `Method`. `pretrain` is the loop; the estimators and the command
line know the methods by name (`by_name`).
"""

from latentgraph.pretraining.contrastive import Contrastive
from latentgraph.pretraining.denoising import Denoising
from latentgraph.pretraining.links import Links
from latentgraph.pretraining.loop import pretrain
from latentgraph.pretraining.method import Method, Objective
from latentgraph.pretraining.names import METHODS, by_name

__all__ = ["METHODS", "Contrastive", "Denoising", "Links", "Method", "Objective", "by_name", "pretrain"]
