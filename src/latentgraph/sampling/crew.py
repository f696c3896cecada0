"""Threads that share the work of the tree: torch's own where they can be had.

After each parallel part torch's OpenMP threads keep their cores busy for some milliseconds, waiting for more to do.
Threads of our own would have to share the cores with them; work given to the same team starts at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch

Work = Callable[[int, int], None]


def share(work: Work, cuts: Sequence[int], threads: int) -> None:
    """Call work(cuts[i], cuts[i + 1]) for all i, with so many threads; the first error is raised again."""
    run = _openmp()
    if run is None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, cuts[:-1], cuts[1:]))
    else:
        _on_team(run, work, cuts, threads)


_Part = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _on_team(run: Any, work: Work, cuts: Sequence[int], threads: int) -> None:
    pieces = pairwise(cuts)  # the interpreter's lock is held while a thread takes the next one
    errors: list[BaseException] = []

    def part(_: int | None) -> None:
        try:
            for begin, end in pieces:
                work(begin, end)
        except BaseException as error:  # nothing may leave a function that C calls
            errors.append(error)

    run(_Part(part), None, threads, 0)
    if errors:
        raise errors[0]


@cache
def _openmp() -> Any:
    """`GOMP_parallel` of the OpenMP library that torch itself has loaded, GNU's or a compatible one; None elsewhere."""
    if "OpenMP" not in torch.__config__.parallel_info().partition("ATen parallel backend:")[2]:
        return None
    try:
        run = ctypes.CDLL(torch._C.__file__).GOMP_parallel
    except (AttributeError, OSError):
        return None
    run.argtypes, run.restype = [_Part, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return run
