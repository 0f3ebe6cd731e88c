"""Files of a data directory: their rights, its lock, copies of a database, and its log.

Files and directories that the service makes are for their owner alone, whatever the umask.
`DatabaseFiles` is what a store does to its files beside SQLite; a simulation has its own. Any
thread, but for `WalPreallocator`: the store thread alone.
"""

import contextlib
import os
import sqlite3
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from purgatory.durable_files import DirectoryLock, fsync
from purgatory.errors import StoreError
from purgatory.service.errors import ServerError

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


# The log is extended by its own length, within these bounds in bytes.
_MIN_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 1 << 20


class WalPreallocator:
    """Extends the log at `path`, until it has `enough` bytes; `system` stands for `os`."""

    def __init__(self, path: Path, enough: int, system: Any = os) -> None:
        self._system = system
        self._path = path
        self._enough = enough
        self._file = -1
        self._length = 0  # of the log when it was last extended
        self._closed = False

    def extend_if_full(self) -> bool:
        """Extend the log if the last commit has filled it; False if it was cut off meanwhile."""
        if self._closed:
            return True
        try:
            if self._file < 0:
                self._file = self._system.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            length = self._system.lseek(self._file, 0, os.SEEK_END)
            if length < self._length:
                return False
            if length > self._length:
                self._extend(length)
        except OSError:  # the disk is full, or there is no such file
            self.close()
        return True

    def _extend(self, length: int) -> None:
        if length >= self._enough:
            self.close()
            return
        zeros = bytes(min(max(length, _MIN_BYTES), _MAX_BYTES))
        self._length = length + self._system.pwrite(self._file, zeros, length)

    def close(self) -> None:
        """Stop extending. Idempotent."""
        self._closed = True
        file, self._file = self._file, -1
        if file >= 0:
            self._system.close(file)


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database of `connection`, as it is at one moment, to the file `target`.

    Other connections may write meanwhile. It is on disk when this returns; a file of that name is
    replaced. Raises StoreError, which names the file.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        make_database_private(unfinished)
        _copy(connection, unfinished)
        fsync(unfinished)
        unfinished.replace(target)
        fsync(target.parent)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"{target}: cannot copy the database there: {reason}") from error


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        # All pages in one step: with several, SQLite begins anew whenever another connection has
        # written. A reader does not block the writer, whose log grows meanwhile.
        connection.backup(copy)
    finally:
        copy.close()


class DatabaseFiles:
    """What a store does to the files of a database; a simulation has its own."""

    def make_private(self, path: Path) -> None:
        """Make an empty database file, or make the files of one private. Raises StoreError."""
        make_database_private(path)

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        """Return what extends the write-ahead log `log` up to `enough` bytes."""
        return WalPreallocator(log, enough)

    def copy(self, connection: sqlite3.Connection, target: Path) -> None:
        """Copy the database of a connection to `target`. Raises StoreError; see `copy_database`."""
        copy_database(connection, target)


REAL_FILES: Final = DatabaseFiles()


#: What a data directory has, one of them at least.
LOCK_FILE: Final = "lock"
OWN_FILES = (LOCK_FILE, "purgatory.db", "journal", "keys")


@contextlib.contextmanager
def data_directory_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a data directory, which is made if needed.

    Raises ServerError if another server holds it, StoreError if the directory cannot be written,
    or lets others in and is not the server's own.
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
