"""A data source for notebooks, `purgatory`: the tables of a journal as DataFrames.

    register(spark)
    spark.read.format("purgatory").load("DATA_DIR")  # outcomes
    spark.read.format("purgatory").option("table", "operations").load("DATA_DIR")

Spark calls this in its own Python processes, each in a single thread: the driver's plans a read,
the executors' read files. They need the package, pyarrow, and the files. Any thread may call the
functions.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.pandas.types import to_arrow_schema

from purgatory.journal.files import is_journal_file
from purgatory.spark.errors import TableError
from purgatory.spark.tables.schema import schema_of
from purgatory.trace import Reader, TraceError
from purgatory.trace.formats import files_of
from purgatory.trace.parquet_format import check_case, check_type, unix_ms
from purgatory.trace.several_journals import journals_below
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES, Table
from purgatory.trace.validation import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


NAME: Final = "purgatory"
_FILTERS_SETTING: Final = "spark.sql.python.filterPushdown.enabled"


_TABLES: Final[dict[str, Table[Any]]] = {
    table.name: table for table in (OUTCOMES, OPERATIONS, EVENTS, EXTENSIONS)
}


def register(spark: SparkSession) -> None:
    """Make the format `purgatory` known to a session, and pass filters to it.

    The option `table` is `outcomes` (the default), `operations`, `events` or `extensions`. Give
    `schema(...)` to read only some columns: Spark does not say which a query needs.
    """
    spark.conf.set(_FILTERS_SETTING, "true")
    spark.dataSource.register(JournalSource)


class JournalSource(DataSource):
    """A table of a journal; see `register`. Raises `TableError`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._path = options.get("path", "")
        self._name = options.get("table", "outcomes")
        if not self._path:
            raise TableError("no path; expected load(PATH) of a journal or a data directory")
        if self._name not in _TABLES:
            raise TableError(f"table is {self._name!r}; expected one of {', '.join(_TABLES)}")

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schema_of(_TABLES[self._name])

    def reader(self, schema: StructType) -> JournalReader:
        known = self.schema()
        for field in schema:
            if field.name not in known.names or field.dataType != known[field.name].dataType:
                expected = ", ".join(f"{c.name} {c.dataType.simpleString()}" for c in known)
                found = f"{field.name} {field.dataType.simpleString()}"
                raise TableError(f"column {found} is not in {self._name}; expected {expected}")
        return JournalReader(self._path, self._name, schema)


class _File(InputPartition):
    """One file of a table, or None."""


class JournalReader(DataSourceReader):
    """Reads columns of a table, file by file."""

    def __init__(self, path: str, table: str, schema: StructType) -> None:
        self._path, self._table, self._schema = path, table, schema
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters; Spark evaluates all of them again."""
        self._filters = filters
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files that can have rows for the filters."""
        first, last = time_range(self._filters, _TABLES[self._table].time_column)
        found = find_files(self._path, self._table)
        # Spark plans no query without a partition.
        return [_File(file) for file in found if may_contain(file, first, last)] or [_File(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read a file: Arrow batches of Parquet, rows of text files.

        Skips row groups of Parquet without rows for the filters. A missing column is null. A
        timestamp is rounded down to a millisecond.
        """
        file = partition.value
        if file is None:
            return iter(())
        if file.suffix != ".parquet":
            return self._read_text(file)
        return self._read_parquet(file)

    def _read_parquet(self, file: Path) -> Iterator[pa.RecordBatch]:
        schema, found = to_arrow_schema(self._schema), pq.read_schema(file)
        _check_columns(file, found, _TABLES[self._table])
        times = {c.name for c in _TABLES[self._table].columns if c.is_time} & {*schema.names}
        stamps = [f for f in found if f.name in times and pa.types.is_timestamp(f.type)]
        for field in stamps:
            schema = schema.set(schema.get_field_index(field.name), field)
        dataset = ds.dataset(str(file), schema=schema, format="parquet")
        names = {field.name for field in stamps}
        # A filter compares integers.
        filters = [each for each in self._filters if _column_of(each) not in names]
        batches = dataset.to_batches(columns=schema.names, filter=arrow_condition(filters))
        return (_with_unix_ms(batch, names) for batch in batches if batch.num_rows)

    def _read_text(self, file: Any) -> Iterator[tuple[Any, ...]]:
        names = self._schema.names
        try:
            with Reader(file, _TABLES[self._table]) as rows:
                for row in rows:
                    values = row._asdict()
                    if "keys" in values:
                        values["keys"] = list(values["keys"])  # in Spark's form
                    yield tuple(values[name] for name in names)
        except TraceError as error:
            raise TableError(str(error)) from error


def _check_columns(file: Path, schema: pa.Schema, table: Table[Any]) -> None:
    """Raise `TableError` for a name or a type that a replay refuses."""
    try:
        check_case(str(file), schema.names, table.names)
        for column in table.columns:
            if schema.names.count(column.name) == 1:
                check_type(pa, file, schema, column)
    except TraceError as error:
        raise TableError(str(error)) from error


def _with_unix_ms(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    columns = (
        unix_ms(pa, array) if name in names else array
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    )
    return pa.RecordBatch.from_arrays([*columns], names=batch.schema.names)


_SCHEME: Final = re.compile(r"(\w[\w+.-]+):/+")
# The journal in a server's directory.
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
    if journals_below(path, table):
        raise TableError(
            f"{path}: has journals of several servers; expected one of them, or for all "
            "purgatory.spark.tables.journal_tables.read_journal"
        )
    found = [entry for entry in sorted(path.iterdir()) if entry.name.partition(".")[0] == table]
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found)
        raise TableError(f"{path}: has several tables of {table}: {names}")
    return found[0] if found else path


def may_contain(file: Path, first: int, last: int) -> bool:
    """Say whether a file can have rows of these times, by its directory's date.

    Only a journal's directories are sure to have the date of the times.
    """
    date = _DATE.fullmatch(file.parent.name)
    if date is None or not is_journal_file(file.name):
        return True
    try:
        day = dt.date.fromisoformat(date[1])
    except ValueError:  # not a day of the calendar, so not from a journal
        return True
    day_ms = (day.toordinal() - _FIRST_DAY) * _DAY_MS
    return first < day_ms + _DAY_MS and day_ms <= last


def arrow_condition(filters: Iterable[Filter]) -> ds.Expression | None:
    """Return a condition that rows meeting all filters meet; None without any."""
    conditions = [found for each in filters if (found := _condition(each)) is not None]
    return reduce(and_, conditions) if conditions else None


def _column_of(each: Filter) -> str | None:
    """Return the column of a filter that `_condition` knows."""
    found = each.child if isinstance(each, Not) else each
    return getattr(found, "attribute", (None,))[0]


def _condition(each: Filter) -> ds.Expression | None:
    match each:
        case Not(EqualTo((name,), value)):
            return ds.field(name) != value
        case IsNull((name,)):
            return ds.field(name).is_null()
        case IsNotNull((name,)):
            return ds.field(name).is_valid()
        case In((name,), values) if None not in values:
            return ds.field(name).isin(list(values))
        case (
            EqualTo((name,), value)
            | GreaterThan((name,), value)
            | GreaterThanOrEqual((name,), value)
            | LessThan((name,), value)
            | LessThanOrEqual((name,), value)
        ):
            return _COMPARISONS[type(each)](ds.field(name), value)
    return None


_COMPARISONS: Final[Mapping[type[Filter], Callable[[ds.Expression, Any], ds.Expression]]] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}


def time_range(filters: Iterable[Filter], column: str) -> tuple[int, int]:
    """Return the first and the last time, in Unix ms, that the filters allow."""
    first, last = INT64_MIN, INT64_MAX
    for each in filters:
        match each:
            case EqualTo((name,), int(value)) if name == column:
                first, last = max(first, value), min(last, value)
            case GreaterThan((name,), int(value)) | GreaterThanOrEqual((name,), int(value)) if (
                name == column
            ):
                first = max(first, value)
            case LessThan((name,), int(value)) | LessThanOrEqual((name,), int(value)) if (
                name == column
            ):
                last = min(last, value)
    return first, last
