"""Worlds of several processes for tests: forks of the one that asks for them, so that what they need is imported once.

For scripts: forking wants a process without threads.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DEADLINE = 60.0  # seconds after which all processes must have ended when one of them has


class Ended(NamedTuple):
    status: int  # minus the number of the signal, if one has ended it
    words: str  # what it has written
    seconds: float  # until it ended


def world(size: int, function: Callable[[], object], folder: Path, last: int | None = None) -> list[Ended]:
    """Call a function in `size` processes that know of each other by the variables that torchrun sets.

    When process `last` has ended, those that are left are killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    start = time.monotonic()
    running = {_fork(function, size, rank, port, folder / f"log-{rank}"): rank for rank in range(size)}
    ended: dict[int, Ended] = {}
    while running:
        number, state = os.waitpid(-1, os.WNOHANG)
        if number:
            rank = running.pop(number)
            seconds = time.monotonic() - start
            ended[rank] = Ended(os.waitstatus_to_exitcode(state), (folder / f"log-{rank}").read_text(), seconds)
            for left in running if rank == last else ():
                os.kill(left, signal.SIGKILL)
        else:
            time.sleep(0.01)
    return [ended[rank] for rank in range(size)]


def _fork(function: Callable[[], object], size: int, rank: int, port: int, log: Path) -> int:
    number = os.fork()
    if number:
        return number
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        about = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if size > 1:
            os.environ |= {name: str(value) for name, value in about.items()}
        status = function()
    except BaseException:
        traceback.print_exc()
        status = 1
    os._exit(status if isinstance(status, int) else 0)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
