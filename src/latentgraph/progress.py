"""Showing long work: a bar on a terminal, plain lines in a log, nothing when not wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

LOG_SECONDS = 10.0  # between two lines where there is no terminal


class Reporter(Protocol):
    def __call__(self, step: int, values: Mapping[str, float]) -> None: ...


@contextmanager
def progress(title: str, total: int, enabled: bool = True) -> Iterator[Reporter]:
    """Yield a function `report(step, values)`; step counts from 0 to `total`."""
    if not enabled:
        yield lambda step, values: None
    elif sys.stderr.isatty():
        with _bar(title, total) as report:
            yield report
    else:
        report, finish = _lines(title, total)
        yield report
        finish()


@contextmanager
def _bar(title: str, total: int) -> Iterator[Reporter]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    latest: dict[str, float] = {}

    def report(step: int, values: Mapping[str, float]) -> None:
        latest.update(values)
        shown = dict(list(latest.items())[-2:])  # a terminal of 80 columns has room for two
        bar.update(task, completed=step, values=_format(shown))

    columns = TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.fields[values]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, values="")
        yield report


def _lines(title: str, total: int) -> tuple[Reporter, Callable[[], None]]:
    """A report that prints a line now and then, and a function that prints the last one if it is still due."""
    last = time.monotonic()
    due = ""

    def report(step: int, values: Mapping[str, float]) -> None:
        nonlocal last, due
        due = f"{title}: {step}/{total} {_format(values)}"
        if time.monotonic() - last >= LOG_SECONDS:
            last = time.monotonic()
            finish()

    def finish() -> None:
        nonlocal due
        if due:
            print(due, file=sys.stderr, flush=True)
        due = ""

    return report, finish


def _format(values: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())
