"""Every part of the table that is tested on: one after the other, or side by side in several processes.

What is finished is in the run folder at once, whoever finished it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from latentgraph.processes import side_by_side
from latentgraph.progress import progress
from latentgraph.runs import testing
from latentgraph.runs.plan import Plan
from latentgraph.runs.testing import OURS, Array, Tested
from latentgraph.tables import Target


@dataclass(frozen=True)
class Part:
    """One part to test on, with all that a test needs, so that another process can do it."""

    plan: Plan
    frame: Any
    target: Target
    y: Array
    split: tuple[Array, Array]
    number: int
    unfinished: Path

    @property
    def name(self) -> str:
        return f"fold {self.number} of {self.plan.folds}" if self.plan.folds else "test"

    @property
    def place(self) -> Path:
        """Where the result is kept."""
        return self.unfinished / f"test-{self.number}"


def parts(
    plan: Plan, frame: Any, target: Target, y: Array, splits: Sequence[tuple[Array, Array]], unfinished: Path
) -> list[Part]:
    """Everything that is tested on, in order; results are kept in the folder `unfinished`."""
    return [Part(plan, frame, target, y, split, number, unfinished) for number, split in enumerate(splits, 1)]


def tested(parts: Sequence[Part], jobs: int) -> list[Tested]:
    """The result on every part, in order. Parts whose result is kept are not tested again.

    With several jobs the processes are quiet, and each has as many threads as this one.
    """
    found: dict[int, Tested] = {}
    for part in parts:
        if (kept := Tested.load(part.place)) is not None:
            found[part.number] = kept
            part.plan.say(f"{part.name}: done before")
    missing = [part for part in parts if part.number not in found]
    alone = min(jobs, len(missing)) <= 1
    show = not alone and missing[0].plan.verbose
    if not alone:
        missing = [replace(part, plan=replace(part.plan, verbose=False)) for part in missing]
    tasks = [(part.name, part) for part in missing]
    with progress("folds", len(parts), show) as report:
        for part, result in side_by_side(carry_out, tasks, jobs, threads=torch.get_num_threads()):
            found[part.number] = result
            report(len(found), result.scores[OURS])
    return [found[part.number] for part in parts]


def carry_out(part: Part, *, keep: bool = True) -> Tested:
    """Train without the rows of a part, and test on them; the result is kept at once, or by another process."""
    part.plan.say(f"{part.name}: {len(part.split[0])} rows to learn from")
    training = part.unfinished / f"training-{part.number}"
    result = testing.tested(part.plan, part.frame, part.target, part.y, part.split, training)
    if keep:
        result.save(part.place)
    return result
