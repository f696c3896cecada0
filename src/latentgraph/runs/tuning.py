"""`latentgraph tune`: options that predict better than the given ones, on rows that `fit` will not test on.

The rows that `fit` would keep away with the same seed are cut off first; nothing here sees them again. On the others a
trial is scored by cross-validation: the mean negative log-likelihood of classes, or the error of numbers (RMSE).
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentgraph.errors import InputError
from latentgraph.experiments.results import versions
from latentgraph.files import replacing
from latentgraph.processes import side_by_side
from latentgraph.progress import progress
from latentgraph.runs import scores, testing
from latentgraph.runs.folder import differences, sharing, write_config
from latentgraph.runs.plan import Plan
from latentgraph.runs.search_space import searched
from latentgraph.tables import Target

if TYPE_CHECKING:
    from latentgraph.runs.study import Trial

Array = testing.Array
JOURNAL, RECORD, TRIALS, TUNED = "study.journal", "tune.json", "trials.csv", "tuned.yaml"


@dataclass(frozen=True)
class Search:
    """All that a process needs to try one set of options after the other.

    Attributes
    ----------
    plan : what `fit` would be asked to do; its options are the first that are tried
    names : options to search, default all that are worth it
    folds : of the rows to learn from
    """

    plan: Plan
    names: Sequence[str] = ()
    folds: int = 3
    trials: int = 30

    @property
    def space(self) -> dict[str, Any]:
        return searched(self.names, dict(self.plan.options))

    def asked(self) -> dict[str, Any]:
        """What decides what a score means; more trials may be asked for later."""
        options = {name: value for name, value in self.plan.config().items() if name != "table"}
        mine = {"search": list(self.space), "folds": self.folds, "SHA-256 of the table": self.plan.table_sha256()}
        return options | mine | versions()


@dataclass(frozen=True)
class Rows:
    """The rows to learn from, and how they are split to score a trial."""

    frame: Any
    target: Target
    y: Array
    splits: list[tuple[Array, Array]]


def rows_to_learn_from(search: Search) -> Rows:
    """The table without the rows that `fit` tests on."""
    plan = search.plan
    frame = plan.read()
    target = Target.fit(frame, plan.target, plan.task)
    y = target.encode(frame)
    kept_away = testing.splits(plan, y)
    if kept_away:
        train, _ = kept_away[0]
        frame, y = frame.iloc[train].reset_index(drop=True), y[train]
    return Rows(frame, target, y, testing.splits(replace(plan, folds=search.folds), y))


def run(search: Search, out: Path, *, jobs: int = 1, time_limit: float | None = None) -> dict[str, Any]:
    """Try until there are `search.trials` trials in the folder `out`; return its summary.

    Parameters
    ----------
    jobs : processes that try options side by side, one thread each
    time_limit : seconds after which no further trial begins; the first is always made
    """
    from latentgraph.runs import study  # says what to install, if need be

    _check(search, jobs, time_limit)
    until = None if time_limit is None else time.time() + time_limit
    rows = rows_to_learn_from(search)
    search.plan.estimator(rows.target.task)
    with _folder(search, out) as alone:
        journal = out / JOURNAL
        study.prepare(journal, {name: search.plan.options[name] for name in search.space}, alone=alone)
        done = len(study.finished(journal))
        tasks = [
            (
                f"trial {number}",
                _Task(replace(search, plan=replace(search.plan, verbose=False)), rows, out, number, until),
            )
            for number in range(done, max(search.trials, done))
        ]
        with progress("trials", max(search.trials, done), search.plan.verbose) as report:
            for _, trial in side_by_side(_try, tasks, jobs):
                if trial is not None:
                    done += 1
                    best = _write(search, out, study.finished(journal))
                    report(done, {"this": sum(trial.scores) / len(trial.scores), "best": best.score or float("nan")})
        return _summary(search, out, rows, study.finished(journal))


@dataclass(frozen=True)
class _Task:
    search: Search
    rows: Rows
    out: Path
    number: int
    until: float | None


def _try(task: _Task) -> Trial | None:
    """One trial, by whichever process; None if time is up or others have made enough."""
    from latentgraph.runs import study

    if task.number and task.until is not None and time.time() > task.until:
        return None
    search = task.search

    def objective(options: dict[str, Any], report: Callable[[list[float]], None]) -> list[float]:
        return validated(replace(search.plan, options={**search.plan.options, **options}), task.rows, report)

    seed = search.plan.seed + task.number
    return study.try_next(task.out / JOURNAL, search.space, objective, trials=search.trials, seed=seed)


def validated(plan: Plan, rows: Rows, report: Callable[[list[float]], None]) -> list[float]:
    """The score of a plan on each fold, smaller is better; `report` is told after each, and may raise."""
    found: list[float] = []
    for split in rows.splits:
        _, predicted = testing.predicted(plan, rows.frame, rows.target, rows.y, split)
        y = rows.y[split[1]]
        if rows.target.task == "regression":
            found.append(scores.of_numbers(y, predicted)["RMSE"])
        else:
            found.append(scores.of_classes(y, predicted)["log loss"])
        report(found)
    return found


def _check(search: Search, jobs: int, time_limit: float | None) -> None:
    search.plan.check()
    if search.plan.folds:
        raise InputError("tuning keeps away one part to test on; folds of the whole table would leave none.")
    if search.folds < 2 or search.trials < 1 or jobs < 1:
        raise InputError(
            f"folds={search.folds}, trials={search.trials}, jobs={jobs}; they must be at least 2, 1 and 1."
        )
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit={time_limit}; it must be a positive number of seconds.")


@contextmanager
def _folder(search: Search, out: Path) -> Iterator[bool]:
    """The folder of a search, which several processes may share; yield whether this one is alone in it."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder.")
    out.mkdir(parents=True, exist_ok=True)
    with sharing(out) as alone:
        asked, record = search.asked(), out / RECORD
        if record.exists():
            try:
                begun = json.loads(record.read_text(encoding="utf-8"))["asked"]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{record} is not as latentgraph writes it. Name another folder.") from None
            if found := differences(begun, asked):
                raise InputError(
                    f"the search in {out} was begun differently: {'; '.join(found)}. Go on as it was begun, or name "
                    "another folder: scores of different searches cannot be compared."
                )
        elif taken := [name for name in (JOURNAL, TRIALS, TUNED) if (out / name).exists()]:
            raise InputError(f"--out {out} has {', '.join(taken)} already, and no search. Name another folder.")
        else:
            with replacing(record) as file:
                json.dump({"asked": asked}, file, indent=1)
        yield alone


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Best first; those that were ended early come last."""
    return sorted(trials, key=lambda trial: (trial.score is None, trial.score or 0.0, trial.number))


def _write(search: Search, out: Path, trials: Sequence[Trial]) -> Trial:
    """What people and `fit --config` read; return the best trial."""
    best = ranked(trials)[0]
    names = list(search.space)
    with replacing(out / TRIALS) as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "score", *(f"fold {i + 1}" for i in range(search.folds)), *names])
        for trial in trials:
            folds = [*trial.scores, *[""] * (search.folds - len(trial.scores))]
            score = "" if trial.score is None else trial.score
            writer.writerow([trial.number, trial.state, score, *folds, *(trial.options[name] for name in names)])
    if best.score is not None:
        write_config(out / TUNED, search.plan.config() | best.options)
    return best


def _summary(search: Search, out: Path, rows: Rows, trials: Sequence[Trial]) -> dict[str, Any]:
    if not trials:
        raise InputError(f"another latentgraph makes all the trials in {out} that were asked for. Wait for it.")
    best = _write(search, out, trials)
    return {
        "out": str(out),
        "score": "RMSE" if rows.target.task == "regression" else "log loss",
        "rows": len(rows.y),
        "given": next((trial.score for trial in trials if trial.given), None),
        "best": best.score,
        "options": best.options,
        "trials": [vars(trial) for trial in ranked(trials)],
    }
