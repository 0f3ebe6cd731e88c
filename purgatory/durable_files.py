"""Directories and names of files that are on disk when a function returns. Any thread."""

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory and its parents, with `mode`; they are on disk then. Raises OSError.

    Only what is new is changed: the parent of each new directory is synced.
    """
    if path.is_dir():
        return
    make_directory(path.parent, mode)
    path.mkdir(mode, exist_ok=True)
    fsync(path.parent)
