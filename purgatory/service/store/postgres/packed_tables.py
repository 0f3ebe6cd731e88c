"""PackedTable: a table with many records in each row, some of them deleted.

A row has the records `first` to `last`. Deleting all of a row deletes it. Deleting some puts their
numbers into another table, `forgotten`, and counts down `remaining`. A row of which half or less
remains is sparse: a later commit rewrites it. Makes statements only. Thread with the store.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import (
    Kind,
    array_parameters,
    wire_array,
    wire_int,
    wire_ints,
)

_ROW_OF: Final = (
    "SELECT n AS number, (SELECT first FROM {table} WHERE first <= n ORDER BY first DESC LIMIT 1) "
    "AS first FROM unnest($1::int8[]) AS n"
)
_DELETE: Final = (
    "WITH asked AS MATERIALIZED (" + _ROW_OF + "), "
    "counts AS (SELECT first, count(*) AS n FROM asked GROUP BY first), "
    "whole AS (DELETE FROM {table} t USING counts c "
    "WHERE t.first = c.first AND t.remaining <= c.n RETURNING t.first, t.last, t.size - c.n AS f), "
    "cleaned AS (DELETE FROM {forgotten} g USING whole w "
    "WHERE w.f > 0 AND g.{number} BETWEEN w.first AND w.last), "
    "part AS (UPDATE {table} t SET remaining = t.remaining - c.n FROM counts c "
    "WHERE t.first = c.first AND t.remaining > c.n "
    "RETURNING t.first, 2 * t.remaining <= t.size AS sparse), "
    "noted AS (INSERT INTO {forgotten} SELECT a.number FROM asked a JOIN part USING (first)) "
    "SELECT first FROM part WHERE sparse"
)

LAST: Final = 1  # place of the column `last`


class PackedTable:
    """The table `name`; `columns`: of a row."""

    def __init__(
        self, namespace: Namespace, name: str, forgotten: str, number: str, columns: dict[str, Kind]
    ) -> None:
        self.name: str = namespace.table(name)
        self.forgotten: str = namespace.table(forgotten)
        self._number = number
        self.columns: str = ", ".join(columns)
        self._kinds = list(columns.values())
        fields = {"table": self.name, "forgotten": self.forgotten, "number": number}
        self._delete = _DELETE.format(**fields)
        self._rows_of = (
            f" FROM {self.name} WHERE first IN "
            f"(SELECT first FROM ({_ROW_OF.format(**fields)}) AS asked) ORDER BY first"
        )
        #: First numbers of sparse rows, and of those that the open commit rewrites.
        self.sparse: set[int] = set()
        self.rewritten: list[int] = []

    def insert(self, columns: Sequence[Sequence[object]]) -> Statement:
        """Add rows, a list for each column but `remaining`."""
        sql = (
            f"INSERT INTO {self.name} ({self.columns}, remaining) "
            f"SELECT *, size FROM unnest({array_parameters(self._kinds)}) AS rows({self.columns})"
        )
        return statement(sql, *map(wire_array, self._kinds, columns))

    def delete(self, numbers: Sequence[int]) -> Statement:
        """Delete existing records; the result: the rows that are now sparse."""
        return statement(self._delete, wire_ints(numbers))

    def rows_of(self, numbers: Sequence[int], columns: str = "") -> Statement:
        """Read the rows with some records, deleted ones too."""
        return statement(f"SELECT {columns or self.columns}{self._rows_of}", wire_ints(numbers))

    def deleted_of(self, numbers: Sequence[int]) -> Statement:
        """Read which of some numbers are deleted."""
        sql = f"SELECT {self._number} FROM {self.forgotten} WHERE {self._number} = ANY($1::int8[])"
        return statement(sql, wire_ints(numbers))

    def rows_after(self, after: int, limit: int, columns: str = "") -> Statement:
        """Read the next rows with records above `after`, in order."""
        sql = (
            f"SELECT {columns or self.columns} FROM {self.name} "
            "WHERE last > $1::int8 AND first >= coalesce((SELECT first FROM "
            f"{self.name} WHERE first <= $1::int8 ORDER BY first DESC LIMIT 1), 0) "
            f"ORDER BY first LIMIT {limit}"
        )
        return statement(sql, wire_int(after))

    def rows_before(self, number: int, limit: int) -> Statement:
        """Read the rows with records below `number`, the last first."""
        sql = (
            f"SELECT {self.columns} FROM {self.name} "
            f"WHERE first < $1::int8 ORDER BY first DESC LIMIT {limit}"
        )
        return statement(sql, wire_int(number))

    def deleted(self, first: int, last: int) -> Statement:
        """Read the deleted numbers of some rows."""
        sql = (
            f"SELECT {self._number} FROM {self.forgotten} "
            f"WHERE {self._number} BETWEEN $1::int8 AND $2::int8"
        )
        return statement(sql, wire_int(first), wire_int(last))

    def rewrite(self, first: int, deleted: int, columns: dict[str, bytes]) -> Statement:
        """Write a row's columns without its deleted records."""
        sets = ", ".join(f"{name} = ${at}" for at, name in enumerate(columns, 3))
        sql = f"UPDATE {self.name} SET size = size - $2::int8, {sets} WHERE first = $1::int8"
        return statement(sql, wire_int(first), wire_int(deleted), *columns.values())

    def forget(self, numbers: Sequence[int]) -> Statement:
        """Drop the notes on rewritten rows' deleted records."""
        sql = f"DELETE FROM {self.forgotten} WHERE {self._number} = ANY($1::int8[])"
        return statement(sql, wire_ints(numbers))

    def find_sparse(self) -> Statement:
        """Read the first numbers of sparse rows."""
        return statement(f"SELECT first FROM {self.name} WHERE 2 * remaining <= size")


_AT_ONCE: Final = 64  # rows that a commit rewrites, at most

#: Returns a row's columns without some records.
Rewrite = Callable[[tuple[Any, ...], set[int]], dict[str, bytes]]


def rewriting(
    database: Database, table: PackedTable, columns: str, rewrite: Rewrite
) -> list[Statement]:
    """Read `columns` of some sparse rows; return statements that rewrite them.

    They stay in `sparse` until committed.
    """
    firsts = table.rewritten = list(islice(table.sparse, _AT_ONCE))
    if not firsts:
        return []
    made: list[Statement] = []
    for row in database.rows(table.rows_of(firsts, columns)):
        deleted = {number for (number,) in database.rows(table.deleted(row[0], row[1]))}
        if deleted:
            made.append(table.rewrite(row[0], len(deleted), rewrite(row, deleted)))
            made.append(table.forget(sorted(deleted)))
    return made
