"""From measured rows to tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from latentgraph.text_table import Table

Row = dict[str, Any]


def ratios(title: str, rows: Sequence[Row], index: Sequence[str], ours: str) -> Table:
    """A line for each case: seconds of `ours`, then how many times longer each other method takes."""
    others = [name for name in dict.fromkeys(row["method"] for row in rows) if name != ours]
    lines = []
    for case, measured in _by_case(rows, index).items():
        base = measured[ours]["seconds"]
        cells = [f"{number(measured[name]['seconds'] / base)} ×" if name in measured else "" for name in others]
        lines.append([*case, number(base), *cells])
    return Table(title, [*index, f"{ours}, s", *others], lines)


def megabytes(title: str, rows: Sequence[Row], index: Sequence[str]) -> Table:
    """A line for each case: the memory of each method in MB."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    lines = [
        [*case, *(number(measured[name]["megabytes"]) if name in measured else "" for name in names)]
        for case, measured in _by_case(rows, index).items()
    ]
    return Table(title + ", MB", [*index, *names], lines)


def _by_case(rows: Sequence[Row], index: Sequence[str]) -> dict[tuple[str, ...], dict[str, Row]]:
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        found.setdefault(tuple(cell(row[name]) for name in index), {})[row["method"]] = row
    return found


def cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Three digits, and no exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def in_words(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"
