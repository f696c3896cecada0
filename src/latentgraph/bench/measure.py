"""Measuring alternatives side by side: interleaved, so that a busy machine slows all of them alike."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil


@dataclass(frozen=True)
class Measurement:
    """Median seconds of the repeats, and the largest growth of the process's memory during one of them, in MB."""

    seconds: float
    megabytes: float


def side_by_side(
    candidates: Mapping[str, Callable[[], object]], repeats: int = 5, *, warm: bool = True
) -> dict[str, Measurement]:
    """Run every candidate in turn, `repeats` times over, after one turn that is not counted (unless not `warm`)."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    megabytes: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(0 if warm else 1, repeats + 1):
        for name, call in candidates.items():
            with _PeakMemory() as peak:
                start = time.perf_counter()
                call()
                elapsed = time.perf_counter() - start
            if turn:
                seconds[name].append(elapsed)
                megabytes[name].append(peak.megabytes)
    return {name: Measurement(median(seconds[name]), max(megabytes[name])) for name in candidates}


def machine() -> str:
    """A line that says what was measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line[:10] == "model name"
        ]
        model = names[0] if names else model
    memory = psutil.virtual_memory().total / 2**30
    return f"{model}, {psutil.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def _return_free_memory() -> None:
    """Give what the process has freed back to the system: what it takes again must be seen to grow."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # absent outside glibc
        if trim is not None:
            trim(0)


class _PeakMemory:
    """Watches the resident memory of this process from a thread, once a millisecond."""

    def __enter__(self) -> _PeakMemory:
        _return_free_memory()
        self._process = psutil.Process()
        self._before = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.001):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return (self._peak - self._before) / 2**20
