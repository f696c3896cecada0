"""`latentgraph inspect`: what the learned graph of a run says, and whether other runs have learned the same."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from latentgraph.errors import InputError
from latentgraph.reports import bridges, degrees, differences, homophily, stability
from latentgraph.runs.folder import read_record


@dataclass(frozen=True)
class Seen:
    """What of a run folder is looked at: the graph, and name, target and prediction of each row ("" for none)."""

    folder: Path
    target: str
    task: str
    graph: sp.csr_array
    names: list[str]
    labels: list[str]
    predictions: list[str]

    @classmethod
    def read(cls, folder: Path) -> Seen:
        missing = [name for name in ("summary.json", "nodes.csv", "graph.npz") if not (folder / name).is_file()]
        if missing:
            record = read_record(folder) if folder.is_dir() else None
            if record is not None and not record["finished"]:
                raise InputError(f"{folder} holds an interrupted run. Continue it with latentgraph fit --resume.")
            raise InputError(f"{folder} has no {missing[0]}; name a folder that latentgraph fit or demo has written.")
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            with (folder / "nodes.csv").open(encoding="utf-8", newline="") as file:
                _, *lines = csv.reader(file)
            names, labels, predictions = ([line[place] for line in lines] for place in range(3))
            graph = sp.csr_array(sp.load_npz(folder / "graph.npz"))
            if graph.shape != (len(names), len(names)):
                raise ValueError(f"{graph.shape} and {len(names)}")
            return cls(folder, summary["target"], summary["task"], graph, names, labels, predictions)
        except (ValueError, KeyError, IndexError, TypeError, BadZipFile, csv.Error) as error:
            raise InputError(f"the files of the run in {folder} are damaged. Run latentgraph fit again.") from error

    def in_order_of(self, other: Seen) -> sp.csr_array:
        """The graph, with the rows as they come in another run."""
        if self.names == other.names:
            return self.graph
        place = {name: i for i, name in enumerate(self.names)}
        if len(place) < len(self.names) or sorted(self.names) != sorted(other.names):
            raise InputError(
                f"{self.folder} and {other.folder} are runs on different rows; only graphs between the same rows can "
                "be compared. Fit the same table with several values of --seed."
            )
        order = np.array([place[name] for name in other.names])
        return sp.csr_array(self.graph[order][:, order])


def run(folders: Sequence[Path], k: int = 10) -> dict[str, Any]:
    """What there is to say about the first run, and how far the graphs of the others overlap with its own.

    k : rows between classes to name, at most
    """
    if k < 1:
        raise InputError(f"bridges={k}; it must be at least 1.")
    first, *others = (Seen.read(folder) for folder in folders)
    found: dict[str, Any] = {"run": str(first.folder), "target": first.target, "task": first.task}
    shared = degrees(first.graph)
    found["degrees"] = asdict(shared) | {"hub": first.names[shared.hub]}
    if first.task == "regression":
        known = [float(value) if value else math.nan for value in first.labels]
        found["differences"] = _plain(asdict(differences(first.graph, known)))
    else:
        found["homophily"] = _plain(asdict(homophily(first.graph, first.labels)))
        # Of an unlabelled row the prediction is the best guess. For homophily it would be circular: the graph made it.
        guessed = [label or said for label, said in zip(first.labels, first.predictions, strict=True)]
        found["bridges"] = [
            {
                "row": first.names[bridge.node],
                "class": bridge.own,
                "labelled": first.labels[bridge.node] != "",
                "other class": bridge.other,
                "crossing": bridge.crossing,
                "share": bridge.share,
            }
            for bridge in bridges(first.graph, guessed, k)
        ]
    if others:
        compared = stability([first.graph, *(other.in_order_of(first) for other in others)])
        pairs = compared.between[np.triu_indices(len(folders), 1)]
        found["stability"] = {
            "runs": [str(folder) for folder in folders],
            "overlap": compared.overlap,
            "lowest": float(pairs.min()),
            "highest": float(pairs.max()),
            "chance": compared.chance,
            "between": compared.between.tolist(),
        }
    return found


def sentences(found: dict[str, Any]) -> list[str]:
    """The same in words."""
    target, shared = found["target"], found["degrees"]
    said = [
        f"{shared['nodes']} rows, each with {shared['neighbours']:.3g} neighbours. {shared['hub']} is chosen most "
        f"often, by {shared['most']:.3g} rows; {shared['never']} rows are chosen by nobody."
    ]
    if (alike := found.get("homophily")) is not None:
        said.append(_about_classes(target, alike))
    if (apart := found.get("differences")) is not None:
        said.append(_about_numbers(target, apart))
    if (compared := found.get("stability")) is not None:
        count, between = len(compared["runs"]), ""
        if count > 2:
            between = f", {_percent(compared['lowest'])} to {_percent(compared['highest'])} between two of them"
        said.append(
            f"The edges of the {count} runs overlap by {_percent(compared['overlap'])}{between}; by chance, it would "
            f"be {_percent(compared['chance'])}."
        )
    return said


def _about_classes(target: str, alike: dict[str, Any]) -> str:
    if alike["edge"] is None:
        return f"No edge joins two rows whose {target} is known."
    against = f"by chance, it would be {_percent(alike['chance'])}"
    if alike["adjusted"] is not None:
        against += f". Adjusted for chance: {alike['adjusted']:.2f} (0 is chance, 1 is all)"
    return (
        f"{_percent(alike['edge'])} of the edges between rows of known {target} join the same {target}; {against}. The "
        "model has learned from these rows: others may be less well joined."
    )


def _about_numbers(target: str, apart: dict[str, Any]) -> str:
    if apart["edge"] is None:
        return f"No edge joins two rows whose {target} is known."
    return (
        f"The {target} at the two ends of an edge differs by {apart['edge']:.4g} on average; by chance, it would be "
        f"{apart['chance']:.4g}. The model has learned from these rows: others may be less well joined."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}
