"""Time order of the rows of a trace: refuse what is out of order, or sort.

Public through `purgatory.trace`; a reader and what is made of it belong to one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from purgatory.trace.errors import OutOfOrder

if TYPE_CHECKING:
    from purgatory.trace.reader import Reader
    from purgatory.trace.tables import RowT


def in_order(rows: Reader[RowT]) -> Iterator[RowT]:
    """Pass rows through; raise `OutOfOrder`, naming the row, where time goes backwards.

    The time is that of the table's `time_column`. Equal times are in order. `rows` is closed when
    this ends, in whatever way.
    """
    time_of = rows.table.time_of
    before: int | None = None
    with rows:
        for row in rows:
            at = time_of(row)
            if before is not None and at < before:
                raise OutOfOrder(rows.where(), rows.table.time_column, before, at)
            before = at
            yield row


def by_time(rows: Reader[RowT]) -> list[RowT]:
    """Read all rows into memory and sort them by time; rows of one instant keep their order."""
    return sorted(rows, key=rows.table.time_of)
