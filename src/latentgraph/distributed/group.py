"""The processes that train together: how they find each other, and what is said when one of them is gone.

A launcher (torchrun, Fabric, Ray) starts the same program several times. `joined` makes the processes a team; what is
trained inside shares its rows among them. Nothing here is imported by a program of one process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist

from latentgraph.errors import InputError, LostProcessError

GO_ON = "What was kept last is complete: the run goes on from there, with any number of processes."
TIMEOUT = 600.0  # seconds that a process waits for the others before it gives up


@dataclass
class Clock:
    """What communication costs this process.

    Attributes
    ----------
    seconds : in collective operations, by name; waiting for slower processes is part of it
    received : bytes that came from other processes, by name
    waiting : seconds until all had come to the operation, measured if `apart` is set: by one more round of messages
    apart : whether to measure `waiting` apart from `seconds`
    """

    seconds: dict[str, float] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    waiting: float = 0.0
    apart: bool = False


@dataclass(frozen=True)
class Team:
    """All processes of a run, and which of them this is: 0 is the first, who writes files and speaks."""

    rank: int
    size: int
    timeout: float = TIMEOUT
    clock: Clock = field(default_factory=Clock, compare=False)

    @property
    def first(self) -> bool:
        return self.rank == 0

    @contextmanager
    def collective(self, name: str, received: int = 0) -> Iterator[None]:
        """Around every operation that all processes take part in: take its time, and say in words what went wrong."""
        clock = self.clock
        start = time.perf_counter()
        try:
            if clock.apart:
                dist.barrier()
                clock.waiting += time.perf_counter() - start
                start = time.perf_counter()
            yield
        except RuntimeError as error:  # all errors of torch.distributed are
            raise LostProcessError(
                f"process {self.rank} of 0 to {self.size - 1} waited in vain for the others ({name}): one of them has "
                f"ended, or the network stands still (time-out: {self.timeout:g} s). {GO_ON} "
                f"(torch says: {_first_line(error)})"
            ) from error
        clock.seconds[name] = clock.seconds.get(name, 0.0) + time.perf_counter() - start
        clock.received[name] = clock.received.get(name, 0) + received


def _first_line(error: RuntimeError) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def launched() -> int:
    """How many processes the launcher has started, by the variables that torchrun and its kind set; 1 without any."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


_team: Team | None = None


def team() -> Team | None:
    """The team of this process; None outside of `joined`, and for a process on its own."""
    return _team


@contextmanager
def joined(timeout: float = TIMEOUT) -> Iterator[Team | None]:
    """Join the processes that the launcher has started; what is trained inside is shared by all of them.

    A process group that a launcher has made already (Fabric, Ray) is used as it is. Processors talk by gloo, graphics
    cards by NCCL. Yields None for a process that was started on its own: it goes on as ever.

    Parameters
    ----------
    timeout : seconds after which an operation that the others do not come to is given up
    """
    global _team
    if not dist.is_available() or (not dist.is_initialized() and launched() == 1):
        yield None
        return
    ours = not dist.is_initialized()
    if ours:
        _join(timeout)
    elif dist.get_backend() == "nccl":
        raise InputError(
            "the process group that is there knows graphics cards only (nccl), but row numbers and counts are sent "
            "from the processor. Tell the launcher to use 'cpu:gloo,cuda:nccl', or gloo."
        )
    before = _team
    _team = Team(dist.get_rank(), dist.get_world_size(), timeout) if dist.get_world_size() > 1 else None
    try:
        with _ending_by_the_launcher():
            yield _team
    finally:
        _team = before
        if ours:
            dist.destroy_process_group()


def _join(timeout: float) -> None:
    cards = torch.cuda.is_available()
    if cards:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if cards else "gloo", timeout=timedelta(seconds=timeout))
    except RuntimeError as error:
        raise LostProcessError(
            f"process {os.environ['RANK']} did not find the others within {timeout:g} s: {_first_line(error)}. Check "
            "that as many were started as WORLD_SIZE says, and that MASTER_ADDR and MASTER_PORT lead to the first one."
        ) from error


@contextmanager
def _ending_by_the_launcher() -> Iterator[None]:
    """torchrun ends the processes that are left with SIGTERM. Say so, instead of vanishing."""

    def end(number: int, frame: FrameType | None) -> None:
        raise LostProcessError(
            f"the launcher ends process {os.environ.get('RANK', '')}, for another one has ended. {GO_ON}"
        )

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread: the launcher has its own ways there
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
