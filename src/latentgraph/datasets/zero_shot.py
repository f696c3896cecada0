"""Classes of ImageNet: a word vector for each, the tree they form in WordNet, and the classifiers of a thousand.

A stand-in for the data of the paper's zero-shot section: the classifiers are the last layer of an EfficientNet-Lite0
(1,280 features and a bias) instead of a ResNet-50's, the word vectors GloVe's with 100 numbers instead of 300, and
there is one real image of each of the thousand classes instead of the images of AWA2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from latentgraph.datasets.root import data_file

HOW_TO_GET = (
    "Put effnetlite0_imagenet.npz (fc_weight, fc_bias, sample_feat, wnids) and imagenet21k_glove100_wordnet.npz "
    "(glove, edges, names, wnids, n_all, awa2_test) into zeroshot/ below your data folder."
)


@dataclass(frozen=True)
class ImageNetClasses:
    """WordNet's n nouns around ImageNet, the m = 1,000 classes with a classifier first.

    Then come the other classes of ImageNet that have a word vector, then all else: nodes without a vector would meet at
    zero, which is near to everybody.

    Attributes
    ----------
    names : n words
    x : (n, 100) word vectors, not normalised; zero where there is none
    has_vector : (n,) bool
    parent_edges : (2, e) child above parent
    rows : (m, c + 1) classifiers: weights, then the bias
    images : (m, c + 1) features of one image of each, then a one: images @ rows.T are the scores
    num_candidates : the first so many of the n are the thousand and ImageNet's classes with a vector, 20,505 in all
    animals : (10,) the test classes of AWA2, none of which has a classifier
    """

    names: list[str]
    x: Tensor
    has_vector: Tensor
    parent_edges: Tensor
    rows: Tensor
    images: Tensor
    num_candidates: int
    animals: Tensor


def imagenet_classes(root: str | os.PathLike[str] | None = None) -> ImageNetClasses:
    """Read both files. The accuracy of the true classifiers on the images is 77.6 %."""
    with np.load(data_file("zeroshot/effnetlite0_imagenet.npz", root, HOW_TO_GET)) as data:
        rows = torch.as_tensor(np.concatenate([data["fc_weight"], data["fc_bias"][:, None]], axis=1))
        images = F.pad(torch.as_tensor(data["sample_feat"]), (0, 1), value=1.0)
        known = data["wnids"]
    with np.load(data_file("zeroshot/imagenet21k_glove100_wordnet.npz", root, HOW_TO_GET)) as data:
        assert (data["wnids"][: len(known)] == known).all()
        n, has_vector = len(data["names"]), data["has_vec"]
        number = np.arange(n)
        is_candidate = (number < len(known)) | ((number < int(data["n_all"])) & has_vector)
        order = np.argsort(~is_candidate, kind="stable")
        place = np.empty_like(order)
        place[order] = number  # old number -> new number
        return ImageNetClasses(
            names=data["names"][order].tolist(),
            x=torch.as_tensor(data["glove"][order]).float(),
            has_vector=torch.as_tensor(has_vector[order]),
            parent_edges=torch.as_tensor(place[data["edges"]].T.copy()),
            rows=rows,
            images=images,
            num_candidates=int(is_candidate.sum()),
            animals=torch.as_tensor(place[data["awa2_test"]]),
        )
