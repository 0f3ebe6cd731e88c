"""SimulatedDatabase: as much of a `sqlite3.Connection` as the store uses, made of apsw's.

The database is locked by its one process, so the index of its log is in memory.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import apsw

_SET_AUTOCHECKPOINT: Final = "PRAGMA wal_autocheckpoint="


class SimulatedDatabase:
    """As much of a `sqlite3.Connection` as the store uses."""

    def __init__(self, path: str, vfs: str) -> None:
        try:
            self._connection = apsw.Connection(path, vfs=vfs, statementcachesize=64)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error
        self.execute("PRAGMA locking_mode=EXCLUSIVE")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> "SimulatedCursor":
        """Run a statement. Raises what sqlite3 raises."""
        try:
            cursor = self._connection.execute(sql, values)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error
        if sql.startswith(_SET_AUTOCHECKPOINT):
            self._checkpoint_from(int(sql.removeprefix(_SET_AUTOCHECKPOINT)))
        return SimulatedCursor(cursor)

    def _checkpoint_from(self, enough: int) -> None:
        """Have commits that leave so many pages in the log followed by a checkpoint.

        As SQLite does it by itself, where a checkpoint that fails is no error of the commit. apsw
        would raise it out of COMMIT, for a transaction that is in the log.
        """

        def after_commit(connection: apsw.Connection, name: str, pages: int) -> int:
            if pages >= enough:
                with contextlib.suppress(apsw.Error):
                    connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
            return apsw.SQLITE_OK

        self._connection.set_wal_hook(after_commit)

    def executemany(self, sql: str, rows: Sequence[Any]) -> None:
        """Run a statement for each row. Raises what sqlite3 raises."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise _as_sqlite3(error) from error

    def content(self) -> bytes:
        """Return what a file with the same database has."""
        return self._connection.serialize("main")

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def getlimit(self, category: int) -> int:
        """Return a limit of SQLite's."""
        return self._connection.limit(category, -1)

    def close(self) -> None:
        """Close the database. As sqlite3 does, say nothing if the last checkpoint fails."""
        with contextlib.suppress(apsw.Error):
            self._connection.close()


class SimulatedCursor:
    """As much of a `sqlite3.Cursor` as the store uses."""

    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows."""
        return iter(self._cursor)

    def fetchone(self) -> Any:
        """Return the next row; None if there is none."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        return self._cursor.fetchall()

    def fetchmany(self, size: int) -> list[Any]:
        """Return the next rows."""
        return list(islice(self._cursor, size))


def _as_sqlite3(error: apsw.Error) -> sqlite3.Error:
    """Return the error that sqlite3 would raise."""
    code = getattr(error, "extendedresult", -1)
    cls = (
        sqlite3.DatabaseError if isinstance(error, apsw.CorruptError) else sqlite3.OperationalError
    )
    raised = cls(str(error))
    raised.sqlite_errorcode = code
    return raised
