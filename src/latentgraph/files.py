"""Writing files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; when the block ends well, flush it and rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(temporary, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def rewrite_pages(folder: Path, change: Callable[[str], str]) -> None:
    """Replace the text of every page (*.md) in a folder by what `change` makes of it; most stay as they are."""
    for path in sorted(folder.glob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := change(before)) != before:
            with replacing(path) as file:
                file.write(after)
