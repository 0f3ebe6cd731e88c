"""Time order of the rows of a trace: refuse what is out of order, or sort.

Public through `purgatory.trace`; a reader and what is made of it belong to one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import le
from typing import TYPE_CHECKING, Any

from purgatory.trace.errors import OutOfOrder
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from purgatory.trace.batches import Batch, Columns
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


def batches_in_order(rows: Reader[RowT]) -> Iterator[Columns]:
    """Pass rows through by column; refuses what `in_order` refuses."""
    place = rows.table.time_place
    before = INT64_MIN
    with rows:
        for batch in rows.batches():
            times = batch.columns[place]
            if times[0] < before or not all(map(le, times, islice(times, 1, None))):
                raise _out_of_order(rows, batch, before)
            before = times[-1]
            yield batch.columns


def _out_of_order(rows: Reader[RowT], batch: Batch, before: int) -> OutOfOrder:
    times = batch.columns[rows.table.time_place]
    ahead = next(n for n, at in enumerate(times) if at < (times[n - 1] if n else before))
    last = times[ahead - 1] if ahead else before
    return OutOfOrder(rows.where(batch.numbers[ahead]), rows.table.time_column, last, times[ahead])


def batches_by_time(rows: Reader[RowT]) -> Iterator[Columns]:
    """Read all rows into memory, by column, and sort them by time, as `by_time` does."""
    columns: list[list[Any]] = [[] for _ in rows.table.columns]
    with rows:
        for batch in rows.batches():
            for column, more in zip(columns, batch.columns, strict=True):
                column.extend(more)
    times = columns[rows.table.time_place]
    order = sorted(range(len(times)), key=times.__getitem__)
    if order:
        yield tuple([column[n] for n in order] for column in columns)


def by_time(rows: Reader[RowT]) -> list[RowT]:
    """Read all rows into memory and sort them by time; rows of one instant keep their order."""
    return sorted(rows, key=rows.table.time_of)
