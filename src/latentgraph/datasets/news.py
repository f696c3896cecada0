"""20 newsgroups: 18,846 messages; the raw text, headers and all."""

from __future__ import annotations

import os
import tarfile

import numpy as np

from latentgraph.datasets.root import data_file

NAME = "20news/20ng_raw.tar.gz"
HOW_TO_GET = f"Put the by-date version of the 20 newsgroups, packed, at {NAME} below your data folder."


def news(root: str | os.PathLike[str] | None = None) -> tuple[list[str], np.ndarray]:
    """Texts and group names, in the order of the archive."""
    texts, groups = [], []
    with tarfile.open(data_file(NAME, root, HOW_TO_GET)) as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                texts.append(file.read().decode("latin-1"))
                groups.append(member.name.split("/")[-2])
    return texts, np.array(groups)
