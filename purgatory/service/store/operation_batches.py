"""OperationBatches: the store's table of operations, a batch of them in each row.

An operation does not change once it is written, and operations that a client submitted together
are mostly deleted together. So they are stored as they came, a batch a row, which costs a tenth of
a row for each. Deleting some of a batch puts their numbers into another table; when half of a batch
is deleted, it is rewritten without them. So deleted operations never take more space than the rest.

Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from purgatory.service.store.rows import OperationBatch, Options, StoredOperation
from purgatory.service.store.tables import chunks, placeholders

#: The tables; see `purgatory.service.store.store`.
SCHEMA: Final = """
CREATE TABLE batches (
    first INTEGER PRIMARY KEY, -- number of the first operation ever in it
    last INTEGER NOT NULL, -- and of the last one
    size INTEGER NOT NULL, -- operations in it
    client TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    numbers BLOB, -- MessagePack: array of their numbers; NULL: first to last
    operations BLOB NOT NULL -- MessagePack: an array of _PackedOperation
);
CREATE TABLE forgotten (number INTEGER PRIMARY KEY); -- deleted, of batches that have others
"""

#: Operations in a row at most: to read one of them, all are decoded.
MAX_BATCH: Final = 128
_CHUNK: Final = 500


class _PackedOperation(msgspec.Struct, array_like=True, gc=False):
    """An operation in the array of its row."""

    op_id: str
    keys: list[str]
    timeout_ms: int
    need: int = 1
    kind: str = ""
    payload: Raw = Raw(b"\xc0")
    submitted_offset_ms: int = 0  # its submission minus the batch's
    options: Options | None = None


class _Row(NamedTuple):
    first: int
    last: int
    size: int
    client: str
    submitted_ms: int
    numbers: bytes | None
    operations: bytes

    def all_numbers(self) -> Sequence[int]:
        """Return the numbers of the operations in the row, ascending."""
        return (
            range(self.first, self.last + 1) if self.numbers is None else _decode_ints(self.numbers)
        )

    def operation(self, number: int, raw: Raw | bytes) -> StoredOperation:
        """Decode one operation of the row."""
        packed = _decode_operation(raw)
        submitted_ms = self.submitted_ms + packed.submitted_offset_ms
        payload = bytes(packed.payload)
        return StoredOperation(
            number,
            self.client,
            packed.op_id,
            packed.kind,
            submitted_ms,
            submitted_ms + packed.timeout_ms,
            packed.need,
            tuple(dict.fromkeys(packed.keys)),
            None if payload == b"\xc0" else payload,
            packed.options,
        )


_COLUMNS: Final = ", ".join(_Row._fields)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_list: Final = msgspec.msgpack.Decoder(list[Raw]).decode
_decode_ints: Final = msgspec.msgpack.Decoder(list[int]).decode
_decode_operation: Final = msgspec.msgpack.Decoder(_PackedOperation).decode


class OperationBatches:
    """The table of operations of an SQLite connection; see the module."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def write(self, batches: Iterable[OperationBatch]) -> None:
        """Add batches of at most `MAX_BATCH` operations."""
        sql = f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, ?)"
        for first, client, submitted_ms, operations in batches:
            count = len(operations)
            packed = bytearray(_encode(operations))  # see `Changes`
            row = (first, first + count - 1, count, client, submitted_ms, packed)
            self._connection.execute(sql, row)

    def last(self) -> int:
        """Return the last number in the table, also of a deleted operation; 0 if it is empty."""
        return self._read_one("SELECT last FROM batches ORDER BY first DESC LIMIT 1") or 0

    def oldest_submission_ms(self) -> int | None:
        """Return a time before which none was submitted; None if the table is empty."""
        return self._read_one("SELECT min(submitted_ms) FROM batches")

    def _read_one(self, sql: str) -> int | None:
        row = self._connection.execute(sql).fetchone()
        return row[0] if row else None

    def all(self, after: int) -> Iterator[StoredOperation]:
        """Yield the operations with numbers above `after`, in order."""
        run = self._connection.execute
        deleted = {
            number for (number,) in run("SELECT number FROM forgotten WHERE number > ?", (after,))
        }
        cursor = run(f"SELECT {_COLUMNS} FROM batches WHERE last > ? ORDER BY first", (after,))
        while rows := cursor.fetchmany(_CHUNK):
            for row in map(_Row._make, rows):
                for number, raw in zip(
                    row.all_numbers(), _decode_list(row.operations), strict=True
                ):
                    if number > after and number not in deleted:
                        yield row.operation(number, raw)

    def some(self, after: int, batches: int) -> list[StoredOperation]:
        """Return the operations of the next so many batches with numbers above `after`, in order.

        Also some that were deleted. None: there are no more.
        """
        sql = f"SELECT {_COLUMNS} FROM batches WHERE last > ? ORDER BY first LIMIT ?"
        found: list[StoredOperation] = []
        for row in map(_Row._make, self._connection.execute(sql, (after, batches)).fetchall()):
            for number, raw in zip(row.all_numbers(), _decode_list(row.operations), strict=True):
                if number > after:
                    found.append(row.operation(number, raw))
        return found

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """Return number -> operation, of those of `numbers` that exist."""
        found: dict[int, StoredOperation] = {}
        by_batch = self._by_batch(numbers)
        for row in self._rows(by_batch):
            raws = _decode_list(row.operations)
            index = dict(zip(row.all_numbers(), range(len(raws)), strict=True))
            for number in by_batch[row.first]:
                if number in index:
                    found[number] = row.operation(number, raws[index[number]])
        return found

    def _by_batch(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Group numbers by the first number of their batch."""
        firsts: dict[int, list[int]] = {}
        for chunk in chunks(numbers):
            sql = (
                f"WITH asked(number) AS (VALUES {', '.join(['(?)'] * len(chunk))}) SELECT number, "
                "(SELECT max(first) FROM batches WHERE first <= number) FROM asked"
            )
            for number, first in self._connection.execute(sql, chunk):
                firsts.setdefault(first, []).append(number)
        return firsts

    def _rows(self, firsts: Iterable[int]) -> Iterator[_Row]:
        for chunk in chunks(list(firsts)):
            sql = f"SELECT {_COLUMNS} FROM batches WHERE first IN {placeholders(chunk)}"
            # One at a time: a row may have many payloads.
            yield from map(_Row._make, self._connection.execute(sql, chunk))

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete operations; all of `numbers` must exist."""
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
        """Delete some operations of a batch; True if none is left in it."""
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
        """Rewrite a batch without some operations."""
        [row] = self._rows([first])
        numbers, operations = [], []
        for number, raw in zip(row.all_numbers(), _decode_list(row.operations), strict=True):
            if number not in deleted:
                numbers.append(number)
                operations.append(raw)
        self._connection.execute(
            "UPDATE batches SET size = ?, numbers = ?, operations = ? WHERE first = ?",
            (len(numbers), _encode(numbers), _encode(operations), first),
        )

    def shift_times(self, by_ms: int, except_numbers: Sequence[int]) -> None:
        """Move the submissions, and so the deadlines, of all but `except_numbers`."""
        run = self._connection.execute
        run("UPDATE batches SET submitted_ms = submitted_ms + ?", (by_ms,))
        by_batch = self._by_batch(except_numbers)
        for row in self._rows(by_batch):
            unmoved = set(by_batch[row.first])
            operations = [_decode_operation(raw) for raw in _decode_list(row.operations)]
            for number, operation in zip(row.all_numbers(), operations, strict=True):
                if number in unmoved:
                    operation.submitted_offset_ms -= by_ms
            sql = "UPDATE batches SET operations = ? WHERE first = ?"
            run(sql, (_encode([_values(one) for one in operations]), row.first))


def _values(operation: _PackedOperation) -> Any:
    """Return what is written: options only if there are any, as older programs expect."""
    return astuple(operation)[:-1] if operation.options is None else operation
