"""A results file: one JSON object for every finished cell, written at once, so that an interrupted run goes on."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from latentgraph.errors import InputError

PACKAGES = ("latentgraph", "numpy", "scikit-learn", "scipy", "torch", "torch-geometric")


class Results:
    """Rows of a JSON-lines file, found again by the values of their `key` columns."""

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self.path = path
        self.key = key
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = [self._parse(number, line) for number, line in enumerate(lines, 1) if line.strip()]
            # Two processes may have computed a cell side by side: it counts once.
            self.rows = list({self._name(row): row for row in rows}.values())
        self._there = {self._name(row) for row in self.rows}

    def _name(self, cell: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(cell[name] for name in self.key)

    def _parse(self, number: int, line: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
            assert all(name in row for name in self.key)
        except (ValueError, AssertionError, TypeError):
            raise InputError(
                f"line {number} of {self.path} is no result with {', '.join(self.key)}: {line[:60]!r}. "
                "Delete the line (that cell is then computed again) or choose another --out."
            ) from None
        return dict(row)

    def has(self, **cell: Any) -> bool:
        """Whether there is a row with these values in all columns of the key."""
        return self._name(cell) in self._there

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row with the versions it was computed with, and see it onto the disk."""
        full = {**row, "versions": versions()}
        self.rows.append(full)
        self._there.add(self._name(full))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(full) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def column(self, name: str, **cell: Any) -> list[Any]:
        return [row[name] for row in self.rows if all(row[key] == value for key, value in cell.items())]

    def by(self, key: str, name: str, **cell: Any) -> dict[Any, Any]:
        """A column by another one: the accuracy of each split, say."""
        return dict(zip(self.column(key, **cell), self.column(name, **cell), strict=True))


@cache
def versions() -> dict[str, str]:
    """Of python and the libraries; in a checkout of this repository, which commit it is, too."""
    found = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return found | ({"commit": commit} if (commit := _commit()) else {})


def _commit() -> str:
    """Such as "d01819e", or "d01819e-dirty" where sources have been changed since; empty if this is no checkout."""
    checkout = Path(__file__).parents[3]
    if not (checkout / ".git").exists() or not shutil.which("git"):
        return ""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=False)  # noqa: S603, S607

    changed = git("diff", "--quiet", "HEAD", "--", "src").returncode
    return git("rev-parse", "--short", "HEAD").stdout.strip() + ("-dirty" if changed else "")


def published(table: str) -> dict[str, Any]:
    """A table of the paper, as it is printed there."""
    text = (files("latentgraph.experiments") / "published.json").read_text(encoding="utf-8")
    return dict(json.loads(text)[table])
