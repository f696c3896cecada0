"""Column names: the same spelling from every source, no two alike, and what a wrong one may have meant."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from latentgraph.errors import InputError


def clean_name(name: object) -> str:
    """One Unicode form, no white space at the ends, single spaces inside."""
    return " ".join(unicodedata.normalize("NFC", str(name)).split())


def numbered(position: int) -> str:
    """The name of a column without a name."""
    return f"column {position + 1}"


def tidy_names(names: Iterable[object], where: str) -> list[str]:
    """Clean names, with a number for a name that is empty; raise if two columns have the same one."""
    tidy = [clean_name(name) or numbered(i) for i, name in enumerate(names)]
    places: dict[str, list[int]] = {}
    for i, name in enumerate(tidy):
        places.setdefault(name, []).append(i + 1)
    twice = [f"{name!r} (columns {some(list(map(str, at)))})" for name, at in places.items() if len(at) > 1]
    if twice:
        raise InputError(f"{where}: column names that occur more than once: {some(twice)}. Rename or remove them.")
    return tidy


def near(name: str, names: Iterable[str]) -> str:
    """A question that offers the most similar names, or the names there are."""
    known = list(names)
    lower = {other.lower(): other for other in known}
    close = [lower[found] for found in get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    return f"There are: {some([repr(other) for other in known])}."


def some(words: Sequence[str], most: int = 10) -> str:
    """The words, or the first of many and their number."""
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown}, ... ({len(words)} in all)"
