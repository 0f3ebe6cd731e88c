"""The data directory of a server: its rights and its lock. Any thread.

The service's directories are for their owner alone, whatever the umask.
"""

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from purgatory.durable_files import DirectoryLock
from purgatory.errors import StoreError
from purgatory.service.errors import ServerError

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
#: The bits of a mode for other users.
OTHERS: Final = 0o077


def make_private_directory(directory: Path, own: Collection[str]) -> None:
    """Make a directory with its parents; or make a readable one private. Raises StoreError.

    Changes an existing directory only if this user owns it, and if it is empty or has one of the
    files `own`.
    """
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        if mode & OTHERS and _may_shut(directory, own):
            directory.chmod(PRIVATE_DIRECTORY)
            mode = directory.stat().st_mode
    except OSError as error:
        raise StoreError(f"{directory}: cannot write there: {error.strerror}") from error
    if mode & OTHERS:
        raise StoreError(
            f"{directory}: its mode is {stat.S_IMODE(mode):04o}, so other users can read it; "
            f"expected {PRIVATE_DIRECTORY:04o}, or a new directory in it"
        )


def _may_shut(directory: Path, own: Collection[str]) -> bool:
    found = directory.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:  # as /tmp has it
        return False
    names = set(os.listdir(directory)) - {"lost+found"}  # noqa: PTH208  # names are enough
    return not names or not names.isdisjoint(own)


LOCK_FILE: Final = "lock"
#: Each data directory has some of these.
OWN_FILES = (LOCK_FILE, "purgatory.db", "journal", "keys")


@contextlib.contextmanager
def data_directory_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a data directory, made if needed.

    Raises ServerError if another server holds it, StoreError as `make_private_directory`.
    """
    make_private_directory(directory, OWN_FILES)
    try:
        lock = DirectoryLock(directory, LOCK_FILE)
        (directory / LOCK_FILE).chmod(PRIVATE_FILE)
    except BlockingIOError as error:
        raise ServerError(f"{directory}: another server has its data there") from error
    except OSError as error:
        raise StoreError(f"{directory}: cannot write there: {error.strerror}") from error
    with contextlib.closing(lock):
        yield
