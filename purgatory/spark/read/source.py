"""The data source `purgatory`: the tables of a journal as DataFrames.

    register(spark)
    spark.read.format("purgatory").load("DATA_DIR")  # outcomes
    spark.read.format("purgatory").option("table", "operations").load("DATA_DIR")

Spark calls it in Python processes of its own: the driver's plans a read, the executors' read files.
So these need this package, pyarrow, and the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from purgatory.spark.errors import TableError
from purgatory.spark.read.filters import arrow_condition, time_range
from purgatory.spark.read.journal_files import find_files, may_contain, read_batches
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from purgatory.trace import (
    TraceError,
    read_events,
    read_extensions,
    read_operations,
    read_outcomes,
    tables,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

NAME: Final = "purgatory"
_FILTERS_SETTING: Final = "spark.sql.python.filterPushdown.enabled"


class _Table:
    """A table that can be read: its schema, time column, and how files of text are read."""

    def __init__(self, schema: StructType, time_column: str, read: Any) -> None:
        self.schema, self.time_column, self.read = schema, time_column, read


_TABLES: Final = {
    "outcomes": _Table(OUTCOMES, tables.OUTCOMES.time_column, read_outcomes),
    "operations": _Table(OPERATIONS, tables.OPERATIONS.time_column, read_operations),
    "events": _Table(EVENTS, tables.EVENTS.time_column, read_events),
    "extensions": _Table(EXTENSIONS, tables.EXTENSIONS.time_column, read_extensions),
}


def register(spark: SparkSession) -> None:
    """Make the format `purgatory` known to a session, and let Spark pass filters to it.

    The option `table` is `outcomes` (the default), `operations`, `events` or `extensions`. Reads
    only the columns of `schema(...)`, if that is given: Spark tells a data source in Python its
    filters, but not the columns that a query needs.
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
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns of the table."""
        return _TABLES[self._name].schema

    def reader(self, schema: StructType) -> JournalReader:
        """Return a reader of some columns."""
        known = self.schema()
        for field in schema:
            if field.name not in known.names or field.dataType != known[field.name].dataType:
                expected = ", ".join(f"{c.name} {c.dataType.simpleString()}" for c in known)
                found = f"{field.name} {field.dataType.simpleString()}"
                raise TableError(f"column {found} is not in {self._name}; expected {expected}")
        return JournalReader(self._path, self._name, schema)


class _File(InputPartition):
    """One file of a table, which one task reads."""


class JournalReader(DataSourceReader):
    """Reads columns of a table, file by file; Spark copies it to the processes that read."""

    def __init__(self, path: str, table: str, schema: StructType) -> None:
        self._path, self._table, self._schema = path, table, schema
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters for reading less; Spark evaluates all of them again."""
        self._filters = filters
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files that can have rows that meet the filters."""
        times = time_range(self._filters, _TABLES[self._table].time_column)
        found = find_files(self._path, self._table)
        # Spark plans no query without a partition.
        return [_File(file) for file in found if may_contain(file, times)] or [_File(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read a file: Arrow batches of Parquet, rows of text files."""
        file = partition.value
        if file is None:
            return iter(())
        if file.suffix != ".parquet":
            return self._read_text(file)
        return read_batches(file, to_arrow_schema(self._schema), arrow_condition(self._filters))

    def _read_text(self, file: Any) -> Iterator[tuple[Any, ...]]:
        names = self._schema.names
        try:
            with _TABLES[self._table].read(file) as rows:
                for row in rows:
                    values = row._asdict()
                    yield tuple(_plain(values[name]) for name in names)
        except TraceError as error:
            raise TableError(str(error)) from error


def _plain(value: Any) -> Any:
    """Return a value as Spark takes it: keys as a list."""
    return list(value) if isinstance(value, tuple) else value
