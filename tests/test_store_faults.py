"""A model's folder when things go wrong while saving: the old model or the new one, complete, and no litter."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from latentgraph.store import load, save, saving

OLD: dict[str, Any] = {"config.json": {"model": "old"}, "weights.bin": b"o" * 20_000, "card.md": b"old"}
NEW: dict[str, Any] = {"config.json": {"model": "new"}, "weights.bin": b"n" * 30_000, "extra.bin": b"", "card.md": b""}


def model(folder: Path) -> dict[str, Any]:
    parts = load(folder)
    return {name: parts.json(name) if name.endswith(".json") else parts.raw(name) for name in parts.names()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "model", OLD)
    return tmp_path / "model"


def check_refused(folder: Path, number: int) -> None:
    """Saving fails with an error that a person can read, and leaves the folder as it was."""
    before = sorted(folder.iterdir())
    with pytest.raises(OSError, match="did not finish; the folder holds what it held before") as caught:
        save(folder, NEW)
    assert caught.value.errno == number
    assert caught.value.filename == str(folder)
    assert sorted(folder.iterdir()) == before
    assert model(folder) == OLD


def test_savers_killed_at_any_moment(tmp_path: Path) -> None:
    script = Path(__file__).parent / "faults" / "killed_savers.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["lines"]["A"] > 20, "killed before the new model was there"
    assert counts["lines"]["B"] > 20, "killed after"
    assert counts["lines"]["untidy"] > 20
    assert sum(counts["random"].values()) == 100


class SmallDisk:
    """Stands for `open` on a disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __call__(self, path: Path, mode: str) -> io.BufferedWriter:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                if not (part := bytes(data)[: disk.room]):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                disk.room -= len(part)
                return super().write(part)

        return io.BufferedWriter(File(path, mode))


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    for room in [0, 1, *(rng.randrange(31_000) for _ in range(48))]:
        with monkeypatch.context() as patch:
            patch.setattr(saving, "open", SmallDisk(room), raising=False)
            check_refused(folder, errno.ENOSPC)
    with monkeypatch.context() as patch:
        patch.setattr(saving, "open", SmallDisk(0), raising=False)
        with pytest.raises(OSError, match="No space left on device"):
            save(folder.parent / "first", NEW)
    assert not list((folder.parent / "first").iterdir())
    save(folder, NEW)
    assert model(folder) == NEW


def test_a_limit_of_the_system(folder: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (25_000, limits[1]))
    try:
        check_refused(folder, errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("function", ["open", "os.replace", "os.open"])
def test_a_folder_that_may_not_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        if function == "open":
            patch.setattr(saving, "open", fail, raising=False)
        else:
            patch.setattr(function, fail)
        check_refused(folder, number)


def test_a_folder_that_may_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", fail)
    with pytest.raises(OSError, match="Read-only file system"):
        save(tmp_path / "model", NEW)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fails_when_it_has_to_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.fsync
    outcomes = []
    for good in range(7):  # four parts, the manifest, the folder before and after
        save(folder, OLD)
        left = good

        def fsync(handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            really(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(OSError, match="did not finish"):
                save(folder, NEW)
        outcomes.append(model(folder) == NEW)
        assert outcomes[-1] or model(folder) == OLD
        assert len(list(folder.iterdir())) == 1 + len(load(folder).names())
    assert outcomes == [False] * 6 + [True]


@pytest.mark.parametrize("late", [False, True])
def test_an_interruption_around_the_last_step(folder: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        if late:
            really(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            save(folder, NEW)
    assert model(folder) == (NEW if late else OLD)
    assert len(list(folder.iterdir())) == 1 + len(load(folder).names())


def test_savers_and_readers_at_the_same_time(folder: Path) -> None:
    models = [{"config.json": who, "weights.bin": bytes([who]) * 10_000, f"{who}.md": b"same"} for who in range(3)]
    failures: list[BaseException] = []

    def work(mine: dict[str, Any]) -> None:
        try:
            for _ in range(30):
                save(folder, mine)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work, args=(mine,)) for mine in models]
    for thread in threads:
        thread.start()
    seen = 0
    while any(thread.is_alive() for thread in threads):
        assert model(folder) in [OLD, *models]
        seen += 1
    for thread in threads:
        thread.join()
    assert not failures
    assert seen > 0
    assert model(folder) in models
    save(folder, NEW)
    assert len(list(folder.iterdir())) == 1 + len(NEW), "what savers could not delete for each other goes later"


def test_a_saver_at_work_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another saver comes and goes just before the last step of the first one."""
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", really)
        save(folder, OLD)
        really(source, target)

    monkeypatch.setattr(os, "replace", replace)
    save(folder, NEW)
    assert model(folder) == NEW
    save(folder, NEW)
    assert len(list(folder.iterdir())) == 1 + len(NEW)


def test_a_reader_whose_files_go_reads_the_newer_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        data = really(path)
        if path.name == "manifest.json":
            monkeypatch.setattr(Path, "read_bytes", really)
            save(folder, NEW)
        return data

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert model(folder) == NEW
