"""`latentgraph fit`: test on rows that are kept away, train on all rows, keep the model.

Every finished step is in the run folder at once, and every training keeps how far it has come: an interrupted run goes
on to the same result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from latentgraph.experiments.results import versions
from latentgraph.runs import testing, writing
from latentgraph.runs.folder import RunFolder
from latentgraph.runs.plan import Plan
from latentgraph.runs.writing import Trained
from latentgraph.tables import Target
from latentgraph.working import current_team

T = TypeVar("T")


def run(plan: Plan, out: Path, *, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Test, train, and write the folder `out`; return its summary.

    Inside `latentgraph.distributed.group.joined` all processes call it. Each reads the table, they share the trainings,
    and the first has the folder; the others return an empty summary.

    Parameters
    ----------
    resume : continue the run that was interrupted in `out`, if there is one; the summary of a finished one is returned
    overwrite : replace a run that is in `out`
    """
    frame, target, y, splits, preprocessor, asked = _in_all(lambda: _prepare(plan))
    folder = RunFolder(out, plan.config(), asked)
    team = current_team()
    first = team is None or team.first
    with _work(folder, resume=resume, overwrite=overwrite) as finished:
        if finished:
            return json.loads((out / "summary.json").read_text(encoding="utf-8")) if first else {}
        parts = []
        for number, split in enumerate(splits, 1):
            name = f"fold {number} of {plan.folds}" if plan.folds else "test"
            place = folder.unfinished / f"test-{number}"
            part = testing.Tested.load(place) if first else None
            done = _told(part is not None)
            _say(plan, f"{name}: done before" if done else f"{name}: {len(split[0])} rows to learn from")
            if not done:
                part = testing.tested(plan, frame, target, y, split, folder.unfinished / f"training-{number}")
                if first:
                    part.save(place)
            if part is not None:
                parts.append(part)
        prepared = preprocessor.prepare(frame)
        _say(plan, f"final model: all {len(y)} rows")
        model = plan.estimator(target.task, folder.unfinished / "training-final").fit(prepared.x, y)
        if not first:
            return {}
        return writing.write(out, plan, Trained(frame, target, y, preprocessor, prepared, model, parts))


def _prepare(plan: Plan) -> tuple[Any, Target, Any, list[Any], Any, dict[str, Any]]:
    """The table, what to predict, the parts to test on, the preprocessing, and what decides the result."""
    plan.check()
    frame = plan.read()
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    splits = testing.splits(plan, y)
    # Early, as they may find fault with the table or the options.
    preprocessor = plan.preprocessor().fit(frame)
    plan.estimator(target.task)
    return frame, target, y, splits, preprocessor, _asked(plan)


@contextmanager
def _work(folder: RunFolder, *, resume: bool, overwrite: bool) -> Iterator[bool]:
    """`RunFolder.work` of the first process; the others hear whether it was finished, and its number of threads."""
    with ExitStack() as stack:
        found = _by_first(
            lambda: [stack.enter_context(folder.work(resume=resume, overwrite=overwrite)), torch.get_num_threads()]
        )
        torch.set_num_threads(found[1])
        yield bool(found[0])


def _in_all(function: Callable[[], T]) -> T:
    """Call it in every process; what one of them complains about ends all."""
    if (team := current_team()) is None:
        return function()
    from latentgraph.distributed.agreement import together

    return together(function, team)


def _told(value: T) -> T:
    """What the first process says."""
    return _by_first(lambda: value)


def _by_first(function: Callable[[], T]) -> T:
    """Call it in the first process, and tell the others what it found."""
    if (team := current_team()) is None:
        return function()
    from latentgraph.distributed.agreement import first_decides

    return first_decides(function, team)


def _asked(plan: Plan) -> dict[str, Any]:
    """What decides the result: the options, the bytes of the table, and the versions of what computes."""
    options = {name: value for name, value in plan.config().items() if name != "table"}
    return options | {"SHA-256 of the table": plan.table_sha256()} | versions()


def _say(plan: Plan, line: str) -> None:
    if plan.verbose:
        print(line, file=sys.stderr, flush=True)
