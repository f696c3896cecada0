"""Age from cortical thickness: 1,714 people of three sites (Cam-CAN, HCP, IXI), the cortex in 70 numbers, and the sex.

Two files that are thought as training and test part, but 7 people are in both and 31 rows are there twice: every
person is kept once. The site is no feature, for it nearly tells the age (HCP is 22 to 36 years).
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from latentgraph.datasets.root import data_file

FILES = ("brainage/cpc_hcp_ixi_train.csv", "brainage/cpc_hcp_ixi_test.csv")
HOW_TO_GET = f"Put the tables of the brain-age challenge at {FILES[0]} and {FILES[1]} below your data folder."


class BrainAge(NamedTuple):
    """People and what a scanner saw of their brains.

    Attributes
    ----------
    x : (n, d) features, the sex first; NaN where a measurement is missing
    age : (n,) in years
    site : (n,) where the scanner stands
    participant : (n,) who it is; everybody is there once
    sex : (n,) as the source writes it; also the first column of x
    """

    x: np.ndarray[Any, np.dtype[np.float64]]
    age: np.ndarray[Any, np.dtype[np.float64]]
    site: np.ndarray[Any, Any]
    participant: np.ndarray[Any, Any]
    sex: np.ndarray[Any, Any]


def brainage(root: str | os.PathLike[str] | None = None) -> BrainAge:
    """Everybody once, with 71 features."""
    parts = [pd.read_csv(data_file(name, root, HOW_TO_GET)) for name in FILES]
    people = pd.concat(parts).drop_duplicates("participant_id")
    features = people[["sex", *(name for name in people.columns if name.endswith("_thickness"))]]
    return BrainAge(
        features.to_numpy(float),
        people["age"].to_numpy(float),
        people["site"].to_numpy(object),
        people["participant_id"].to_numpy(object),
        people["sex"].to_numpy(),
    )
