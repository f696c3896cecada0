"""Savers make themselves known, so that nobody deletes the files of one that is still at work.

The lock is on the folder itself: no lock file stays behind, and the system ends the lock with the process, however it
ends. Windows cannot open folders, and some network disks have no locks: models are as safe there, but what a killed
saver left is not deleted by the next one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def present(folder: Path) -> Iterator[int | None]:
    """Hold the folder open under a lock that savers share."""
    if sys.platform == "win32":
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield handle
    finally:
        os.close(handle)


def alone(handle: int | None) -> bool:
    """Whether no other saver is at work. If so, a new one waits until the handle is closed."""
    if sys.platform == "win32" or handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sync(handle: int | None) -> None:
    """Have the names in the folder written to the disk; `fsync` of a file does not do that."""
    if handle is None:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot, and does without
            raise
