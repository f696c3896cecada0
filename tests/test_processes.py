"""Work in several processes: the same results, one message when something goes wrong, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

import workers
from latentgraph.cli import main
from latentgraph.errors import InputError, RunError
from latentgraph.processes import side_by_side
from test_resume import Started, left_by
from workers import named, work


def test_processes_and_their_threads() -> None:
    """Broken: the work is done here, tasks are lost, or every process takes all cores."""
    found = dict(side_by_side(work, named(*"abcd"), 2, threads=1))
    assert sorted(found) == list("abcd")
    assert os.getpid() not in {process for process, _ in found.values()}
    assert {threads for _, threads in found.values()} == {1}
    assert dict(side_by_side(work, named("a"), 2)) == {"a": (os.getpid(), torch.get_num_threads())}
    with pytest.raises(InputError, match="jobs=0"):
        next(side_by_side(work, named("a"), 0))


@pytest.mark.parametrize(
    ("task", "kind", "words"),
    [
        ("fault", RunError, "task 'fault': ZeroDivisionError: one over zero"),
        ("killed", RunError, "ended without a word"),
    ],
)
def test_what_goes_wrong_there_is_said_here(task: str, kind: type[Exception], words: str) -> None:
    """Broken: a fault elsewhere is waited for, or comes as something that nobody understands; others go on working."""
    with pytest.raises(kind, match=words):
        list(side_by_side(work, named(task, "endless"), 2))
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def gone(family: list[psutil.Process]) -> bool:
    """Whether all of them have ended within a minute."""
    return not psutil.wait_procs(family, timeout=60)[1]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_nobody_works_on_for_a_dead_process() -> None:
    """Broken: after kill -9, workers go on in a folder in which another run has begun."""
    begun = subprocess.Popen([sys.executable, str(workers.__file__)], stdout=subprocess.PIPE)
    assert begun.stdout is not None
    assert begun.stdout.readline()  # one has answered, the other works
    family = psutil.Process(begun.pid).children(recursive=True)
    assert len(family) >= 2
    begun.kill()
    begun.communicate()
    assert gone(family)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
def test_jobs_change_no_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: jobs or an interruption are in the result; Ctrl-C is noisy or waited out; finished folds are lost."""
    run = Started(tmp_path)
    run.options += ["--folds", "3", "--trees", "20"]
    command = [sys.executable, "-m", "latentgraph", "fit", str(run.table), *run.options, "--out", str(run.out)]
    begun = subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    finished = run.out / "unfinished"
    while begun.poll() is None and not list(finished.glob("test-*/manifest.json")):
        time.sleep(0.005)
    family = psutil.Process(begun.pid).children(recursive=True)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = begun.communicate()
    assert begun.returncode == 130
    assert f"--out {run.out} --resume --jobs 2" in said
    assert "Traceback" not in said
    assert gone(family)
    assert json.loads((run.out / "run.json").read_text())["finished"] is False

    assert run.fit("--resume", "--jobs", "2") == 0
    said = capsys.readouterr().err
    assert "done before" in said
    assert "folds: 3/3" in said
    torch.set_num_threads(1)
    assert run.fit(out=tmp_path / "alone") == 0
    assert left_by(run.out) == left_by(tmp_path / "alone")
    assert main(["fit", str(run.table), "--target", "kind", "--jobs", "0"]) == 2
    assert "jobs=0" in capsys.readouterr().err
