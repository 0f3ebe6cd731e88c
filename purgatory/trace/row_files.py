"""What a format implements to read and to write the rows of one open file.

A reader or writer belongs to one thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from purgatory.trace.tables import BATCH_ROWS, Columns, Table


class RowReader:
    """Reads one open file of rows; `number` is the line or row of the last record.

    `bind` comes first. Then rows are read in two steps, so that a bad row does not end the
    iteration: `records`, then `values`. Or in portions: `portions`, then `columns_of`, if the
    format has columns, or `records_of`.

    `unit`: of `number`. `errors`: what `records` raises if the file is damaged.
    """

    unit = "line"
    errors: tuple[type[Exception], ...]
    number: int = 0

    def columns(self) -> Sequence[str]:
        """Return the names of the columns, if known."""
        raise NotImplementedError

    def bind(self, table: Table[Any]) -> None:
        """Choose the table; `TraceError` if the file has other columns."""
        raise NotImplementedError

    def records(self) -> Iterator[Any]:
        """Yield the records in order."""
        raise NotImplementedError

    def values(self, record: Any) -> Iterable[object]:
        """Return a record's values of the table's columns; raises `BadValue`."""
        raise NotImplementedError

    def portions(self) -> Iterator[Any]:
        """Yield the records in order, many at a time."""
        numbered = ((self.number, record) for record in self.records())
        while portion := list(islice(numbered, BATCH_ROWS)):
            yield portion

    def good_columns_of(self, portion: Any) -> Columns | None:
        """Return columns if surely good, or None."""
        del portion
        return None

    def columns_of(self, portion: Any) -> Columns | None:
        """Return columns; None: use `records_of`."""
        del portion
        return None

    def records_of(self, portion: Any) -> Iterator[Any]:
        """Yield a portion's records, and set `number`."""
        for self.number, record in portion:
            yield record

    def close(self) -> None:
        """Close the file."""
        raise NotImplementedError


class NoRows(RowReader):
    """The rows of an empty directory: none."""

    errors = ()

    def columns(self) -> Sequence[str]:
        return ()

    def bind(self, table: Table[Any]) -> None:
        """Take any table."""

    def records(self) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        """Do nothing."""


class RowWriter:
    """Writes rows into a file that the caller opens and closes."""

    def write(self, row: tuple[Any, ...]) -> None:
        """Write a row; `BadValue`, and nothing is written, if it cannot be held."""
        raise NotImplementedError

    def write_columns(self, columns: Columns) -> bool:
        """Write many rows; False, and nothing is written, for a format of single rows."""
        del columns
        return False

    def close(self) -> None:
        """Write buffered rows."""
        raise NotImplementedError
