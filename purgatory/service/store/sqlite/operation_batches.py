"""OperationBatches: the table of operations, a batch in each row.

Deleting some of a batch puts their numbers into another table; when half of a batch is deleted, it
is rewritten. So deleted operations never take more space than the rest. See `sqlite.tables` for
threads, transactions and errors.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from purgatory.service.store.packed_operations import COLUMNS, PackedBatch
from purgatory.service.store.rows import OperationBatch, StoredOperation
from purgatory.service.store.sqlite.tables import chunks, placeholders
from purgatory.service.store.table_store import OperationTable

_CHUNK: Final = 500


class OperationBatches(OperationTable):
    """The table of operations of an SQLite connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def write(self, batches: Iterable[OperationBatch]) -> None:
        """Add batches of at most `MAX_BATCH` operations."""
        sql = f"INSERT INTO batches ({COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, ?)"
        for batch in batches:
            first, last, size, client, submitted_ms, _, operations = PackedBatch.of(batch)
            row = (first, last, size, client, submitted_ms, operations)
            self._connection.execute(sql, row)

    def last(self) -> int:
        """Return the last number, also if deleted; 0: empty."""
        return self._read_one("SELECT last FROM batches ORDER BY first DESC LIMIT 1") or 0

    def oldest_submission_ms(self) -> int | None:
        return self._read_one("SELECT min(submitted_ms) FROM batches")

    def _read_one(self, sql: str) -> int | None:
        row = self._connection.execute(sql).fetchone()
        return row[0] if row else None

    def all(self, after: int) -> Iterator[StoredOperation]:
        run = self._connection.execute
        deleted = {
            number for (number,) in run("SELECT number FROM forgotten WHERE number > ?", (after,))
        }
        cursor = run(f"SELECT {COLUMNS} FROM batches WHERE last > ? ORDER BY first", (after,))
        while rows := cursor.fetchmany(_CHUNK):
            for row in map(PackedBatch._make, rows):
                yield from row.all(after, deleted)

    def some(self, beyond: int, batches: int, *, newest: bool) -> list[StoredOperation]:
        rest = "first < ? ORDER BY first DESC" if newest else "last > ? ORDER BY first"
        sql = f"SELECT {COLUMNS} FROM batches WHERE {rest} LIMIT ?"
        rows = map(PackedBatch._make, self._connection.execute(sql, (beyond, batches)).fetchall())
        return [one for row in rows for one in row.beyond(beyond, newest=newest)]

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        by_batch = self._by_batch(numbers)
        return {
            operation.number: operation
            for row in self._rows(by_batch)
            for operation in row.some(by_batch[row.first])
        }

    def _by_batch(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        firsts: dict[int, list[int]] = {}
        for chunk in chunks(numbers):
            sql = (
                f"WITH asked(number) AS (VALUES {', '.join(['(?)'] * len(chunk))}) SELECT number, "
                "(SELECT max(first) FROM batches WHERE first <= number) FROM asked"
            )
            for number, first in self._connection.execute(sql, chunk):
                firsts.setdefault(first, []).append(number)
        return firsts

    def _rows(self, firsts: Iterable[int]) -> Iterator[PackedBatch]:
        for chunk in chunks(list(firsts)):
            sql = f"SELECT {COLUMNS} FROM batches WHERE first IN {placeholders(chunk)}"
            # One at a time: rows may be large.
            yield from map(PackedBatch._make, self._connection.execute(sql, chunk))

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete operations; all must exist."""
        by_batch = self._by_batch(numbers)
        run = self._connection.execute
        empty: list[int] = []
        for chunk in chunks(list(by_batch)):
            sql = f"SELECT first, last, size FROM batches WHERE first IN {placeholders(chunk)}"
            for first, last, size in run(sql, chunk).fetchall():
                some = by_batch[first]
                if len(some) == size or self._delete_some(first, last, size, some):
                    empty.append(first)
        for chunk in chunks(empty):
            run(f"DELETE FROM batches WHERE first IN {placeholders(chunk)}", chunk)

    def _delete_some(self, first: int, last: int, size: int, numbers: list[int]) -> bool:
        """Delete some operations; True: none is left."""
        run = self._connection.execute
        run(f"INSERT INTO forgotten VALUES {', '.join(['(?)'] * len(numbers))}", numbers)
        where = "FROM forgotten WHERE number BETWEEN ? AND ?"
        deleted = {number for (number,) in run(f"SELECT number {where}", (first, last))}
        if 2 * len(deleted) < size:
            return False
        run(f"DELETE {where}", (first, last))
        if len(deleted) < size:
            self._rewrite_without(first, deleted)
        return len(deleted) == size

    def _rewrite_without(self, first: int, deleted: set[int]) -> None:
        [row] = self._rows([first])
        left = row.without(deleted)
        self._connection.execute(
            "UPDATE batches SET size = ?, numbers = ?, operations = ? WHERE first = ?",
            (left.size, left.numbers, left.operations, first),
        )

    def shift_times(self, by_ms: int, except_numbers: Sequence[int]) -> None:
        """Move the submissions, and so the deadlines, but those of `except_numbers`."""
        run = self._connection.execute
        run("UPDATE batches SET submitted_ms = submitted_ms + ?", (by_ms,))
        by_batch = self._by_batch(except_numbers)
        for row in self._rows(by_batch):
            sql = "UPDATE batches SET operations = ? WHERE first = ?"
            run(sql, (row.moved(by_ms, set(by_batch[row.first])), row.first))
