"""PostgresOperations: the table of operations, a batch in each row.

Thread with the store. Reads raise StoreError.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from purgatory.service.store.packed_operations import PackedBatch
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.packed_tables import LAST, PackedTable, rewriting
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import Kind
from purgatory.service.store.rows import OperationBatch, StoredOperation
from purgatory.service.store.table_store import OperationTable

_COLUMNS: Final[dict[str, Kind]] = {
    "first": "int8",
    "last": "int8",
    "size": "int8",
    "client": "text",
    "submitted_ms": "int8",
    "numbers": "bytea",
    "operations": "bytea",
}


class PostgresOperations(OperationTable):
    """The tables of a namespace."""

    def __init__(self, database: Database, namespace: Namespace) -> None:
        self._database = database
        self.table: PackedTable = PackedTable(namespace, "batches", "forgotten", "number", _COLUMNS)

    def write(self, batches: Sequence[OperationBatch]) -> Statement:
        """Add batches of at most `MAX_BATCH` operations."""
        columns = list(zip(*map(PackedBatch.of, batches), strict=True))
        return self.table.insert(columns)

    def oldest_submission_ms(self) -> int | None:
        sql = f"SELECT min(submitted_ms) FROM {self.table.name}"
        found: int | None = self._database.rows(statement(sql))[0][0]
        return found

    def all(self, after: int) -> Iterator[StoredOperation]:
        for rows in self._database.pages(after, self.table.rows_after, key=LAST):
            [deleted] = self._database.read(self.table.deleted(rows[0][0], rows[-1][1]))
            gone = {number for (number,) in deleted}
            for row in map(_batch, rows):
                yield from row.all(after, gone)

    def some(self, beyond: int, batches: int, *, newest: bool) -> list[StoredOperation]:
        read = self.table.rows_before if newest else self.table.rows_after
        rows = map(_batch, self._database.rows(read(beyond, batches)))
        return [one for row in rows for one in row.beyond(beyond, newest=newest)]

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        if not numbers:
            return {}
        rows = self._database.rows(self.table.rows_of(numbers))
        asked = sorted(numbers)
        found: dict[int, StoredOperation] = {}
        for row in map(_batch, rows):
            inside = asked[bisect_left(asked, row.first) : bisect_right(asked, row.last)]
            found.update((one.number, one) for one in row.some(inside))
        return found

    def rewriting(self) -> list[Statement]:
        """Rewrite some sparse rows; see `PackedTable`."""
        return rewriting(self._database, self.table, self.table.columns, _rewritten)


def _rewritten(values: tuple[Any, ...], deleted: set[int]) -> dict[str, bytes]:
    left = _batch(values).without(deleted)
    assert left.numbers is not None
    return {"numbers": left.numbers, "operations": bytes(left.operations)}


def _batch(values: tuple[Any, ...]) -> PackedBatch:
    return PackedBatch._make((*values[:3], values[3].decode(), *values[4:]))
