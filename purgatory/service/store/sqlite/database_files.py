"""Files of an SQLite database: their rights, copies, and the log.

The service's files are for their owner alone, whatever the umask. Any thread; `WalPreallocator` is
for the store thread.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from purgatory.durable_files import fsync
from purgatory.errors import StoreError
from purgatory.service.store.data_directory import OTHERS, PRIVATE_FILE

CopyProgress = Callable[[int, int], None]
"""Takes the copied bytes, and of how many."""

_STEP_BYTES: Final = 1 << 22  # copied between two calls
# SQLite gives the log and its index the mode of the database.
_SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def make_database_private(path: Path) -> None:
    """Make an empty database file, or make an existing one's files private. Raises StoreError.

    Call it before SQLite opens the file: closing another descriptor would drop SQLite's locks.
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
    if mode & OTHERS:
        path.chmod(PRIVATE_FILE)


# The log is extended by its own length, within these bytes.
_MIN_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 1 << 20


class WalPreallocator:
    """Extends the log at `path` up to `enough` bytes; `system` stands for `os`."""

    def __init__(self, path: Path, enough: int, system: Any = os) -> None:
        self._system = system
        self._path = path
        self._enough = enough
        self._file = -1
        self._length = 0  # of the log at its last extension
        self._closed = False

    def extend_if_full(self) -> bool:
        """Extend the log if the last commit filled it; False: cut off."""
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
        except OSError:  # the disk is full, or the file is missing
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


def copy_database(
    connection: sqlite3.Connection, target: Path, progress: CopyProgress | None = None
) -> None:
    """Copy the database of `connection`, as of one moment, to the file `target`.

    Other connections may write meanwhile, but not with `progress`. The copy is then on disk, and
    replaces a file of that name. Raises StoreError.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        make_database_private(unfinished)
        _copy(connection, unfinished, progress)
        fsync(unfinished)
        unfinished.replace(target)
        fsync(target.parent)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"{target}: cannot copy the database there: {reason}") from error


def _copy(connection: sqlite3.Connection, target: Path, progress: CopyProgress | None) -> None:
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        if progress is None:
            # All pages in one step, though the log grows: with several steps, SQLite begins anew
            # after another connection's write.

            connection.backup(copy)
        else:
            _copy_in_steps(connection, copy, progress)
    finally:
        copy.close()


def _copy_in_steps(
    connection: sqlite3.Connection, copy: sqlite3.Connection, progress: CopyProgress
) -> None:
    [(size,)] = connection.execute("PRAGMA page_size")

    def told(_: int, left: int, pages: int) -> None:
        progress((pages - left) * size, pages * size)

    connection.backup(copy, pages=max(1, _STEP_BYTES // size), progress=told)


class DatabaseFiles:
    """The store's files; a simulation has its own."""

    def make_private(self, path: Path) -> None:
        """See `make_database_private`."""
        make_database_private(path)

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        """See `WalPreallocator`."""
        return WalPreallocator(log, enough)

    def copy(self, connection: sqlite3.Connection, target: Path, progress: CopyProgress) -> None:
        """See `copy_database`."""
        copy_database(connection, target, progress)


REAL_FILES: Final = DatabaseFiles()


class FileWatch:
    """Watches the file `database` of an open database, its log, and the log's index.

    A program keeps an open file whose name is gone: later writes are lost. One thread.
    """

    def __init__(self, database: Path) -> None:
        log, index = (database.with_name(database.name + suffix) for suffix in ("-wal", "-shm"))
        self._paths = (database, log, index)
        self._growing = (database, log)  # SQLite never cuts its log
        self._known: dict[Path, tuple[int, int]] = {}
        self._sizes: dict[Path, int] = {}
        self.trouble()  # a file may be gone before the next look

    def trouble(self) -> str:
        """Return the fate of a missing or replaced file, if any."""
        for path in self._paths:
            try:
                status = path.stat()
            except OSError as error:
                if path in self._known:
                    return f"{path}: deleted while the server had it open: {error.strerror}"
                continue
            identity = status.st_dev, status.st_ino
            if self._known.setdefault(path, identity) != identity:
                return f"{path}: replaced by another file while the server had it open"
            if path in self._growing:
                if status.st_size < self._sizes.get(path, 0):
                    return f"{path}: cut off while the server had it open"
                self._sizes[path] = status.st_size
        return ""
