"""Rewrites: rows of packed tables without the deleted records. The store's thread."""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from purgatory.service.store.postgres.packed_tables import PackedTable
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.session import Statement

# Rows that a commit rewrites at most: it keeps clients waiting.
_AT_ONCE: Final = 64

#: Returns the columns of a row without the records of some numbers.
Rewrite = Callable[[tuple[Any, ...], set[int]], dict[str, bytes]]


def rewriting(
    database: Database, table: PackedTable, columns: str, rewrite: Rewrite
) -> list[Statement]:
    """Read `columns` of some sparse rows of a table, and make statements that rewrite the rows."""
    firsts = list(islice(table.sparse, _AT_ONCE))
    if not firsts:
        return []
    table.sparse.difference_update(firsts)
    made: list[Statement] = []
    for row in database.rows(table.rows_of(firsts, columns)):
        deleted = {number for (number,) in database.rows(table.deleted(row[0], row[1]))}
        if deleted:
            made.append(table.rewrite(row[0], len(deleted), rewrite(row, deleted)))
            made.append(table.forget(sorted(deleted)))
    return made
