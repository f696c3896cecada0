"""`latentgraph fit`: test on rows that are kept away, train on all rows, keep the model.

Every finished step is in the run folder at once, and every training keeps how far it has come: an interrupted run goes
on to the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits

from latentgraph.errors import InputError
from latentgraph.experiments.results import versions
from latentgraph.runs import folds, testing, writing
from latentgraph.runs.folder import RunFolder
from latentgraph.runs.plan import Plan
from latentgraph.runs.testing import Tested
from latentgraph.runs.writing import Trained
from latentgraph.tables import Target
from latentgraph.working import current_team

T = TypeVar("T")


def run(plan: Plan, out: Path, *, resume: bool = False, overwrite: bool = False, jobs: int = 1) -> dict[str, Any]:
    """Test, train, and write the folder `out`; return its summary.

    Inside `latentgraph.distributed.group.joined` all processes call it. Each reads the table, they share the trainings,
    and the first has the folder; the others return an empty summary.

    Parameters
    ----------
    resume : continue the run that was interrupted in `out`, if there is one; the summary of a finished one is returned
    overwrite : replace a run that is in `out`
    jobs : processes that test folds side by side. With more than one, everything has one thread; the result is that
        of one job with one thread, bit for bit. A run that is continued has the threads of its beginning
    """
    frame, target, y, splits, preprocessor, asked = _in_all(lambda: _prepare(plan, jobs))
    folder = RunFolder(out, plan.config(), asked)
    if jobs > 1:
        torch.set_num_threads(1)
    team = current_team()
    first = team is None or team.first
    # BLAS gets as many threads as torch: with others, the methods of scikit-learn would round differently.
    with _work(folder, resume=resume, overwrite=overwrite) as finished, threadpool_limits(torch.get_num_threads()):
        if finished:
            return json.loads((out / "summary.json").read_text(encoding="utf-8")) if first else {}
        each = folds.parts(plan, frame, target, y, splits, folder.unfinished)
        results = folds.tested(each, jobs) if team is None else _tested_together(each, first)
        prepared = preprocessor.prepare(frame)
        plan.say(f"final model: all {len(y)} rows")
        model = plan.estimator(target.task, folder.unfinished / "training-final").fit(prepared.x, y)
        if not first:
            return {}
        return writing.write(out, plan, Trained(frame, target, y, preprocessor, prepared, model, results))


def _prepare(plan: Plan, jobs: int) -> tuple[Any, Target, Any, list[Any], Any, dict[str, Any]]:
    """The table, what to predict, the parts to test on, the preprocessing, and what decides the result."""
    plan.check()
    if jobs < 1:
        raise InputError(f"jobs={jobs}; it must be at least 1.")
    if jobs > 1 and current_team() is not None:
        raise InputError(f"jobs={jobs}, but processes of torchrun share every training already. Leave out jobs.")
    frame = plan.read()
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    splits = testing.splits(plan, y)
    # Early, as they may find fault with the table or the options.
    preprocessor = plan.preprocessor().fit(frame)
    plan.estimator(target.task)
    return frame, target, y, splits, preprocessor, _asked(plan)


def _tested_together(parts: list[folds.Part], first: bool) -> list[Tested]:
    """All processes share the training of each part; the first keeps the results, and the others have none."""
    results = []
    for part in parts:
        kept = Tested.load(part.place) if first else None
        if _by_first(partial(bool, kept)):
            part.plan.say(f"{part.name}: done before")
        else:
            kept = folds.carry_out(part, keep=first)
        if first:
            assert kept is not None
            results.append(kept)
    return results


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
