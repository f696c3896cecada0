"""The folder of a run: who may write into it, and how far an interrupted run has come.

`run.json` says what the run was asked for and whether it is finished; it is replaced in one step of the file system.
Until a run is finished, the folder `unfinished` holds what is done so far.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from latentgraph.errors import InputError
from latentgraph.files import replacing

if sys.platform != "win32":
    import fcntl

RECORD, CONFIG = "run.json", "config.yaml"
RESULTS = (
    *("summary.json", "metrics.json", "history.csv", "tested.csv", "nodes.csv", "graph.npz", "card.md"),
    *("table.parquet", "explorer.html", "model", "plots"),
)


@dataclass(frozen=True)
class RunFolder:
    """A folder for one run.

    Attributes
    ----------
    path : the folder
    config : the options, as `--config` reads them
    asked : all that decides the result, by name: a run is continued only if this is the same
    """

    path: Path
    config: Mapping[str, Any]
    asked: Mapping[str, Any]

    @property
    def unfinished(self) -> Path:
        return self.path / "unfinished"

    @contextmanager
    def work(self, *, resume: bool, overwrite: bool) -> Iterator[bool]:
        """Have the folder for oneself; yield whether the run was finished before.

        Raises InputError where something is in the way, before anything is changed.
        """
        self._check(resume, overwrite)
        self.path.mkdir(parents=True, exist_ok=True)
        with _alone(self.path):
            record = self._check(resume, overwrite)  # again: who had the folder before may have changed it
            if record is not None and record["finished"]:
                self._discard()  # it may have been killed just before
                yield True
                return
            if record is None:
                self._discard()
            else:  # another number of threads would add in another order
                torch.set_num_threads(record["threads"])
            self._write_record(finished=False)
            write_config(self.path / CONFIG, self.config)
            yield False
            self._write_record(finished=True)
            self._discard()

    def _check(self, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """The record of the run to be continued, None to begin; refuse to lose or to mix anything."""
        path = self.path
        if resume and overwrite:
            raise InputError("--resume continues a run and --overwrite replaces it; give one of them.")
        if path.exists() and not path.is_dir():
            raise InputError(f"--out {path} is a file; name a folder.")
        if overwrite:
            return None
        record = read_record(path)
        taken = [name for name in (CONFIG, *RESULTS) if (path / name).exists()]
        if record is None and taken:
            raise InputError(
                f"--out {path} has {', '.join(taken)} already, and no run that could be continued. "
                "Name another folder, or add --overwrite to replace them."
            )
        if record is not None and not resume:
            raise InputError(
                f"--out {path} holds a finished run. Name another folder, or add --overwrite to replace it."
                if record["finished"]
                else f"--out {path} holds an interrupted run. Add --resume to continue it, name another folder, or add "
                "--overwrite to begin again."
            )
        if record is not None and (found := differences(record["asked"], self.asked)):
            raise InputError(
                f"--resume: the run in {path} was begun differently: {'; '.join(found)}. Continue it as it was "
                f"begun (its options are in {path / CONFIG}), or name another folder."
            )
        return record

    def _write_record(self, *, finished: bool) -> None:
        with replacing(self.path / RECORD) as file:
            json.dump({"finished": finished, "threads": torch.get_num_threads(), "asked": self.asked}, file, indent=1)

    def _discard(self) -> None:
        """Delete what is unfinished, and what killed writers left.

        The folder is renamed first: half deleted, it would look damaged.
        """
        for name in (RECORD, CONFIG, *RESULTS, "plots/*"):
            for left in self.path.glob(str(Path(name).with_name(f".{Path(name).name}.*.tmp"))):
                left.unlink()
        rest = self.path / ".discarded"
        shutil.rmtree(rest, ignore_errors=True)
        if self.unfinished.exists():
            os.replace(self.unfinished, rest)
            shutil.rmtree(rest, ignore_errors=True)


def differences(begun: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Every difference in words; JSON has no tuples, so that both sides are compared as JSON."""
    now = json.loads(json.dumps(asked))
    names = [name for name in dict.fromkeys([*begun, *now]) if begun.get(name) != now.get(name)]
    return [f"{name} was {begun.get(name)!r}, now {now.get(name)!r}" for name in names]


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Options as `--config` reads them."""
    with replacing(path) as file:
        file.writelines(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in config.items())


def read_record(path: Path) -> dict[str, Any] | None:
    """What `run.json` says; None where there is none."""
    try:
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        return {name: record[name] for name in ("finished", "threads", "asked")}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path / RECORD} is not as latentgraph writes it. Name another folder, or add --overwrite to begin again."
        ) from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder. The system ends the lock with the process, however it ends; Windows cannot lock folders."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another latentgraph is at work in {folder}. Wait for it, or name another folder."
            ) from None
        except OSError:  # a network disk without locks
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def sharing(folder: Path) -> Iterator[bool]:
    """Be at work in a folder that several processes share; yield whether nobody else is."""
    if sys.platform == "win32":
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    alone = True
    try:
        with suppress(OSError):  # a network disk without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield alone
    finally:
        os.close(handle)
