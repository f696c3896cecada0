"""Where the data sets lie that cannot be shipped."""

from __future__ import annotations

import os
from pathlib import Path

from latentgraph.errors import InputError

VARIABLE = "LATENTGRAPH_DATA"


def data_file(name: str, root: str | os.PathLike[str] | None, how_to_get: str) -> Path:
    """The path of a data file below `root`, by default the folder that the variable LATENTGRAPH_DATA names."""
    root = root or os.environ.get(VARIABLE)
    if not root:
        raise InputError(
            f"the data set {name} is not part of this package. {how_to_get} Then pass --data-root FOLDER (in Python: "
            f"root=...), or set the variable {VARIABLE}."
        )
    path = Path(root) / name
    if not path.exists():
        raise InputError(f"{path} does not exist. {how_to_get}")
    return path
