"""The optional libraries that are measured beside ours: which are here, and how to get the others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

from latentgraph.experiments.results import versions

PACKAGES = {"faiss": "faiss-cpu", "matplotlib": "matplotlib", "pykeops": "pykeops", "pynndescent": "pynndescent"}


def installed(library: str) -> bool:
    return find_spec(library) is not None


def left_out(libraries: Sequence[str]) -> list[str]:
    """A line for each library that is missing."""
    return [
        f"{name} is not installed: what needs it is left out. Install it with: pip install {PACKAGES[name]}"
        for name in libraries
        if not installed(name)
    ]


def all_versions() -> dict[str, str]:
    optional = {package: version(package) for library, package in PACKAGES.items() if installed(library)}
    return {**versions(), "numba": version("numba"), **optional}
