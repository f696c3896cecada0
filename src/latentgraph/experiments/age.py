"""Age group by brain imaging. The paper does it on UK Biobank, which is private: an open table stands in for it.

The stand-in has 1,714 people of three sites in three age groups, everybody once. The sites differ in age (one is 22 to
36 years), so that a scanner's fingerprint may pass for age. Therefore everything is done with and without the site
among the features, and scored by site, too. If a table of UK Biobank is in the folder that LATENTGRAPH_DATA names, it
is computed in the same way, with the paper's four groups; without methods on graphs made by hand, which compare all
pairs and which the paper does not have there, either. LDS, which ran out of memory in the paper, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GroupKFold

from latentgraph.baselines import simple
from latentgraph.datasets.brainage import BrainAge, brainage
from latentgraph.datasets.ukbiobank import GROUPS, age_group, is_there, ukbiobank
from latentgraph.experiments import medical
from latentgraph.experiments.experiment import Cell, Experiment, as_printed, mean_and_deviation
from latentgraph.experiments.medical import SETTINGS, TRANSDUCTIVE, Make
from latentgraph.experiments.results import Results, published
from latentgraph.experiments.suite_data import AGES
from latentgraph.text_table import Table

KEY = ("data", "setting", "site", "method", "fold", "seed")
SEEDS = 1  # a fold is the repetition
STAND_IN, BIOBANK = "brain age", "UK Biobank"
WITHOUT, WITH = "without site", "with site"
NUM_FOLDS, QUICK_FOLDS = 5, 1
STEPS, QUICK_STEPS = 300, 5
BY_HAND = ("Spectral-GCN", "Multi-GCN", "InceptionGCN")
# All pairs of people in every step: with 300 these would take twice as long as all others. DGMClassifier: its default.
FEWER_STEPS = {"cDGM": 80, **dict.fromkeys(BY_HAND, 120), "DGMClassifier": 200}
SITE_NAMES = {"cam": "Cam-CAN", "hcp": "HCP", "ixi": "IXI"}

MAJORITY, SITE_ONLY = "majority class", "logistic regression, site only"
SIMPLE: dict[str, Make] = {
    MAJORITY: lambda seed, steps: simple.Simple(lambda _: DummyClassifier()),
    SITE_ONLY: medical.SIMPLE["logistic regression"],
    "logistic regression": medical.SIMPLE["logistic regression"],
    "random forest": medical.SIMPLE["random forest"],
}
METHODS: dict[str, Make] = {**SIMPLE, **{name: make for name, make in medical.NETWORKS.items() if name != "LDS"}}

PROTOCOL = (
    "5 folds by participant; 15 % of the training rows of each class held back, to stop by and to choose a strength; "
    "missing values filled and columns standardised by the training rows; the test fold is scored once. inductive: the "
    "people of the test fold join after training. with site: as features, and for graphs made by hand"
)

Array = NDArray[Any]


class Task(NamedTuple):
    """People, their age group (n,), and how many groups there are."""

    people: BrainAge
    group: Array
    num_groups: int


def _stand_in(root: str | None) -> Task:
    people = brainage(root)
    return Task(people, np.digitize(people.age, AGES), len(AGES) + 1)


def _biobank(root: str | None) -> Task:
    """Who is in none of the paper's groups is left out."""
    people = ukbiobank(root)
    group = age_group(people.age)
    return Task(BrainAge(*(column[group >= 0] for column in people)), group[group >= 0], len(GROUPS))


DATA: dict[str, Callable[[str | None], Task]] = {STAND_IN: _stand_in, BIOBANK: _biobank}


def cells(seeds: int, quick: bool, data_root: str | None = None) -> list[Cell]:
    return [
        {"data": data, "setting": setting, "site": site, "method": method, "fold": fold, "seed": seed}
        for data in DATA
        if data == STAND_IN or is_there(data_root)
        for fold in range(QUICK_FOLDS if quick else NUM_FOLDS)
        for seed in range(seeds)
        for site in (WITHOUT, WITH)
        for setting in SETTINGS
        for method in METHODS
        if not (method == SITE_ONLY and site == WITHOUT) and not (method in BY_HAND and data == BIOBANK)
    ]


def split(people: BrainAge, fold: int) -> tuple[Array, Array]:
    """Rows to learn from and to test on; nobody is in both. The same folds for every seed."""
    folds = GroupKFold(NUM_FOLDS, shuffle=True, random_state=0).split(people.x, groups=people.participant)
    train, test = list(folds)[fold]
    return train, test


def prepared(x: Array, train: Array) -> Array:
    """Gaps filled with the median of the rows `train`, then each column with mean 0 and deviation 1 over them."""
    x = x[:, np.isfinite(x[train]).any(0)]
    x = np.where(np.isfinite(x), x, np.nanmedian(x[train], axis=0))
    deviation = x[train].std(0)
    return (x - x[train].mean(0)) / np.where(deviation > 0, deviation, 1)


def compute(cell: Cell, quick: bool, data_root: str | None) -> dict[str, Any]:
    name, seed = cell["method"], cell["seed"]
    people, group, num_groups = DATA[cell["data"]](data_root)
    train, test = split(people, cell["fold"])
    x, meta = people.x, {"sex": people.sex}
    if cell["site"] == WITH:
        one_hot = (people.site[:, None] == np.unique(people.site)).astype(float)
        x, meta = np.column_stack([x, one_hot]), {**meta, "site": people.site}
        x = one_hot if name == SITE_ONLY else x
    steps = QUICK_STEPS if quick else FEWER_STEPS.get(name, STEPS)
    steps = 0 if name in SIMPLE else steps
    seen = medical.population(prepared(x, train), group, train, num_groups, seed=seed, meta=meta)
    right = medical.answers(METHODS[name](seed, steps), seen, cell["setting"]) == group
    sites = {str(site): float(right[test][people.site[test] == site].mean()) for site in np.unique(people.site[test])}
    return {"accuracy": float(right[test].mean()), "steps": steps, "sites": sites}


def tables(results: Results) -> list[Table]:
    found = [data for data in DATA if results.column("seed", data=data)]
    return [make(results, data) for data in found for make in (_methods, _sites)]


def _by_accuracy(results: Results, data: str) -> list[str]:
    """Methods of which there is something, the best first, by what they reach without the site where they have that."""

    def mean(name: str) -> float:
        ours = [results.column("accuracy", data=data, method=name, site=site) for site in (WITHOUT, WITH)]
        return float(np.mean(ours[0] or ours[1]))

    return sorted((name for name in METHODS if results.column("seed", data=data, method=name)), key=mean, reverse=True)


def _methods(results: Results, data: str) -> Table:
    paper = published("age")["rows"]
    rows = []
    for name in _by_accuracy(results, data):
        ours = [
            results.column("accuracy", data=data, method=name, site=site, setting=setting)
            for site in (WITHOUT, WITH)
            for setting in SETTINGS
        ]
        theirs = [as_printed(paper[setting].get(name)) for setting in SETTINGS]
        rows.append([name, *theirs, *map(mean_and_deviation, ours)])
    header = [f"paper, {BIOBANK}, {setting}" for setting in SETTINGS]
    header += [f"ours, {setting}, {site}" for site in (WITHOUT, WITH) for setting in SETTINGS]
    return Table(f"{data}; accuracy in %, mean ± standard deviation over folds", ["method", *header], rows)


def _sites(results: Results, data: str) -> Table:
    sites = sorted({site for found in results.column("sites", data=data) for site in found})
    rows = []
    for name in _by_accuracy(results, data):
        row = [name]
        for with_or_not in (WITHOUT, WITH):
            found = results.column("sites", data=data, method=name, site=with_or_not, setting=TRANSDUCTIVE)
            row += [mean_and_deviation([of[site] for of in found if site in of]) for site in sites]
        rows.append(row)
    header = [f"{SITE_NAMES.get(site, site)}, {with_or_not}" for with_or_not in (WITHOUT, WITH) for site in sites]
    return Table(f"{data}, transductive; accuracy in % at each site", ["method", *header], rows)


EXPERIMENTS = {"age": Experiment("age", KEY, SEEDS, cells, compute, tables, PROTOCOL)}
