"""RememberedTable: the store's rows of ended, remembered operations and jobs.

A start reads the stored shards of `RememberedIds`, and the rows written later.

See `sqlite.tables` for threads and transactions. Reads raise StoreError; errors of other methods
are SQLite's.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from purgatory.service.store.changes import RememberedChanges
from purgatory.service.store.contract import COUNT, LAST_PLACE, SHIFT, RememberedRows
from purgatory.service.store.rows import RememberedRow
from purgatory.service.store.sqlite.sqlite_errors import store_errors
from purgatory.service.store.sqlite.tables import RowInserter, chunks, placeholders

_SET_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_CHUNK: Final = 1000
#: With more rows, a start does not check these tables: it would read gigabytes.
MAX_CHECKED: Final = 100_000


class RememberedTable(RememberedRows):
    """The tables in the file `where`. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int, where: str) -> None:
        self._connection = connection
        self._where = where
        self._insert = RowInserter("remembered", RememberedRow._fields, limit)
        self._shift_ms = number_of(connection, SHIFT)

    def write(self, changes: RememberedChanges) -> None:
        """Write rows and shards, and delete rows."""
        run = self._connection.execute
        values: list[Any] = []
        for place, until_ms, hashed, seq, status in changes.rows:
            values += (place, until_ms - self._shift_ms, hashed, seq, bytearray(status))
        if values:
            self._insert.run(run, values)
        for places in chunks([place for _, place in changes.deleted]):
            run(f"DELETE FROM remembered WHERE place IN {placeholders(places)}", places)
        if changes.shards:
            sql = "INSERT OR REPLACE INTO remembered_shards VALUES (?, ?, ?)"
            self._connection.executemany(sql, changes.shards)
        if changes.rows or changes.deleted:
            run(_SET_META, (COUNT, changes.count))
            run(_SET_META, (LAST_PLACE, changes.last_place))

    def read(self, places: Sequence[int]) -> list[RememberedRow]:
        """See `RememberedRows`."""
        found: list[RememberedRow] = []
        with store_errors(self._where):
            for chunk in chunks(places):
                sql = f"SELECT * FROM remembered WHERE place IN {placeholders(chunk)}"
                found += map(RememberedRow._make, self._connection.execute(sql, chunk))
        found.sort(reverse=True)
        return [row._replace(until_ms=row.until_ms + self._shift_ms) for row in found]

    def due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """See `RememberedRows`."""
        sql = "SELECT hash, place FROM remembered WHERE until_ms <= ? LIMIT ?"
        with store_errors(self._where):
            return self._connection.execute(sql, (now_ms - self._shift_ms, limit)).fetchall()

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all rows, unwritten: they may be millions."""
        if number_of(self._connection, COUNT):
            self._shift_ms += by_ms
            self._connection.execute(_SET_META, (SHIFT, self._shift_ms))

    def counts(self) -> tuple[int, int]:
        """See `RememberedRows`."""
        with store_errors(self._where):
            return number_of(self._connection, COUNT), number_of(self._connection, LAST_PLACE)

    def shards(self) -> Iterator[tuple[int, int, bytes]]:
        """See `RememberedRows`."""
        with store_errors(self._where):
            yield from self._connection.execute("SELECT * FROM remembered_shards")

    def entries(self, after: int) -> Iterator[tuple[int, int]]:
        """See `RememberedRows`."""
        sql = "SELECT hash, place FROM remembered WHERE place > ? ORDER BY place"
        with store_errors(self._where):
            cursor = self._connection.execute(sql, (after,))
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows


def number_of(connection: sqlite3.Connection, key: str) -> int:
    """Return a number of the metadata; 0 if missing."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else 0


def quick_checks(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that look for damage; without these tables, if large."""
    if number_of(connection, COUNT) <= MAX_CHECKED:
        return ["PRAGMA quick_check(1)"]
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    tables = {name for (name,) in connection.execute(sql)} | {"sqlite_schema"}
    checked = sorted(tables - {"remembered", "remembered_shards"})
    return [f"PRAGMA quick_check('{name}')" for name in checked]
