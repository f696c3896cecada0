"""Reading a model: nothing is parsed before its size and its SHA-256 are those of the manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentgraph.errors import InputError
from latentgraph.store.formats import ADVICE, read_arrays, read_json, read_tensors, recognise
from latentgraph.store.manifest import LIMIT, MANIFEST, Entry, parse, sha256

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Parts:
    """A model as it was loaded: each part by its name, in the format that the ending of the name says."""

    def __init__(self, version: str, parts: Mapping[str, tuple[Path, bytes]]) -> None:
        self.version = version  # of the latentgraph that saved the model
        self._parts = parts

    def names(self) -> list[str]:
        return list(self._parts)

    def raw(self, name: str) -> bytes:
        return self._part(name)[1]

    def json(self, name: str) -> Any:
        return read_json(*self._part(name))

    def tensors(self, name: str) -> dict[str, Tensor]:
        return read_tensors(*self._part(name))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return read_arrays(*self._part(name))

    def _part(self, name: str) -> tuple[Path, bytes]:
        if name not in self._parts:
            raise InputError(f"the model has no part {name!r}; it has: {', '.join(map(repr, self._parts)) or 'none'}.")
        return self._parts[name]


def load(folder: Path) -> Parts:
    """The model that `folder` holds.

    Raises InputError where there is no model, and where a file is missing, damaged or not what latentgraph writes.
    """
    manifest = _read_manifest(folder)
    while True:
        try:
            return _read(folder, manifest)
        except InputError:
            before, manifest = manifest, _read_manifest(folder)
            if manifest == before:
                raise
            # Somebody saved a newer model and deleted the files of the one that was being read: read the newer one.


def _read(folder: Path, manifest: bytes) -> Parts:
    version, entries = parse(folder / MANIFEST, manifest)
    parts = {name: (folder / entry.file, _read_part(folder / entry.file, entry)) for name, entry in entries.items()}
    for name, (path, data) in parts.items():
        recognise(name, path, data)
    return Parts(version, parts)


def _read_manifest(folder: Path) -> bytes:
    if not folder.is_dir():
        raise InputError(f"{folder} is {'a file' if folder.exists() else 'not there'}. Name the folder of a model.")
    path = folder / MANIFEST
    if not os.path.lexists(path):
        names = sorted(entry.name for entry in folder.iterdir())
        held = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise InputError(f"{folder} holds no latentgraph model: there is no {MANIFEST}; it has: {held or 'nothing'}.")
    if (size := _size(path)) > LIMIT:
        raise InputError(f"{path} has {size} bytes; a manifest has at most {LIMIT}. {ADVICE}")
    return path.read_bytes()


def _read_part(path: Path, entry: Entry) -> bytes:
    try:
        if (size := _size(path)) != entry.size:  # checked before memory is taken for it
            raise InputError(f"{path} is damaged: it has {size} bytes, but {entry.size} were saved. {ADVICE}")
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing, though {MANIFEST} names it. {ADVICE}") from None
    except MemoryError:
        raise InputError(f"{path} has {entry.size} bytes, which do not fit into memory.") from None
    if (found := sha256(data)) != entry.sha256:
        raise InputError(f"{path} is damaged: its SHA-256 is {found}, but {entry.sha256} was saved. {ADVICE}")
    return data


def _size(path: Path) -> int:
    """The size of a file, which must be a file itself: a link could lead out of the folder."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is a link, a folder or a device. Put the file itself in its place.")
    return status.st_size
