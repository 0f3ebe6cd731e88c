"""Finds the files of a journal's table, and reads those of Parquet as Arrow batches.

Any thread may call.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

from purgatory.spark.errors import TableError
from purgatory.trace import TraceError
from purgatory.trace.formats import files_of

if TYPE_CHECKING:
    from purgatory.spark.read.filters import Range

_SCHEME: Final = re.compile(r"(\w[\w+.-]+):/+")
# A directory of a server has the journal in this one.
_JOURNAL: Final = "journal"
_DATE: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)")
_DAY_MS: Final = 86_400_000
_FIRST_DAY: Final = dt.date(1970, 1, 1).toordinal()


def find_files(path: str, table: str) -> list[Path]:
    """Find the files of a table, sorted by name.

    `path`: a server's data directory, a journal, or the table itself. Raises `TableError`.
    """
    try:
        return files_of(_table_path(_local(path), table))
    except TraceError as error:
        raise TableError(str(error)) from error


def _local(path: str) -> Path:
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Path(path)
    if scheme[1] != "file":
        raise TableError(
            f"{path}: the data source reads files of this machine; use spark.read.parquet, or "
            "purgatory.spark.tables.journal_tables.read_journal, which also checks the rows"
        )
    return Path("/" + path[scheme.end() :])


def _table_path(path: Path, table: str) -> Path:
    if (path / _JOURNAL).is_dir():
        path /= _JOURNAL
    if not path.is_dir():
        return path
    found = [entry for entry in sorted(path.iterdir()) if entry.name.partition(".")[0] == table]
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found)
        raise TableError(f"{path}: has several tables of {table}: {names}")
    return found[0] if found else path


def may_contain(file: Path, times: Range) -> bool:
    """Say whether a file can have rows of these times, by the date of its directory."""
    date = _DATE.fullmatch(file.parent.name)
    if date is None:
        return True
    first = (dt.date.fromisoformat(date[1]).toordinal() - _FIRST_DAY) * _DAY_MS
    return times.overlaps(first, first + _DAY_MS - 1)


def read_batches(
    file: Path, schema: pa.Schema, condition: ds.Expression | None
) -> Iterator[pa.RecordBatch]:
    """Read the columns of `schema` of the rows that meet a condition.

    Only these columns are read, and only row groups in which such rows can be. A column that the
    file lacks is null.
    """
    dataset = ds.dataset(str(file), schema=schema, format="parquet")
    batches = dataset.to_batches(columns=schema.names, filter=condition)
    return (batch for batch in batches if batch.num_rows)
