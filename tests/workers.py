"""What other processes do in tests/test_processes.py; here, for they import this file and should not import more."""

from __future__ import annotations

import os
import signal
import time

import torch

from latentgraph.processes import side_by_side


def work(task: str) -> tuple[int, int]:
    """A process's number and threads; or what a worker may do instead of an answer."""
    if task == "fault":
        raise ZeroDivisionError("one over zero")
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "endless":
        time.sleep(600)
    return os.getpid(), torch.get_num_threads()


def named(*tasks: str) -> list[tuple[str, str]]:
    return [(f"task {task!r}", task) for task in tasks]


if __name__ == "__main__":
    for _, answer in side_by_side(work, named("quick", "endless"), 2):
        print(answer, flush=True)
