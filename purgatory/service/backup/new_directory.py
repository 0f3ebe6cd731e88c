"""NewDirectory: a directory that appears complete, and on disk, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from purgatory.durable_files import fsync, make_directory
from purgatory.errors import StoreError
from purgatory.service.store.private_files import PRIVATE_DIRECTORY, PRIVATE_FILE


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a directory to be filled; it gets the name `target` if the block raises nothing.

    Only its owner may read it. Raises StoreError if `target` exists and is not an empty directory,
    or if it cannot be written.
    """
    unfinished = target.with_name(f".{target.name}.unfinished-{os.getpid()}")
    try:
        _check_free(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir(mode=PRIVATE_DIRECTORY)
        yield unfinished
        _fsync_directories(unfinished)
        unfinished.rename(target)  # fails if it has been filled meanwhile
        fsync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{error.filename or target}: {reason}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _check_free(target: Path) -> None:
    if target.is_dir():
        found = sorted(path.name for path in target.iterdir())
        if found:
            raise StoreError(f"{target}: has {found[0]!r} in it; expected a new or empty directory")
    elif target.exists():
        raise StoreError(f"{target}: is a file; expected a new or empty directory")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, with the directories that it lies in; it is on disk then. Raises OSError."""
    make_directory(target.parent, PRIVATE_DIRECTORY)
    with (
        source.open("rb") as reader,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as writer,  # noqa: PTH123  # a descriptor
    ):
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())


def _fsync_directories(top: Path) -> None:
    for directory, _, _ in os.walk(top):
        fsync(Path(directory))
