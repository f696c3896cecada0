"""Kill processes that train together with SIGKILL, and stop one; look at what the others do and what is left.

Run as a script, `python killed_processes.py FOLDER [KILLS]`; 20 kills unless said. Every check is an assertion here;
the summary goes to stdout as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from forked_worlds import DEADLINE, Ended, world
from latentgraph import store
from latentgraph.checkpoint import Checkpoint
from latentgraph.cli import main as command
from latentgraph.distributed.group import joined
from latentgraph.distributed.partition import Partition
from latentgraph.errors import LostProcessError
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import MovingAverageBaseline
from latentgraph.model import DGMNet
from latentgraph.runs import plots, scores
from latentgraph.stacks import gcn, mlp
from latentgraph.training import Callback, NodeSet, TrainState, fit

N = 60  # few enough for the sampler that is not compiled
TIMEOUT = DEADLINE / 2  # of the network: who learns of a death by it alone still ends in time
EACH = 4  # steps between two kills, about


def train(folder: Path, steps: int, timeout: float = TIMEOUT, callbacks: Sequence[Callback] = ()) -> int:
    """Train, or go on training, alone or with others; write the weights; 1 if another process is lost."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 2
    x = torch.randn(N, 5, generator=generator, dtype=torch.float64) + y[:, None]
    torch.manual_seed(1)
    dgm = DiscreteDGM(mlp([5, 8, 3], dropout=0.2), k=3)
    net = DGMNet([(dgm, gcn([5, 8], activate_last=True, dropout=0.3))], nn.Linear(8, 2)).double()
    mask = torch.arange(N) % 4 == 0
    sets = [NodeSet(x, y, ~mask), NodeSet(x, y, mask)]
    try:
        with joined(timeout) as team:
            partition = None if team is None else Partition.of(N, team)
            learn, stop = sets if partition is None else [partition.part(nodes) for nodes in sets]
            fit(
                net,
                learn,
                validation=stop,
                baseline=MovingAverageBaseline(N).double(),
                steps=steps,
                eval_every=2,
                eval_samples=1,
                checkpoint=Checkpoint(folder / "kept", seconds=0),
                callbacks=callbacks,
                sharing=partition,
            )
            if team is None or team.first:
                store.save(folder / "weights", {"weights.safetensors": net.state_dict()})
    except LostProcessError as error:
        print(error)
        return 1
    return 0


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return store.load(folder / "weights").tensors("weights.safetensors")


def steps_kept(folder: Path) -> int:
    kept = Checkpoint(folder / "kept").load()
    return 0 if kept is None else len(kept["history"]["rows"])


def strike(victim: int, step: int, delay: float, number: int) -> Callback:
    """A callback: some time after a step, the victim gets a signal. It may be anywhere then."""

    def callback(state: TrainState) -> None:
        if state.step == step and int(os.environ.get("RANK", "0")) == victim:
            threading.Timer(delay, lambda: os.kill(os.getpid(), number)).start()

    return callback


def check_survivors(ended: Sequence[Ended], victim: int, struck: float, words: str) -> None:
    """They end in time, by themselves, and say why."""
    for rank, process in enumerate(ended):
        if rank != victim:
            assert process.status == 1, (rank, process)
            assert words in process.words, process.words
            assert process.seconds - struck < DEADLINE, process


def kill_often(folder: Path, kills: int) -> dict[str, Any]:
    """Each run goes on where the last one was killed, with another number of processes; the end is that of one run."""
    random.seed(0)
    steps = 4 * EACH * (kills + 1)  # a blow comes late: the victim may get some steps further
    (alone,) = world(1, partial(train, folder / "alone", steps), folder)
    assert alone.status == 0, alone.words
    sizes, longest = [], 0.0
    for number in range(kills):
        size = random.choice([2, 3])
        victim = random.randrange(size)
        before = steps_kept(folder)
        blow = strike(victim, before + random.randint(1, EACH), random.uniform(0.0, 0.02), signal.SIGKILL)
        ended = world(size, partial(train, folder, steps, callbacks=[blow]), folder)
        assert ended[victim].status == -signal.SIGKILL, ended[victim]
        check_survivors(ended, victim, ended[victim].seconds, "waited in vain")
        longest = max([longest, *(process.seconds - ended[victim].seconds for process in ended)])
        assert steps_kept(folder) >= before, number  # the same, if the first was killed before it had kept the step
        sizes.append(size)
    ended = world(2, partial(train, folder, steps), folder)
    assert all(process.status == 0 for process in ended), ended
    for name, value in weights(folder / "alone").items():
        torch.testing.assert_close(weights(folder)[name], value, rtol=1e-6, atol=1e-8)
    return {"kills": kills, "processes": sizes, "longest until all had ended, s": round(longest, 2)}


def stop_one(folder: Path, timeout: float = 3.0) -> dict[str, Any]:
    """A process that does not answer: the others give up after the time-out, and say so."""
    folder.mkdir()

    asleep = strike(1, 3, 0.0, signal.SIGSTOP)
    ended = world(2, partial(train, folder, 1000, timeout, [asleep]), folder, last=0)
    assert ended[0].status == 1, ended[0]
    assert f"time-out: {timeout:g} s" in ended[0].words, ended[0].words
    return {"seconds until it was given up": round(ended[0].seconds, 1)}


def run_the_command(folder: Path) -> dict[str, Any]:
    """`latentgraph fit` by two processes, killed, and continued by one and by three: the model of one process."""
    scores.baselines = lambda task, seed: {}
    plots.write = lambda *arguments: {}
    folder.mkdir()
    generator = np.random.default_rng(0)
    kind = np.arange(N) % 3
    frame = pd.DataFrame(generator.normal(size=(N, 4)) + kind[:, None], columns=list("abcd"))
    frame["kind"] = np.where(np.arange(N) % 7 == 0, "", np.array(["x", "y", "z"])[kind])
    frame.to_csv(folder / "table.csv", index=False)
    options = ["--steps", "12", "--trees", "5", "--samples", "2", "--timeout", f"{TIMEOUT:g}", "--resume"]

    def run(out: str, dies: bool = False) -> int:
        torch.set_num_threads(1)
        if dies and os.environ["RANK"] == "1":
            threading.Thread(target=die_when_there_is, args=(folder / out / "unfinished" / "training-1",)).start()
        return command(["fit", str(folder / "table.csv"), "--target", "kind", "--out", str(folder / out), *options])

    (alone,) = world(1, partial(run, "one"), folder)
    assert alone.status == 0, alone.words
    ended = world(2, partial(run, "killed", True), folder)
    assert ended[1].status == -signal.SIGKILL, ended
    check_survivors(ended, 1, ended[1].seconds, "--resume")
    for size, out in ((2, "two"), (3, "killed")):
        ended = world(size, partial(run, out), folder)
        assert all(process.status == 0 for process in ended), ended
        assert "Trained on all 60 rows" in ended[0].words
        assert not ended[1].words.strip(), ended[1].words
        check_same_model(folder / "one", folder / out)
    wrong = world(2, lambda: command(["fit", str(folder / "none.csv"), "--target", "kind"]), folder)
    assert [process.status for process in wrong] == [2, 2], wrong
    assert "none.csv" in wrong[0].words
    assert not wrong[1].words.strip()
    return {"command": "the same model"}


def die_when_there_is(path: Path) -> None:
    while not path.exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def check_same_model(one: Path, other: Path) -> None:
    """The graph exactly, all numbers nearly: the network was trained in single precision."""
    a, b = (store.load(path / "model").tensors("model.safetensors") for path in (one, other))
    assert a.keys() == b.keys()
    for name, value in a.items():
        if value.is_floating_point():
            torch.testing.assert_close(b[name].double(), value.double(), rtol=1e-3, atol=1e-4)
        else:
            assert torch.equal(b[name], value), name


def main(folder: str, kills: str = "20") -> None:
    start = time.monotonic()
    found = run_the_command(Path(folder) / "command")
    found |= kill_often(Path(folder), int(kills)) | stop_one(Path(folder) / "stopped")
    print(json.dumps(found | {"seconds": round(time.monotonic() - start, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
