"""`manifest.json`: which files make up the model, how long they are, and their SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from latentgraph import __version__
from latentgraph.errors import InputError
from latentgraph.store.formats import ADVICE, read_json

MANIFEST = "manifest.json"
FORMAT = 2  # 1: edges of a model as three columns
LIMIT = 1 << 20  # bytes of a manifest; a real one has a few hundred for each part
FILE = re.compile(r"[\w.-]{1,100}-[0-9a-f]{8}\.lg[0-9a-f]{8}(\.[\w-]*)?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Entry(NamedTuple):
    """What the manifest says of one part."""

    file: str
    size: int
    sha256: str


def fresh_name(name: str, data: bytes) -> str:
    """A file name that nobody has used: savers never touch each other's files. `.lg` tells them from other files."""
    stem, ending = os.path.splitext(re.sub(r"[^\w.-]", "_", name, flags=re.ASCII))
    return f"{stem}-{sha256(data)[:8]}.lg{secrets.token_hex(4)}{ending}"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def compose(entries: Mapping[str, Entry]) -> bytes:
    """The text of a manifest."""
    parts = {name: entry._asdict() for name, entry in entries.items()}
    content = {"format": FORMAT, "latentgraph": __version__, "parts": parts}
    return json.dumps(content | {"sha256": _own_sha256(content)}, indent=1).encode()


def parse(path: Path, manifest: bytes) -> tuple[str, dict[str, Entry]]:
    """The version that saved, and the parts. The manifest's own SHA-256 finds damage, not malice: hence the rest."""
    content = read_json(path, manifest)
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise InputError(f"{path} is not the manifest of a latentgraph model. {ADVICE}")
    if content["format"] != FORMAT:
        raise InputError(
            f"{path} was written by latentgraph {str(content.get('latentgraph'))[:20]!r} in format "
            f"{str(content['format'])[:20]}; this is latentgraph {__version__}, which reads format {FORMAT}. "
            "Install the version that wrote it, or fit the model again."
        )
    try:
        if content.pop("sha256", None) != _own_sha256(content):
            raise InputError(f"{path} was changed or damaged: its own SHA-256 does not fit. {ADVICE}")
        version, parts = content.pop("latentgraph"), content.pop("parts")
        entries = {name: Entry(**entry) for name, entry in parts.items()}
    except (AttributeError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path} lacks a field, or has one of another kind than latentgraph writes. {ADVICE}"
        ) from None
    if content.keys() != {"format"} or type(version) is not str:
        raise InputError(f"{path} has fields that latentgraph does not write. {ADVICE}")
    for name, entry in entries.items():
        _check(path, name, entry)
    return version, entries


def _check(path: Path, name: str, entry: Entry) -> None:
    if not 0 < len(name) <= 100:
        raise InputError(f"{path} would name a part {name[:120]!r}: names have 1 to 100 letters.")
    if type(entry.file) is not str or not FILE.fullmatch(entry.file):
        raise InputError(f"{path} names a file {str(entry.file)[:120]!r}, which latentgraph did not write. {ADVICE}")
    if type(entry.size) is not int or entry.size < 0:
        raise InputError(f"{path} says that {entry.file} has {str(entry.size)[:40]} bytes. {ADVICE}")
    if type(entry.sha256) is not str or not _SHA256.fullmatch(entry.sha256):
        raise InputError(f"{path} says that {entry.file} has the SHA-256 {str(entry.sha256)[:80]!r}. {ADVICE}")


def _own_sha256(content: Mapping[str, Any]) -> str:
    """Of what a manifest says, however it is laid out."""
    return sha256(json.dumps(content, sort_keys=True).encode())
