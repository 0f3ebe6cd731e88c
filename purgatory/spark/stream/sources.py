"""The sources of a stream: directories of files, or Kafka topics.

All sources have the same columns (`ROWS`), so that they can be one stream. Any thread may call.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, LongType, StringType, StructField, StructType

from purgatory.spark.errors import SparkError, TableError
from purgatory.spark.filesystem import escape_glob, file_system_for
from purgatory.spark.stream.event_time import ControlSource
from purgatory.spark.stream.file_types import check_types
from purgatory.spark.tables.line_parser import (
    FILE,
    JSON,
    MESSAGES,
    PLACE,
    LineParser,
    parsed_schema,
)
from purgatory.spark.tables.reader import PARQUET, format_of, parsed_lines
from purgatory.spark.tables.row_checks import (
    ParsedRows,
    TableSpec,
    check_columns,
    good_columns,
    parse_rows,
    rejection_reason,
    row_as_text,
)
from purgatory.spark.tables.schema import EVENTS, OPERATIONS

# A checked row: null where a table lacks a column; `reason` and `row` of a rejected row. Flat,
# because Spark caches rows by column.
ROWS: Final = StructType(
    [
        StructField("table", StringType()),
        StructField("time_ms", LongType()),
        *OPERATIONS,
        *EVENTS,
        # Also the columns of extensions.
        StructField("reason", StringType()),
        StructField("row", StringType()),
        StructField("file", StringType()),
        StructField("place", LongType()),
    ]
)

KAFKA: Final = "kafka"

# Of files in a micro-batch, by default: workers have the rows in memory.
_MAX_BYTES: Final = str(64 * 2**20)
_POLL_S: Final = 0.2  # between looks for the first file
# Spark ignores files that are so much older than the newest; by default a week.
_FILE_OPTIONS: Final = {"maxFileAge": "100000d"}
_OFFSET_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Source:
    """A source of rows for a stream.

    `place`: a directory, or Kafka topics, separated by commas. `format`: "parquet", "json" (an
    object a line) or "kafka" (an object a message, in its value). `options` are those of Spark's
    source; for Kafka at least `kafka.bootstrap.servers`.
    """

    place: str
    format: str = PARQUET
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The source's name in a checkpoint; without the format, which may be unknown yet."""
        return f"kafka:{self.place}" if self.format == KAFKA else self.place

    def rows(self, spark: SparkSession, table: TableSpec) -> DataFrame:
        """Return a streaming DataFrame of `ROWS`.

        For JSON, `place` is where the row's block begins; see `Packer`. Raises `TableError` if an
        existing file is not of the table, `SparkError` if Spark has no Kafka connector.
        """
        if self.format == KAFKA:
            return check_stream_rows(table, parse_messages(self._messages(spark), table))
        _check_one_file(spark, self, table)
        # A file has the same name wherever the directory lies.
        file = F.substring_index("_metadata.file_path", "/", -1).alias(FILE)
        reader = spark.readStream.options(**self._file_options())
        place = escape_glob(self.place)
        if self.format == JSON:
            lines = reader.format("text").option("lineSep", "\n").load(place)
            position = F.col("_metadata.file_block_start").alias(PLACE)
            return check_stream_rows(table, _parse_lines(lines, file, position, table, JSON))
        rows = reader.schema(_requested_schema(table)).parquet(place)
        rows = rows.select("*", file, F.col("_metadata.row_index").alias(PLACE))
        return check_stream_rows(table, parse_rows(table, rows)._replace(file=F.col(FILE)))

    def _file_options(self) -> dict[str, str]:
        limited = {*self.options} & {"maxFilesPerTrigger", "maxBytesPerTrigger"}
        limit = {} if limited else {"maxBytesPerTrigger": _MAX_BYTES}
        return {**_FILE_OPTIONS, **limit, **self.options}

    def _messages(self, spark: SparkSession) -> DataFrame:
        try:
            reader = spark.readStream.format(KAFKA).options(subscribe=self.place, **self.options)
            return reader.load()
        except AnalysisException as error:
            raise missing_connector(spark, self.name) from error


def check_stream_rows(table: TableSpec, parsed: ParsedRows) -> DataFrame:
    """Check parsed rows with a column `PLACE`; return `ROWS`."""
    reason = rejection_reason(table, parsed)
    flat = parsed.rows.select(
        F.lit(table.name).alias("table"),
        *good_columns(table, parsed.columns),
        reason.alias("reason"),
        F.when(reason.isNotNull(), row_as_text(parsed)).alias("row"),
        parsed.file.alias("file"),
        F.col(PLACE).alias("place"),
    )
    return _all_columns(flat.withColumn("time_ms", F.col(table.table.time_column)))


def control_rows(control: ControlSource, spark: SparkSession) -> DataFrame:
    """Return the control source's rows as `ROWS`."""
    return _all_columns(control.rows(spark))


def _all_columns(rows: DataFrame) -> DataFrame:
    """Return `ROWS`, null where missing."""
    there = {*rows.columns}
    columns = (
        F.col(c.name) if c.name in there else F.lit(None).cast(c.dataType).alias(c.name)
        for c in ROWS
    )
    return rows.select(*columns)


def directory_source(
    spark: SparkSession, path: str, options: Mapping[str, str] | None = None
) -> Source:
    """Make a source of a directory, in the format of its files.

    Later files must have the same format. An empty directory counts as Parquet; other files wait
    for the next run. Raises `TableError` for a missing directory, and for files of both formats or
    of another.
    """
    place, names = _directory(spark, path)
    formats = {format_of(name): name for name in names}
    for found in formats.keys() - {PARQUET, JSON}:
        raise TableError(f"{path}: {formats[found]} is neither Parquet nor JSON by its name")
    if len(formats) > 1:
        raise TableError(f"{path}: has files of both formats; a stream reads one of them")
    found = next(iter(formats), None)
    undecided = {} if found else {"pathGlobFilter": "*.parquet"}
    return Source(place, found or PARQUET, undecided | dict(options or {}))


def wait_for_first_file(
    spark: SparkSession, path: str, stopping: threading.Event, show: Callable[[str], object]
) -> None:
    """Wait for a first file, which decides the format, or `stopping`; may raise `TableError`.

    `show` gets a line if the directory is empty.
    """
    if _directory(spark, path)[1]:
        return
    show(f"waiting for a first file in {path}")
    while not (stopping.wait(_POLL_S) or _directory(spark, path)[1]):
        pass


def _directory(spark: SparkSession, path: str) -> tuple[str, list[str]]:
    file_system, place = file_system_for(spark, path)
    if not file_system.exists(place):
        raise TableError(f"{path}: no such directory")
    names = file_system.names(place)
    return place, [name for name in names if not name.startswith(("_", "."))]


def topic_source(name: str, servers: str, options: Mapping[str, str] | None = None) -> Source:
    """Make a source of Kafka topics, from their oldest messages.

    `name`: topics, separated by commas. `servers`: host:port, likewise. The session needs Spark's
    Kafka connector.
    """
    given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    return Source(name, KAFKA, given | dict(options or {}))


def missing_connector(spark: SparkSession, name: str) -> SparkError:
    """Return the error for a missing Kafka package."""
    return SparkError(
        f"{name}: Spark has no Kafka connector; give it one with --packages "
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    )


def parse_messages(messages: DataFrame, table: TableSpec) -> ParsedRows:
    """Parse Kafka messages, a JSON object each."""
    partition = F.lpad(F.col("partition").cast("string"), _OFFSET_DIGITS, "0")
    file = F.concat_ws("-", "topic", partition).alias(FILE)
    return _parse_lines(messages, file, F.col("offset").alias(PLACE), table, MESSAGES)


def _parse_lines(
    lines: DataFrame,
    file: Column,
    place: Column,
    table: TableSpec,
    format: str,  # noqa: A002 - as Spark calls it
) -> ParsedRows:
    parser, schema = LineParser(table.name, format), parsed_schema(table.name)
    values = lines.select(F.col("value").cast("binary"), file, place)
    return parsed_lines(values.mapInArrow(parser, schema), table)


def _check_one_file(spark: SparkSession, source: Source, table: TableSpec) -> None:
    """Check a Parquet file, if any, before the stream starts; see `file_types`."""
    # Spark passes over empty files. A JSON file has no schema.
    file_system, place = file_system_for(spark, source.place)
    sizes = file_system.sizes(place)
    names = sorted(name for name in sizes if sizes[name] and format_of(name) == PARQUET)
    if source.format == PARQUET and names:
        path = f"{place}/{names[0]}"
        check_columns(table, check_types(spark, [path], table.schema.names), f"{path}: ")


def _requested_schema(table: TableSpec) -> StructType:
    """Return the schema to read: integers of 64 bits, checked later."""
    return StructType(
        [
            StructField(c.name, LongType() if isinstance(c.dataType, IntegralType) else c.dataType)
            for c in table.schema
        ]
    )
