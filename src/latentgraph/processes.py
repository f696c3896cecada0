"""Independent tasks side by side in several processes, whose number changes no result.

Each process is a fresh one (spawn) with a number of threads that is given, not found out. Ctrl-C reaches this process
alone, which then ends the others; when this process dies, however, they end, too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

from latentgraph.errors import InputError, RunError

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], tasks: Sequence[tuple[str, T]], jobs: int, *, threads: int = 1
) -> Iterator[tuple[T, R]]:
    """Tasks with what `work` makes of them, as they are finished.

    Parameters
    ----------
    work : a function of a module, which the other processes can import; what it takes and gives can be pickled
    tasks : (name, task) pairs; the name is for messages
    jobs : processes. With one (or one task) the work is done here, in order, and `threads` is not touched
    threads : of each process, for torch and for BLAS

    A fault in another process comes back as `RunError` with the name of its task; `InputError` and `OSError`, which are
    understood without one, come back as they are. Ending the iteration early ends the processes at once, in the midst
    of what they do.

    >>> sorted(side_by_side(abs, [("minus one", -1), ("two", 2)], jobs=1))
    [(-1, 1), (2, 2)]
    """
    if jobs < 1:
        raise InputError(f"jobs={jobs}; it must be at least 1.")
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        for _, task in tasks:
            yield task, work(task)
        return
    context = get_context("spawn")
    # Nothing is ever sent: the reading ends find the pipe closed when this process closes it, or is gone.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(theirs, threads))
    try:
        with _deaf_to_ctrl_c():  # the processes are started here, and inherit it
            futures = {pool.submit(work, task): (name, task) for name, task in tasks}
            # The pool watches the processes there were when it last looked, which may be before the last one began, and
            # would not notice its death. Something more to do makes it look again.
            pool.submit(_nothing)
        for future in as_completed(futures):
            name, task = futures[future]
            yield task, _result(future.result, name)
        pool.shutdown()
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _nothing() -> None:
    pass


def _begin(parent: Connection, threads: int) -> None:
    """Set up a new process, which ends as soon as the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    threadpool_limits(threads)

    def watch() -> None:
        parent.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Put Ctrl-C off until the end of the block; processes started in it never hear it, not even while they import."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result(result: Callable[[], R], name: str) -> R:
    try:
        return result()
    except (InputError, OSError):
        raise
    except BrokenProcessPool:
        raise RunError(
            "a process ended without a word, most often because memory ran out. What was finished is kept; "
            "go on with fewer --jobs."
        ) from None
    except Exception as error:
        raise RunError(f"{name}: {type(error).__name__}: {error}. With --jobs 1 it shows where.") from error
