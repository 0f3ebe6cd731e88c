"""OperationBatches: the store's table of operations, many to a row.

An operation is never changed once it is written, and those of a client that came together go away
together, most of them. So they are kept as they came, a batch a row: that costs a tenth of a row
for each. Who forgets some of a batch leaves their numbers in another table; when half of it is
forgotten the batch is written anew without them, so nothing that is long gone takes more room than
what is still there.

Between the store and its connection; used by its thread alone. Nothing here begins or ends a
transaction, and errors are SQLite's.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

#: The tables; see `purgatory.service.store.store`.
SCHEMA: Final = """
CREATE TABLE batches (
    first INTEGER PRIMARY KEY, -- number of the first operation ever in it
    last INTEGER NOT NULL, -- and of the last one
    size INTEGER NOT NULL, -- how many are in it
    client TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    numbers BLOB, -- MessagePack: an array of theirs, when some in between are no more
    operations BLOB NOT NULL -- MessagePack: an array, see _PackedOperation
);
CREATE TABLE forgotten (number INTEGER PRIMARY KEY); -- in batches that have others
"""

#: Operations of a row at most: who needs one of them passes over the others.
MAX_BATCH: Final = 128
_CHUNK: Final = 500


class OperationBatch(NamedTuple):
    """Operations to be written, numbered from ``first`` on, that one client submitted at once.

    ``operations``: what MessagePack writes as [op_id, keys, timeout_ms, need, kind, payload], each.
    """

    first: int
    client: str
    submitted_ms: int
    operations: list[Any]


class StoredOperation(NamedTuple):
    """An operation as it was written; times are Unix milliseconds, ``payload`` MessagePack."""

    number: int
    client: str
    op_id: str
    kind: str
    submitted_ms: int
    deadline_ms: int
    need: int
    keys: tuple[str, ...]
    payload: bytes | None


class _PackedOperation(msgspec.Struct, array_like=True, gc=False):
    """An operation in its row."""

    op_id: str
    keys: list[str]
    timeout_ms: int
    need: int = 1
    kind: str = ""
    payload: Raw = Raw(b"\xc0")
    submitted_offset_ms: int = 0  # its submission, from the batch's


class _Row(NamedTuple):
    first: int
    last: int
    size: int
    client: str
    submitted_ms: int
    numbers: bytes | None
    operations: bytes

    def all_numbers(self) -> Sequence[int]:
        """Those of what is in it, in order."""
        return range(self.first, self.last + 1) if self.numbers is None else _ints(self.numbers)

    def operation(self, number: int, raw: Raw | bytes) -> StoredOperation:
        """One of it."""
        kept = _one(raw)
        submitted_ms = self.submitted_ms + kept.submitted_offset_ms
        payload = bytes(kept.payload)
        return StoredOperation(
            number,
            self.client,
            kept.op_id,
            kept.kind,
            submitted_ms,
            submitted_ms + kept.timeout_ms,
            kept.need,
            tuple(dict.fromkeys(kept.keys)),
            None if payload == b"\xc0" else payload,
        )


_encode: Final = msgspec.msgpack.Encoder().encode
_list: Final = msgspec.msgpack.Decoder(list[Raw]).decode
_ints: Final = msgspec.msgpack.Decoder(list[int]).decode
_one: Final = msgspec.msgpack.Decoder(_PackedOperation).decode


class OperationBatches:
    """The table of a ``connection``. See the module."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def write(self, batches: Iterable[OperationBatch]) -> None:
        """Add batches of at most `MAX_BATCH`."""
        sql = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, NULL, ?)"
        for first, client, submitted_ms, operations in batches:
            count = len(operations)
            row = (first, first + count - 1, count, client, submitted_ms, _encode(operations))
            self._connection.execute(sql, row)

    def last(self) -> int:
        """The last number that is in the table; 0 if none is."""
        return self._one("SELECT last FROM batches ORDER BY first DESC LIMIT 1") or 0

    def oldest_submission_ms(self) -> int | None:
        """A moment before which none was submitted; None if there are none."""
        return self._one("SELECT min(submitted_ms) FROM batches")

    def _one(self, sql: str) -> int | None:
        row = self._connection.execute(sql).fetchone()
        return row[0] if row else None

    def all(self, after: int) -> Iterator[StoredOperation]:
        """Those with higher numbers, in order."""
        run = self._connection.execute
        gone = {
            number for (number,) in run("SELECT number FROM forgotten WHERE number > ?", (after,))
        }
        cursor = run("SELECT * FROM batches WHERE last > ? ORDER BY first", (after,))
        while rows := cursor.fetchmany(_CHUNK):
            for row in map(_Row._make, rows):
                for number, raw in zip(row.all_numbers(), _list(row.operations), strict=True):
                    if number > after and number not in gone:
                        yield row.operation(number, raw)

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """Those with these numbers that are there."""
        found: dict[int, StoredOperation] = {}
        holding = self._holding(numbers)
        for row in self._rows(holding):
            raws = _list(row.operations)
            place = {number: at for at, number in enumerate(row.all_numbers())}
            for number in holding[row.first]:
                if number in place:
                    found[number] = row.operation(number, raws[place[number]])
        return found

    def _holding(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """First number of a batch -> those of ``numbers`` that are in it."""
        firsts: dict[int, list[int]] = {}
        for chunk in _chunks(numbers):
            sql = (
                f"WITH asked(number) AS (VALUES {', '.join(['(?)'] * len(chunk))}) SELECT number, "
                "(SELECT max(first) FROM batches WHERE first <= number) FROM asked"
            )
            for number, first in self._connection.execute(sql, chunk):
                firsts.setdefault(first, []).append(number)
        return firsts

    def _rows(self, firsts: Iterable[int]) -> Iterator[_Row]:
        for chunk in _chunks(list(firsts)):
            sql = f"SELECT * FROM batches WHERE first IN {_placeholders(chunk)}"
            yield from map(_Row._make, self._connection.execute(sql, chunk).fetchall())

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete operations; their numbers are in the table."""
        holding = self._holding(numbers)
        run = self._connection.execute
        empty: list[int] = []
        for chunk in _chunks(list(holding)):
            sql = f"SELECT first, last, size FROM batches WHERE first IN {_placeholders(chunk)}"
            for first, last, size in run(sql, chunk).fetchall():
                mine = holding[first]
                if len(mine) == size or self._delete_some(first, last, size, mine):
                    empty.append(first)
        for chunk in _chunks(empty):
            run(f"DELETE FROM batches WHERE first IN {_placeholders(chunk)}", chunk)

    def _delete_some(self, first: int, last: int, size: int, numbers: list[int]) -> bool:
        """Forget some of a batch; whether nothing is left of it then."""
        run = self._connection.execute
        run(f"INSERT INTO forgotten VALUES {', '.join(['(?)'] * len(numbers))}", numbers)
        where = "FROM forgotten WHERE number BETWEEN ? AND ?"
        gone = {number for (number,) in run(f"SELECT number {where}", (first, last))}
        if 2 * len(gone) < size:
            return False
        run(f"DELETE {where}", (first, last))
        if len(gone) < size:
            self._shrink(first, gone)
        return len(gone) == size

    def _shrink(self, first: int, gone: set[int]) -> None:
        """Write a batch anew, without some of it."""
        [row] = self._rows([first])
        numbers, left = [], []
        for number, raw in zip(row.all_numbers(), _list(row.operations), strict=True):
            if number not in gone:
                numbers.append(number)
                left.append(raw)
        self._connection.execute(
            "UPDATE batches SET size = ?, numbers = ?, operations = ? WHERE first = ?",
            (len(left), _encode(numbers), _encode(left), first),
        )

    def shift_times(self, by_ms: int, but: Sequence[int]) -> None:
        """Move the submissions, and so the deadlines, of all ``but`` these numbers."""
        run = self._connection.execute
        run("UPDATE batches SET submitted_ms = submitted_ms + ?", (by_ms,))
        holding = self._holding(but)
        for row in self._rows(holding):
            staying = set(holding[row.first])
            operations = [_one(raw) for raw in _list(row.operations)]
            for number, operation in zip(row.all_numbers(), operations, strict=True):
                if number in staying:
                    operation.submitted_offset_ms -= by_ms
            sql = "UPDATE batches SET operations = ? WHERE first = ?"
            run(sql, (_encode(operations), row.first))


def _chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _CHUNK):
        yield numbers[start : start + _CHUNK]


def _placeholders(values: Sequence[int]) -> str:
    return f"({', '.join('?' * len(values))})"
