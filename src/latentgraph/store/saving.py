"""Writing a model: new files first, then the manifest in one step, then the old files go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from latentgraph.errors import InputError
from latentgraph.store.formats import encode
from latentgraph.store.manifest import FILE, LIMIT, MANIFEST, Entry, compose, fresh_name, parse, sha256
from latentgraph.store.presence import alone, present, sync


def save(folder: Path, parts: Mapping[str, Any]) -> None:
    """Keep `parts` in `folder`, in the place of the model that was there.

    The ending of a name says what its part is: tensors by their names (.safetensors), what JSON can hold (.json),
    otherwise bytes. Savers at the same time do not disturb each other: the last one wins.

    Raises InputError for parts that cannot be kept, and OSError where the disk is full or may not be written to.
    """
    data = {name: encode(name, part) for name, part in parts.items()}
    entries = {name: Entry(fresh_name(name, part), len(part), sha256(part)) for name, part in data.items()}
    manifest = compose(entries)
    parse(folder / MANIFEST, manifest)  # what loading would refuse is not written
    if len(manifest) > LIMIT:
        raise InputError(f"{len(parts)} parts are too many: their manifest has more than {LIMIT} bytes.")
    files = {entry.file: data[name] for name, entry in entries.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder, files, manifest)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder} is a file or lies below one. Name a folder, new or existing.") from None
    except OSError as error:
        kept = "saving did not finish; the folder holds what it held before, or all of the new model"
        raise OSError(error.errno, f"{error.strerror or error} ({kept})", str(folder)) from error


def _replace(folder: Path, files: Mapping[str, bytes], manifest: bytes) -> None:
    new_manifest = fresh_name(MANIFEST, manifest)
    with present(folder) as handle:
        old_manifest = _glance(folder)
        saved = False
        try:
            for file, data in files.items():
                _write(folder / file, data)
            _write(folder / new_manifest, manifest)
            sync(handle)
            os.replace(folder / new_manifest, folder / MANIFEST)
            sync(handle)
            saved = True
        finally:
            with suppress(OSError):
                _tidy(folder, {*files, new_manifest}, old_manifest, strays=saved and alone(handle))


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _tidy(folder: Path, ours: set[str], old_manifest: bytes, strays: bool) -> None:
    """Delete what the manifest of now does not name: the old model's files, or ours if they did not become the model.

    Strays, the files of neither, are what a killed saver left, or belong to a saver that is still at work.
    """
    manifest = _glance(folder)  # not from memory: an interruption may come just after the manifest was replaced
    for path in filter(lambda path: FILE.fullmatch(path.name), folder.iterdir()):
        name = path.name.encode()
        if name not in manifest and (strays or path.name in ours or name in old_manifest):
            with suppress(OSError):
                path.unlink()


def _glance(folder: Path) -> bytes:
    """The manifest as it is, whatever it says; empty where there is none."""
    path = folder / MANIFEST
    return path.read_bytes() if path.is_file() else b""
