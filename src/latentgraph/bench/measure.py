"""Measuring alternatives side by side: interleaved, so that a busy machine slows all of them alike."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import torch
from threadpoolctl import threadpool_limits

STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs"), "5"  # what to write where, on Linux


@dataclass(frozen=True)
class Measurement:
    """Median seconds of the repeats, and how far the process's memory grew during a call, in MB."""

    seconds: float
    megabytes: float
    repeats: int


def side_by_side(
    candidates: Mapping[str, Callable[[], object]], repeats: int = 5, budget: float = 1.0
) -> dict[str, Measurement]:
    """Call every candidate in turn, again and again; one that has used up `budget` seconds sits out.

    Memory is measured in the first call, whose time counts only if there is no other: before it, the process returns
    to the system what it has freed, and taking it again costs time that a loop would not spend. What compiles at its
    first call must have been called before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    megabytes: dict[str, float] = {}
    with _settled_garbage():
        for name, call in candidates.items():
            with PeakMemory() as peak:
                elapsed = _timed(call)
            megabytes[name] = peak.megabytes
            if elapsed >= budget:
                seconds[name].append(elapsed)
        for _ in range(repeats):
            for name, call in candidates.items():
                if sum(seconds[name]) < budget:
                    seconds[name].append(_timed(call))
    return {name: Measurement(median(seconds[name]), megabytes[name], len(seconds[name])) for name in candidates}


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch, OpenMP (faiss, KeOps) and BLAS use so many threads.

    Libraries that take a number of their own (scipy, pynndescent) are given `torch.get_num_threads()` where they are
    called. KeOps follows if it shares torch's OpenMP, which it does on Linux when torch is imported first; elsewhere it
    keeps what OMP_NUM_THREADS said when it was loaded.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


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


class PeakMemory:
    """How far the resident memory of this process grows inside a `with` block.

    Linux keeps the peak itself. Elsewhere a thread looks once a millisecond, and sees nothing while another holds the
    interpreter's lock.
    """

    def __enter__(self) -> PeakMemory:
        _return_free_memory()
        self._process = psutil.Process()
        self._before = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        if not _reset_peak():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.001):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *exception: object) -> None:
        if self._thread is None:
            self._peak = _peak_of_the_system()
        else:
            self._done.set()
            self._thread.join()

    @property
    def megabytes(self) -> float:
        return max(self._peak - self._before, 0) / 2**20


@contextmanager
def _settled_garbage() -> Iterator[None]:
    """What is there now need not be searched for garbage before every call: that takes longer than many a call."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _return_free_memory() -> None:
    """Give what the process has freed back to the system: what it takes again must be seen to grow."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # absent outside glibc
        if trim is not None:
            trim(0)


def _reset_peak() -> bool:
    """Let the system forget the peak so far; False where it keeps none."""
    path, word = RESET_PEAK
    try:
        path.write_text(word)
    except OSError:
        return False
    return True


def _peak_of_the_system() -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
