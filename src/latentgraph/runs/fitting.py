"""`latentgraph fit`: test on rows that are kept away, train on all rows, keep the model.

Every finished step is in the run folder at once, and every training keeps how far it has come: an interrupted run goes
on to the same result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from latentgraph.errors import InputError
from latentgraph.experiments.results import versions
from latentgraph.runs import folds, testing, writing
from latentgraph.runs.folder import RunFolder
from latentgraph.runs.plan import Plan
from latentgraph.runs.writing import Trained
from latentgraph.tables import Target


def run(plan: Plan, out: Path, *, resume: bool = False, overwrite: bool = False, jobs: int = 1) -> dict[str, Any]:
    """Test, train, and write the folder `out`; return its summary.

    Parameters
    ----------
    resume : continue the run that was interrupted in `out`, if there is one; the summary of a finished one is returned
    overwrite : replace a run that is in `out`
    jobs : processes that test folds side by side. With more than one, everything has one thread; the result is that
        of one job with one thread, bit for bit. A run that is continued has the threads of its beginning
    """
    plan.check()
    if jobs < 1:
        raise InputError(f"jobs={jobs}; it must be at least 1.")
    frame = plan.read()
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    splits = testing.splits(plan, y)
    # Early, as they may find fault with the table or the options.
    preprocessor = plan.preprocessor().fit(frame)
    plan.estimator(target.task)
    folder = RunFolder(out, plan.config(), _asked(plan))
    if jobs > 1:
        torch.set_num_threads(1)
    # BLAS gets as many threads as torch: with others, the methods of scikit-learn would round differently.
    with folder.work(resume=resume, overwrite=overwrite) as finished, threadpool_limits(torch.get_num_threads()):
        if finished:
            summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            return summary
        parts = folds.tested(plan, frame, target, y, splits, folder.unfinished, jobs)
        prepared = preprocessor.prepare(frame)
        plan.say(f"final model: all {len(y)} rows")
        model = plan.estimator(target.task, folder.unfinished / "training-final").fit(prepared.x, y)
        return writing.write(out, plan, Trained(frame, target, y, preprocessor, prepared, model, parts))


def _asked(plan: Plan) -> dict[str, Any]:
    """What decides the result: the options, the bytes of the table, and the versions of what computes."""
    options = {name: value for name, value in plan.config().items() if name != "table"}
    return options | {"SHA-256 of the table": plan.table_sha256()} | versions()
