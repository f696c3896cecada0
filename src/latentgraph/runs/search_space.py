"""Which options of the estimators `latentgraph tune` searches, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from latentgraph.errors import InputError


class Range(NamedTuple):
    """Numbers from low to high, whole ones if both are; `log`: each doubling is as probable as the next."""

    low: float
    high: float
    log: bool = False

    def including(self, value: Any) -> Range:
        return self._replace(low=min(self.low, value), high=max(self.high, value))


class Choice(NamedTuple):
    values: tuple[Any, ...]

    def including(self, value: Any) -> Choice:
        return self if value in self.values else Choice((*self.values, value))


# Not searched: samples (more are always better), validation_fraction and patience (they decide by the same rows that a
# trial learns from), class_weight (it trades one score for another), joint and device.
SPACE: dict[str, Range | Choice] = {
    "k": Range(3, 40, log=True),
    "hidden": Choice((32, 64, 128)),
    "embedding_dim": Choice((None, 4, 8, 32)),  # None: 16, in large tables 4
    "geometry": Choice(("euclidean", "hyperbolic", "sphere")),
    "dropout": Range(0.0, 0.6),
    "auxiliary": Range(0.0, 2.0),
    "learning_rate": Range(0.001, 0.05, log=True),
    "weight_decay": Range(0.003, 3.0, log=True),
    "steps": Range(50, 400, log=True),
    "trees": Choice((0, 100, 200, 400)),
}


def searched(names: Sequence[str], given: dict[str, Any]) -> dict[str, Range | Choice]:
    """The options of these names (default all), each wide enough for the value it was given.

    >>> searched(["k"], {"k": 60})
    {'k': Range(low=3, high=60, log=True)}
    """
    unknown = [name for name in names if name not in SPACE]
    if unknown:
        raise InputError(f"search={', '.join(unknown)}: that is not searched. There is: {', '.join(SPACE)}.")
    space = {name: SPACE[name].including(given[name]) for name in names or SPACE}
    for name, place in space.items():
        if isinstance(place, Range) and place.log and place.low <= 0:
            raise InputError(
                f"{name}={given[name]}, but it is searched on a logarithmic scale. Leave it out of --search."
            )
    return space
