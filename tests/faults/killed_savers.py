"""Kill savers with SIGKILL and look at what they leave. Run as a script: forking wants a process without threads.

Every check is an assertion here; the summary goes to stdout as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from latentgraph.store import load, save

KILLS = 100
A: dict[str, Any] = {"config.json": {"model": "A"}, "weights.bin": b"A" * 200_000, "card.md": b"model A"}
B: dict[str, Any] = {"config.json": {"model": "B"}, "weights.bin": b"B" * 300_000, "extra.bin": b"", "card.md": b"B"}


def which(folder: Path) -> str:
    """The name of the model in the folder, after checking that all of it is there and nothing else."""
    parts = load(folder)
    name: str = parts.json("config.json")["model"]
    expected = {"A": A, "B": B}[name]
    assert parts.names() == list(expected)
    assert all(parts.raw(part) == data for part, data in expected.items() if isinstance(data, bytes))
    return name


def is_tidy(folder: Path) -> bool:
    return len(list(folder.iterdir())) == 1 + len(load(folder).names())


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def save_until_line(folder: Path, line: int) -> None:
    """Save B, but die when so many lines of the code that writes were begun."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if Path(frame.f_code.co_filename).name not in ("saving.py", "presence.py"):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                die()
        return trace

    sys.settrace(trace)
    save(folder, B)


def kill_at_every_line(folder: Path) -> dict[str, int]:
    counts = {"A": 0, "B": 0, "untidy": 0}
    for line in range(1, 10_000):
        save(folder, A)
        assert is_tidy(folder), "a full save deletes what killed ones left"
        child = os.fork()
        if child == 0:
            save_until_line(folder, line)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert which(folder) == "B"
            return counts
        counts[which(folder)] += 1
        counts["untidy"] += not is_tidy(folder)
    raise AssertionError("the saver never finished")


def kill_at_random(folder: Path) -> dict[str, int]:
    rng = random.Random(0)
    counts = {"A": 0, "B": 0}
    save(folder, A)
    for _ in range(KILLS):
        child = os.fork()
        if child == 0:
            while True:
                save(folder, B)
                save(folder, A)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        counts[which(folder)] += 1
    save(folder, A)
    assert is_tidy(folder)
    return counts


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(json.dumps({"lines": kill_at_every_line(root / "lines"), "random": kill_at_random(root / "random")}))
