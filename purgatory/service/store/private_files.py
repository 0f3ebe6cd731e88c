"""Files and directories that only their owner may read, whatever the umask. Any thread."""

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from purgatory.errors import StoreError

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_OTHERS: Final = 0o077
# SQLite gives its log and its index of that the mode of the database.
_SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def make_private_directory(directory: Path, own: Collection[str]) -> None:
    """Make a directory with its parents; or make one private that others may read.

    One that exists is changed only if it is this user's, and is empty or has one of the files
    `own`: so no directory that is used for something else is shut. Raises StoreError.
    """
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        if mode & _OTHERS and _may_shut(directory, own):
            directory.chmod(PRIVATE_DIRECTORY)
            mode = directory.stat().st_mode
    except OSError as error:
        raise StoreError(f"{directory}: cannot write there: {error.strerror}") from error
    if mode & _OTHERS:
        raise StoreError(
            f"{directory}: its mode is {stat.S_IMODE(mode):04o}, which lets others in; expected "
            f"{PRIVATE_DIRECTORY:04o}, or a new directory in it"
        )


def _may_shut(directory: Path, own: Collection[str]) -> bool:
    found = directory.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:  # as /tmp has it
        return False
    names = set(os.listdir(directory)) - {"lost+found"}  # noqa: PTH208  # names are enough
    return not names or not names.isdisjoint(own)


def make_database_private(path: Path) -> None:
    """Make an empty database file, or make the files of one private. Raises StoreError.

    Before SQLite has the file open: closing another descriptor of it would drop SQLite's locks.
    """
    try:
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
        for suffix in _SQLITE_SUFFIXES:
            _make_private(path.with_name(path.name + suffix))
    except OSError as error:
        raise StoreError(f"{path}: cannot open: {error.strerror}") from error


def _make_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if mode & _OTHERS:
        path.chmod(PRIVATE_FILE)
