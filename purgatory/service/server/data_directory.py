"""The lock of a data directory, which one server at a time holds. Any thread."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from purgatory.errors import StoreError
from purgatory.service.errors import ServerError
from purgatory.service.store.private_files import make_private_directory

#: What a data directory has, one of them at least.
OWN_FILES = ("lock", "purgatory.db", "journal", "keys")


@contextlib.contextmanager
def data_directory_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a data directory, which is made if needed.

    Raises ServerError if another server holds it, StoreError if the directory cannot be written,
    or lets others in and is not the server's own.
    """
    make_private_directory(directory, OWN_FILES)
    try:
        file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(file, 0o600)
    except OSError as error:
        raise StoreError(f"{directory}: cannot write there: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise ServerError(f"{directory}: another server has its data there") from error
    try:
        yield
    finally:
        os.close(file)
