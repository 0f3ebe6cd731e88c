"""What a format must implement to read and to write the rows of one open file.

`purgatory.trace.text_formats` and `purgatory.trace.parquet_format` do. A reader or a writer belongs
to the thread that opened it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from purgatory.trace.tables import BATCH_ROWS

if TYPE_CHECKING:
    from purgatory.trace.tables import Columns, Table


class RowReader:
    """Reads one open file of rows; `number` is the line or row of the record yielded last.

    `bind` comes first. Then a row is read in two steps, so that a row that cannot be decoded does
    not end the iteration: `records` yields what the file holds, `values` makes of a record the
    values of the table's columns. Or rows are read in portions: `portions` yields many records,
    `columns_of` makes columns of them, if the format has columns, and `records_of` records.

    `unit`: of `number`. `errors`: what `records` raises when the file is damaged.
    """

    unit = "line"
    errors: tuple[type[Exception], ...]
    number: int = 0

    def columns(self) -> Sequence[str]:
        """Return the names of the columns, as far as the beginning of the file has them."""
        raise NotImplementedError

    def bind(self, table: Table[Any]) -> None:
        """Choose the table to read; `TraceError` when the file's columns are not the table's."""
        raise NotImplementedError

    def records(self) -> Iterator[Any]:
        """Yield the records in the order of the file."""
        raise NotImplementedError

    def values(self, record: Any) -> Iterable[object]:
        """Return the values of the table's columns in a record; raises `BadValue`."""
        raise NotImplementedError

    def portions(self) -> Iterator[Any]:
        """Yield the records in the order of the file, many at a time."""
        numbered = ((self.number, record) for record in self.records())
        while portion := list(islice(numbered, BATCH_ROWS)):
            yield portion

    def good_columns_of(self, portion: Any) -> Columns | None:
        """Do as `columns_of`, if a quick look finds all rows good; None: they are to be checked."""
        del portion
        return None

    def columns_of(self, portion: Any) -> Columns | None:
        """Return the values of the table's columns in a portion; None: use its records."""
        del portion
        return None

    def records_of(self, portion: Any) -> Iterator[Any]:
        """Yield the records of a portion, and set `number`."""
        for self.number, record in portion:
            yield record

    def close(self) -> None:
        """Close the file."""
        raise NotImplementedError


class RowWriter:
    """Writes rows into a file that its caller opened and will close."""

    def write(self, row: tuple[Any, ...]) -> None:
        """Write a row; `BadValue` when the format cannot hold it, and then nothing is written."""
        raise NotImplementedError

    def write_columns(self, columns: Columns) -> bool:
        """Write many rows; False, and nothing is written, if the format takes single rows."""
        del columns
        return False

    def close(self) -> None:
        """Write buffered rows."""
        raise NotImplementedError
