"""The only file that knows Optuna: which options a trial gets, which trials end early, and where all are kept.

The journal is a text file to which processes append under a lock; several may share it, and none can leave it broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latentgraph.errors import InputError
from latentgraph.runs.search_space import Range

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState
except ImportError:
    raise InputError('latentgraph tune needs optuna. Install it with: pip install "latentgraph[tune]"') from None

optuna.logging.set_verbosity(optuna.logging.WARNING)

NAME = "latentgraph tune"
FIRST = 5  # so many trials are finished before any is ended early
SCORES, GIVEN = "scores", "given"  # what is kept of a trial: scores fold by fold; whether it has the given options
Place = Any  # Range | Choice


class Pruned(Exception):  # noqa: N818
    """Half-way, a trial is worse than most were there."""


@dataclass(frozen=True)
class Trial:
    """One set of options and what came of it.

    Attributes
    ----------
    state : "finished" or "ended early"
    given : whether it has the options that were given
    scores : of the folds that were tried, smaller is better
    score : their mean; None if it was ended early
    """

    number: int
    state: str
    given: bool
    options: dict[str, Any]
    scores: list[float]
    score: float | None


def try_next(
    journal: Path,
    space: Mapping[str, Place],
    objective: Callable[[dict[str, Any], Callable[[list[float]], None]], list[float]],
    *,
    trials: int,
    seed: int,
) -> Trial | None:
    """Ask for options, compute `objective(options, report)`, and keep its scores; None if there are `trials` already.

    `report` is given the scores of the folds so far; it raises `Pruned` if their mean is above the median of what
    other trials had after as many folds. The trial that has the given options is never pruned.
    """
    study = _study(journal, seed)
    begun = [t for t in study.get_trials(deepcopy=False) if t.state in (*_DONE, TrialState.RUNNING)]
    if len(begun) >= trials:
        return None
    trial = study.ask({name: _distribution(place) for name, place in space.items()})

    def report(scores: list[float]) -> None:
        trial.set_user_attr(SCORES, list(scores))
        trial.report(sum(scores) / len(scores), step=len(scores))
        if not trial.user_attrs.get(GIVEN) and trial.should_prune():
            raise Pruned

    try:
        scores = objective(dict(trial.params), report)
    except Pruned:
        return _as_trial(study.tell(trial, state=TrialState.PRUNED))
    except Exception:
        study.tell(trial, state=TrialState.FAIL)
        raise
    return _as_trial(study.tell(trial, sum(scores) / len(scores)))


def prepare(journal: Path, given: Mapping[str, Any], *, alone: bool) -> None:
    """Put the given options first and, if no other process is at work here, interrupted trials again in line."""
    study = _study(journal, 0)
    trials = study.get_trials(deepcopy=False)
    if not trials:
        study.enqueue_trial(dict(given), user_attrs={GIVEN: True}, skip_if_exists=True)
    for trial in trials if alone else ():
        if trial.state == TrialState.RUNNING:
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params, user_attrs={GIVEN: trial.user_attrs.get(GIVEN, False)})


def finished(journal: Path) -> list[Trial]:
    """The trials that came to their end or were ended early, in order."""
    return [_as_trial(t) for t in _study(journal, 0).get_trials(deepcopy=False) if t.state in _DONE]


_DONE = (TrialState.COMPLETE, TrialState.PRUNED)


def _study(journal: Path, seed: int) -> optuna.Study:
    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=FIRST),
        study_name=NAME,
        direction="minimize",
        load_if_exists=True,
    )


def _distribution(place: Place) -> BaseDistribution:
    if not isinstance(place, Range):
        return CategoricalDistribution(place.values)
    if isinstance(place.low, int) and isinstance(place.high, int):
        return IntDistribution(place.low, place.high, log=place.log)
    return FloatDistribution(place.low, place.high, log=place.log)


def _as_trial(trial: optuna.trial.FrozenTrial) -> Trial:
    scores: Sequence[float] = trial.user_attrs.get(SCORES, [])
    complete = trial.state == TrialState.COMPLETE
    return Trial(
        number=trial.number,
        state="finished" if complete else "ended early",
        given=bool(trial.user_attrs.get(GIVEN)),
        options=dict(trial.params),
        scores=list(scores),
        score=trial.value if complete else None,
    )
