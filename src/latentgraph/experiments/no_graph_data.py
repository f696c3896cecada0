"""Data sets without a graph and with few labels, cut as in the comparison of LDS (Franceschi et al. 2019).

Wine, cancer and digits are scikit-learn's. The newsgroups are ten of the twenty, with the words that at least 5 % of
the messages have. Their labelled rows are drawn by a seed, the classes in the same proportions everywhere. Cora,
CiteSeer and PubMed have their public split; their links are withheld.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from latentgraph.datasets.news import news
from latentgraph.datasets.planetoid import NAMES as DOCUMENTS
from latentgraph.datasets.planetoid import Citations, planetoid

# name -> rows to learn from, rows to choose by
LABELS = {"wine": (10, 20), "cancer": (10, 20), "digits": (50, 100), "20news": (100, 200)}
DATA = (*LABELS, *DOCUMENTS)
GROUPS = (
    "alt.atheism",
    "comp.sys.ibm.pc.hardware",
    "misc.forsale",
    "rec.autos",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "talk.politics.guns",
)
FREQUENT = 0.05  # part of the messages that a word must be in
NO_LINKS = torch.empty(2, 0, dtype=torch.long)


def without_graph(data: str, seed: int, data_root: str | None, learn: int | None = None) -> Citations:
    """The rows, their classes and the three parts; no links.

    `learn` is another number of rows to learn from: drawn from the training rows of the public split where there is
    one, class by class.
    """
    if data in DOCUMENTS:
        documents = planetoid(data, data_root, split="public")._replace(edge_index=NO_LINKS)
        return documents if learn is None else documents._replace(train=_few(documents, learn, seed))
    x, y = _rows(data, data_root)
    wanted, choose = LABELS[data]
    wanted = learn or wanted
    known, _ = train_test_split(np.arange(len(y)), train_size=wanted + choose, stratify=y, random_state=seed)
    train, stop = train_test_split(known, train_size=wanted, stratify=y[known], random_state=seed)
    masks = torch.zeros(3, len(y), dtype=torch.bool)
    masks[0, train], masks[1, stop] = True, True
    masks[2] = ~(masks[0] | masks[1])
    return Citations(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y), NO_LINKS, *masks)


def _few(documents: Citations, learn: int, seed: int) -> torch.Tensor:
    rows = documents.train.nonzero()[:, 0].numpy()
    kept, _ = train_test_split(rows, train_size=learn, stratify=documents.y.numpy()[rows], random_state=seed)
    return torch.zeros_like(documents.train).index_fill(0, torch.as_tensor(kept), True)


@cache
def _rows(data: str, data_root: str | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All rows and classes: tables standardised, pixels between 0 and 1, words weighted by their rarity."""
    if data == "20news":
        return _news(data_root)
    load = {"wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}[data]
    x, y = load(return_X_y=True)
    return (x / 16.0 if data == "digits" else (x - x.mean(0)) / x.std(0)), y


def _news(data_root: str | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, groups = news(data_root)
    rows = np.flatnonzero(np.isin(groups, GROUPS))
    words = TfidfVectorizer(stop_words="english", min_df=FREQUENT, smooth_idf=False)
    x = words.fit_transform([texts[i] for i in rows]).toarray()
    return x, np.unique(groups[rows], return_inverse=True)[1]
