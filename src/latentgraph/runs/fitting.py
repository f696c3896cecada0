"""`latentgraph fit`: test on rows that are kept away, train on all rows, keep the model.

Every finished step is in the run folder at once, and every training keeps how far it has come: an interrupted run goes
on to the same result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from latentgraph.experiments.results import versions
from latentgraph.runs import testing, writing
from latentgraph.runs.folder import RunFolder
from latentgraph.runs.plan import Plan
from latentgraph.runs.writing import Trained
from latentgraph.tables import Target


def run(plan: Plan, out: Path, *, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Test, train, and write the folder `out`; return its summary.

    Parameters
    ----------
    resume : continue the run that was interrupted in `out`, if there is one; the summary of a finished one is returned
    overwrite : replace a run that is in `out`
    """
    plan.check()
    frame = plan.read()
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    splits = testing.splits(plan, y)
    # Early, as they may find fault with the table or the options.
    preprocessor = plan.preprocessor().fit(frame)
    plan.estimator(target.task)
    folder = RunFolder(out, plan.config(), _asked(plan))
    with folder.work(resume=resume, overwrite=overwrite) as finished:
        if finished:
            summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            return summary
        parts = []
        for number, split in enumerate(splits, 1):
            name = f"fold {number} of {plan.folds}" if plan.folds else "test"
            place = folder.unfinished / f"test-{number}"
            part = testing.Tested.load(place)
            _say(plan, f"{name}: done before" if part else f"{name}: {len(split[0])} rows to learn from")
            if part is None:
                part = testing.tested(plan, frame, target, y, split, folder.unfinished / f"training-{number}")
                part.save(place)
            parts.append(part)
        prepared = preprocessor.prepare(frame)
        _say(plan, f"final model: all {len(y)} rows")
        model = plan.estimator(target.task, folder.unfinished / "training-final").fit(prepared.x, y)
        return writing.write(out, plan, Trained(frame, target, y, preprocessor, prepared, model, parts))


def _asked(plan: Plan) -> dict[str, Any]:
    """What decides the result: the options, the bytes of the table, and the versions of what computes."""
    options = {name: value for name, value in plan.config().items() if name != "table"}
    return options | {"SHA-256 of the table": plan.table_sha256()} | versions()


def _say(plan: Plan, line: str) -> None:
    if plan.verbose:
        print(line, file=sys.stderr, flush=True)
