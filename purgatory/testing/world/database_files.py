"""SimulatedDatabaseFiles: the database of a process on a simulated disk.

Only this process opens the database, so the index of its log is in memory.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import apsw

from purgatory.errors import StoreError
from purgatory.service.store.sqlite.database_files import (
    CopyProgress,
    DatabaseFiles,
    WalPreallocator,
)
from purgatory.testing.world.disk import Disk, DiskError, Handles, OpenFile
from purgatory.testing.world.vfs import SimulatedVfs
from purgatory.testing.world.world import World

_PAGE_BYTES: Final = 4096
_SET_AUTOCHECKPOINT: Final = "PRAGMA wal_autocheckpoint="


class SimulatedDatabaseFiles(DatabaseFiles):
    """The `DatabaseFiles`, and `connect`, of a process."""

    def __init__(self, world: World, disk: Disk, handles: Handles) -> None:
        self._disk = disk
        self._handles = handles
        self._vfs = SimulatedVfs(world, disk, handles)
        self._databases: list[SimulatedDatabase] = []
        self._closed = False

    def connect(self, path: str, **options: Any) -> Any:
        """Open a database, like `sqlite3.connect`."""
        del options
        database = SimulatedDatabase(path, self._vfs.name)
        self._databases.append(database)
        return database

    def make_private(self, path: Path) -> None:
        name = str(path)
        if not self._disk.exists(name):
            self._disk.open(name, self._handles, create=True)

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        return WalPreallocator(log, enough, LogFile(self._disk, self._handles))

    def copy(self, connection: Any, target: Path, progress: CopyProgress) -> None:
        del progress
        unfinished = str(target.with_name(f".{target.name}.unfinished"))
        self._disk.delete(unfinished, self._handles)
        file = self._disk.open(unfinished, self._handles, create=True)
        content: bytes = connection.content()
        try:
            for offset in range(0, len(content), _PAGE_BYTES):
                file.write(content[offset : offset + _PAGE_BYTES], offset)
            file.sync()
            self._disk.rename(unfinished, str(target), self._handles)
            self._disk.sync_names(self._handles)
        except DiskError as error:
            raise StoreError(f"{target}: cannot copy the database there: {error}") from error

    def close(self) -> None:
        """Release SQLite's resources; not within a step of SQLite."""
        databases, self._databases = self._databases, []
        for database in databases:
            database.close()
        if not self._closed:
            self._closed = True
            self._vfs.unregister()


class SimulatedDatabase:
    """The parts of `sqlite3.Connection` that the store uses."""

    def __init__(self, path: str, vfs: str) -> None:
        try:
            self._connection = apsw.Connection(path, vfs=vfs, statementcachesize=64)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error
        self.execute("PRAGMA locking_mode=EXCLUSIVE")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> "SimulatedCursor":
        """Run a statement. Raises the errors of sqlite3."""
        try:
            cursor = self._connection.execute(sql, values)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error
        if sql.startswith(_SET_AUTOCHECKPOINT):
            self._checkpoint_from(int(sql.removeprefix(_SET_AUTOCHECKPOINT)))
        return SimulatedCursor(cursor)

    def _checkpoint_from(self, enough: int) -> None:
        """Follow commits that leave so many pages in the log by a checkpoint.

        SQLite ignores a failed checkpoint; apsw would raise it out of COMMIT.
        """

        def after_commit(connection: apsw.Connection, name: str, pages: int) -> int:
            if pages >= enough:
                with contextlib.suppress(apsw.Error):
                    connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
            return apsw.SQLITE_OK

        self._connection.set_wal_hook(after_commit)

    def executemany(self, sql: str, rows: Sequence[Any]) -> None:
        """Run a statement for each row. Raises the errors of sqlite3."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error

    def content(self) -> bytes:
        """Return the content of the database's file."""
        return self._connection.serialize("main")

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def getlimit(self, category: int) -> int:
        """Return a limit of SQLite's."""
        return self._connection.limit(category, -1)

    def close(self) -> None:
        """Close the database. Like sqlite3, ignore a failed last checkpoint."""
        with contextlib.suppress(apsw.Error):
            self._connection.close()


class SimulatedCursor:
    """The parts of `sqlite3.Cursor` that the store uses."""

    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def fetchone(self) -> Any:
        """Return the next row, if any."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        return self._cursor.fetchall()

    def fetchmany(self, size: int) -> list[Any]:
        """Return the next rows."""
        return list(islice(self._cursor, size))


def _as_sqlite3(error: apsw.Error) -> sqlite3.Error:
    code = getattr(error, "extendedresult", -1)
    cls = (
        sqlite3.DatabaseError if isinstance(error, apsw.CorruptError) else sqlite3.OperationalError
    )
    raised = cls(str(error))
    raised.sqlite_errorcode = code
    return raised


class LogFile:
    """The parts of `os` that `WalPreallocator` uses; one file is open at a time."""

    def __init__(self, disk: Disk, handles: Handles) -> None:
        self._disk = disk
        self._handles = handles
        self._file: OpenFile | None = None

    def open(self, path: Path, flags: int) -> int:
        """Open the file."""
        del flags
        self._file = self._disk.open(str(path), self._handles, create=False)
        return 3

    def lseek(self, file: int, offset: int, whence: int) -> int:
        """Return its size; no position is kept."""
        del file, offset, whence
        assert self._file is not None
        return self._file.size()

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        """Write. Raises OSError."""
        del file
        assert self._file is not None
        try:
            self._file.write(data, offset)
        except DiskError as error:
            raise OSError(str(error)) from error
        return len(data)

    def close(self, file: int) -> None:
        """Close the file."""
        del file
        self._file = None
