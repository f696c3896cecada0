"""Interrupted training and interrupted runs: they go on to the same result, bit for bit, or are refused.

As a script, `python test_resume.py FOLDER`, this file kills runs at many places; see `kill_everywhere`.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from latentgraph import checkpoint, store, training
from latentgraph.checkpoint import Checkpoint
from latentgraph.cli import main
from latentgraph.errors import InputError
from latentgraph.estimators import DGMClassifier
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline, SampleMeanBaseline
from latentgraph.model import DGMNet
from latentgraph.runs import fitting, folder, folds, plots, scores, testing
from latentgraph.runs.plan import Plan
from latentgraph.stacks import gcn, mlp
from latentgraph.training import History, NodeSet, TrainState, fit, regression

KILLS = 20
# They are not what is tested here, and slow.
LEFT_OUT: tuple[tuple[Any, str, Any], ...] = (
    (scores, "baselines", lambda task, seed: {}),
    (plots, "write", lambda *arguments: {}),
)


class PowerError(Exception):
    """Is cut."""


def tiny_table(path: Path, rows: int = 60) -> Path:
    """Three kinds of rows, some without a kind; too few for numba, which does not survive a fork."""
    generator = np.random.default_rng(0)
    kind = np.arange(rows) % 3
    frame = pd.DataFrame(generator.normal(size=(rows, 4)) + kind[:, None], columns=list("abcd"))
    frame["kind"] = np.where(np.arange(rows) % 7 == 0, "", np.array(["x", "y", "z"])[kind])
    frame.to_csv(path, index=False)
    return path


def left_by(out: Path) -> dict[str, bytes]:
    """Every file of a finished run by its name; those of the model, whose file names are random, by their parts."""
    model = store.load(out / "model")
    files = [path for path in out.rglob("*") if path.is_file() and path.parent != out / "model"]
    found = {str(path.relative_to(out)): path.read_bytes() for path in files}
    return found | {f"model: {name}": model.raw(name) for name in model.names()}


# Training


def problem() -> NodeSet:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(40) % 2
    return NodeSet(torch.randn(40, 5, generator=generator) + y[:, None], y)


def network(out: int = 2) -> DGMNet:
    torch.manual_seed(1)
    dgm = DiscreteDGM(mlp([5, 8, 3], dropout=0.2), k=3)
    return DGMNet([(dgm, gcn([5, 8], activate_last=True, dropout=0.3))], nn.Linear(8, out))


def early_stopping(**more: Any) -> tuple[nn.Module, History]:
    net, nodes = network(), problem()
    mask = torch.arange(40) % 4 == 0
    torch.manual_seed(2)
    return net, fit(
        net,
        NodeSet(nodes.x, nodes.y, ~mask),
        validation=NodeSet(nodes.x, nodes.y, mask),
        auxiliary=nn.Linear(3, 2),
        steps=40,
        lr=0.05,
        eval_every=3,
        patience=12,
        **more,
    )


def schedule(**more: Any) -> tuple[nn.Module, History]:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.7)
    baseline = MovingAverageBaseline(40)
    return net, fit(
        net, problem(), baseline=baseline, optimizer=optimizer, scheduler=scheduler, steps=12, seed=5, **more
    )


def drawn_batches(**more: Any) -> tuple[nn.Module, History]:
    """One batch has no label: its loss is NaN, which JSON does not know."""
    net, nodes = network(), problem()

    def draw(step: int, generator: torch.Generator) -> NodeSet:
        rows = torch.randperm(40, generator=generator)[:20]
        return NodeSet(nodes.x[rows], torch.full((20,), -1) if step == 3 else nodes.y[rows])

    return net, fit(net, draw, baseline=SampleMeanBaseline(), samples=2, steps=10, **more)


def numbers(**more: Any) -> tuple[nn.Module, History]:
    net, nodes = network(out=1), problem()
    return net, fit(net, NodeSet(nodes.x, nodes.x.sum(1)), task=regression(), steps=8, **more)


TRAININGS = {f.__name__: f for f in (early_stopping, schedule, drawn_batches, numbers)}


def bits(result: tuple[nn.Module, History]) -> tuple[dict[str, bytes], str]:
    net, history = result
    weights = {name: value.numpy().tobytes() for name, value in net.state_dict().items()}
    return weights, json.dumps(vars(history))


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    """Broken: something that changes in training is not kept, or keeping it changes the training."""
    train = TRAININGS[name]
    whole = bits(train())
    kept = Checkpoint(tmp_path, seconds=0)
    for stop in (1, 4, 7):

        def cut(state: TrainState, stop: int = stop) -> None:
            if state.step == stop:
                raise PowerError

        with pytest.raises(PowerError):
            train(checkpoint=kept, callbacks=[cut])
    torch.manual_seed(99)
    seen: list[int] = []
    assert bits(train(checkpoint=kept, callbacks=[lambda state: seen.append(state.step)])) == whole
    assert seen[0] == 7, "it did not go on after the last step that was kept"
    again: list[int] = []
    assert bits(train(checkpoint=kept, callbacks=[lambda state: again.append(state.step)])) == whole
    assert again == [], "a finished training was repeated"


def test_pretraining_before_a_training_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: pre-training, which is not kept, comes out otherwise the second time, or is laid over what was kept."""
    x, y = problem().x.double().numpy(), problem().y.numpy()

    def model(checkpoint: Checkpoint | None) -> DGMClassifier:
        found = DGMClassifier(k=3, steps=8, trees=0, samples=2, pretrain="denoising", random_state=0)
        found._checkpoint = checkpoint
        return found.fit(x, y)

    whole = model(None)
    save = Checkpoint.save

    def cut_after(self: Checkpoint, state: dict[str, Any]) -> None:
        save(self, state)
        if len(state["history"]["rows"]) == 5:
            raise PowerError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", cut_after)
        with pytest.raises(PowerError):
            model(Checkpoint(tmp_path, seconds=0))
    torch.manual_seed(99)
    resumed = model(Checkpoint(tmp_path, seconds=0))
    assert bits((resumed.net_, resumed.history_)) == bits((whole.net_, whole.history_))
    assert resumed.pretraining_ is not None
    assert (resumed.predict_proba(x) == whole.predict_proba(x)).all()


def test_a_checkpoint_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: every step is written, which costs, or the last one is not."""
    written: list[int] = []
    save = Checkpoint.save

    def counted(self: Checkpoint, state: dict[str, Any]) -> None:
        written.append(len(state["history"]["rows"]))
        save(self, state)

    monkeypatch.setattr(Checkpoint, "save", counted)
    clock = [0.0]
    monkeypatch.setattr("latentgraph.checkpoint.time.monotonic", lambda: clock[0])

    def tick(state: TrainState) -> None:
        clock[0] += 2.0

    numbers(checkpoint=Checkpoint(tmp_path, seconds=5), callbacks=[tick])
    assert written == [3, 6, 8]


def test_a_checkpoint_is_plain(tmp_path: Path) -> None:
    """Broken: a pickle, or numbers that do not read back as they were."""
    state = {
        "number": 0.1,
        "odd": [math.inf, -math.inf, (1, None, True)],
        "by number": {0: {"step": torch.tensor(3.0)}, 1: {}},
        "text": "dict",
    }
    kept = Checkpoint(tmp_path / "new")
    assert kept.load() is None
    kept.save(state)
    assert kept.load() == state
    kept.save({"nan": math.nan})
    found = kept.load()
    assert found is not None
    assert math.isnan(found["nan"])
    assert {path.suffix for path in (tmp_path / "new").iterdir()} == {".json", ".safetensors"}
    with pytest.raises(InputError, match="lambda is a function"):
        kept.save({"lambda": lambda: None})


def test_another_training_is_refused(tmp_path: Path) -> None:
    """Broken: the state of one training is put into another."""
    kept = Checkpoint(tmp_path, seconds=0)
    fit(network(), problem(), steps=2, checkpoint=kept)
    with pytest.raises(InputError, match=r"steps=2 there, 3 here; lr=0\.01 there, 0\.1 here"):
        fit(network(), problem(), steps=3, lr=0.1, checkpoint=kept)
    with pytest.raises(InputError, match="net, optimizer there, net, baseline, optimizer here"):
        fit(network(), problem(), steps=2, baseline=MovingAverageBaseline(40), checkpoint=kept)
    with pytest.raises(InputError, match="the training of another network"):
        fit(network(out=3), problem(), steps=2, checkpoint=kept)


# Runs


def tiny_plan(place: Path) -> Plan:
    options = {"steps": 4, "samples": 2, "hidden": 8, "embedding_dim": 2, "k": 3}
    return Plan(tiny_table(place / "table.csv"), "kind", folds=2, options=options)


def kill_everywhere(place: Path) -> None:
    """Kill runs at `KILLS` lines of what writes or trains, each from a fork of this process, and let them go on."""
    for module, name, other in LEFT_OUT:
        setattr(module, name, other)
    os.fsync = lambda handle: None  # type: ignore[assignment]  # the system does not die with the process
    Checkpoint.due = True  # type: ignore[assignment,method-assign]
    plan = tiny_plan(place)

    def run(out: Path, kill_at: int | None) -> int:
        """In a fork; its exit status, and in `out`.lines how many lines it went through."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        lines = Lines(kill_at)
        sys.settrace(None if kill_at is None else lines)
        fitting.run(plan, out, resume=True)
        sys.settrace(None)
        out.with_suffix(".lines").write_text(str(lines.count))
        os._exit(0)

    assert run(place / "counted", -1) == 0
    assert run(place / "whole", None) == 0
    whole, total = left_by(place / "whole"), int((place / "counted.lines").read_text())
    chance = random.Random(0)
    for number in range(KILLS):
        at = chance.randrange(total * number // KILLS, total * (number + 1) // KILLS)
        out = place / f"killed-{number}"
        assert run(out, at) == -signal.SIGKILL
        if number % 4 == 0:
            assert run(out, at // 2) in (0, -signal.SIGKILL)  # once more, on the way
        assert run(out, None) == 0
        assert left_by(out) == whole, f"killed at line {at} of {total}"
        shutil.rmtree(out)
    print(json.dumps({"kills": KILLS, "lines": total}))


class Lines:
    """A tracer that counts the lines of the modules under test, and kills the process at one of them."""

    MODULES = (checkpoint, training, folder, fitting, folds, testing, sys.modules["latentgraph.files"])
    FILES = frozenset(str(module.__file__) for module in MODULES) | {
        str(path) for path in Path(str(store.__file__)).parent.glob("*.py")
    }

    def __init__(self, kill_at: int | None) -> None:
        self.count = 0
        self.kill_at = kill_at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in self.FILES:
            return None
        if event == "line":
            self.count += 1
            if self.count == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def test_runs_killed_at_many_places(tmp_path: Path) -> None:
    """Broken: after kill -9 and --resume, one bit of what a run leaves is another, or litter is left."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == KILLS
    assert found["lines"] > 100 * KILLS


class Started:
    """A run that Ctrl-C stopped in its second fold, and how to call it."""

    def __init__(self, place: Path) -> None:
        self.table, self.out = tiny_table(place / "table.csv"), place / "run"
        self.options = ["--target", "kind", "--folds", "2", "--steps", "8", "--samples", "2", "--k", "3"]

    def fit(self, *more: str, out: Path | None = None) -> int:
        return main(["fit", str(self.table), *self.options, "--out", str(out or self.out), *more])


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Started:
    for module, name, other in LEFT_OUT:
        monkeypatch.setattr(module, name, other)
    run = Started(tmp_path)
    run.table = Path("table.csv")  # as most people name it: what is written must not depend on how it goes on
    monkeypatch.chdir(tmp_path)
    left = [1]
    tested = testing.tested

    def until_ctrl_c(*arguments: Any) -> Any:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return tested(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(testing, "tested", until_ctrl_c)
        assert run.fit() == 130
    said = capsys.readouterr().err
    assert f"latentgraph fit --config {run.out}/config.yaml --out {run.out} --resume" in said
    assert "Traceback" not in said
    return run


def times(out: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.rglob("*")}


def test_an_interrupted_run_is_not_lost(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: a call by mistake deletes or mixes what was done, or does not say what to do."""
    before = times(started.out)
    for more, words in {
        (): "holds an interrupted run. Add --resume",
        ("--resume", "--overwrite"): "give one of them",
        ("--resume", "--k", "4"): "begun differently: k was 3, now 4. ",
        ("--resume", "--folds", "3", "--seed", "1"): "folds was 2, now 3; seed was 0, now 1. ",
    }.items():
        assert started.fit(*more) == 2
        assert words in capsys.readouterr().err
    whole = started.table.read_text()
    started.table.write_text(whole.replace("x", "w"))
    assert started.fit("--resume") == 2
    assert "begun differently: SHA-256 of the table was" in capsys.readouterr().err
    started.table.write_text(whole)
    assert times(started.out) == before


def test_resume_and_overwrite(started: Started, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Broken: finished folds are trained again, a finished run is trained again, or overwritten without a word."""
    assert started.fit(out=tmp_path / "whole") == 0
    capsys.readouterr()
    torch.set_num_threads(2)  # a run that is continued with more threads would add in another order
    # As the message says: the options come from the folder.
    assert main(["fit", "--config", f"{started.out}/config.yaml", "--out", str(started.out), "--resume", "--json"]) == 0
    said = capsys.readouterr()
    assert torch.get_num_threads() == 1
    assert "fold 1 of 2: done before" in said.err
    assert "fold 2 of 2: done before" not in said.err
    assert left_by(started.out) == left_by(tmp_path / "whole")

    before = times(started.out)
    assert started.fit("--resume", "--json") == 0
    assert capsys.readouterr().out == said.out
    assert started.fit() == 2
    assert "holds a finished run" in capsys.readouterr().err
    assert times(started.out) == before

    assert started.fit("--overwrite", "--seed", "1") == 0
    assert json.loads((started.out / "run.json").read_text())["asked"]["seed"] == 1
    assert not (started.out / "unfinished").exists()


def test_a_folder_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: files that happen to have our names are replaced, or a record that is damaged ends in a traceback."""
    run = Started(tmp_path)
    run.out.mkdir()
    (run.out / "config.yaml").write_text("mine: true")
    assert run.fit() == 2
    assert run.fit("--resume") == 2
    assert "has config.yaml already" in capsys.readouterr().err
    assert [path.name for path in run.out.iterdir()] == ["config.yaml"]
    (run.out / "run.json").write_text("[]")
    assert run.fit("--resume") == 2
    assert "run.json is not as latentgraph writes it" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_one_at_a_time(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken: two processes write into one run."""
    with folder._alone(started.out):
        assert started.fit("--resume") == 2
    assert "another latentgraph is at work" in capsys.readouterr().err


def test_the_command_killed_and_continued(tmp_path: Path) -> None:
    """Broken: what works in one process does not on a real command line."""
    run = Started(tmp_path)
    run.options += ["--folds", "0"]  # quicker: one part
    command = [sys.executable, "-m", "latentgraph", "fit", str(run.table), *run.options, "--out", str(run.out)]
    begun = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while begun.poll() is None and not (run.out / "unfinished" / "test-1" / "manifest.json").exists():
        time.sleep(0.005)
    begun.kill()
    assert begun.wait() == -signal.SIGKILL
    assert json.loads((run.out / "run.json").read_text())["finished"] is False
    assert run.fit("--resume") == 0
    assert run.fit(out=tmp_path / "whole") == 0
    assert left_by(run.out) == left_by(tmp_path / "whole")


if __name__ == "__main__":
    torch.set_num_threads(1)
    kill_everywhere(Path(sys.argv[1]))
