"""Where the rows of a stream come from: directories that files are put into, or Kafka topics.

A `Source` says what to read; `rows` opens it as a streaming DataFrame, unchecked, and `find` says
where in it the columns of the table are, as `schema.check` takes it. Nothing is read before the
stream starts. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from purgatory.spark.errors import SparkError, TableError, in_one_line
from purgatory.spark.files import files_for
from purgatory.spark.reading import json_cell
from purgatory.spark.schema import Cell, Found, Table, find

PARQUET: Final = "parquet"
JSON: Final = "json"
KAFKA: Final = "kafka"

# What a row has besides the columns of its table: the file it came from, its place there, and
# itself if it could not be taken apart.
FILE: Final = "_file"
PLACE: Final = "_place"
MALFORMED: Final = "_malformed"

_FORMATS: Final = {".parquet": PARQUET, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON}
_COMPRESSED: Final = ".gz"
# Files that are older than the newest by more than this are passed over; by default that is a week.
_MAX_AGE: Final = "100000d"
_OFFSET_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of rows.

    `place`: a directory, or for Kafka the topics, separated by commas. `format`: "parquet", "json"
    (an object a line) or "kafka" (an object a message, in its value). `options` are those of
    Spark's source; for Kafka at least `kafka.bootstrap.servers`.
    """

    place: str
    format: str = PARQUET
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a checkpoint remembers of it."""
        return f"{self.format}:{self.place}"

    def rows(self, spark: SparkSession, table: Table) -> DataFrame:
        """A streaming DataFrame: the columns that `schema` says.

        `TableError` where a file that is there already is not of the table; `SparkError` where
        Spark has no Kafka connector.
        """
        if self.format == KAFKA:
            return parse_messages(self._messages(spark), table)
        _check_a_file(spark, self, table)
        asked = [c for c in self.schema(table) if c.name not in {FILE, PLACE}]
        rows = (
            spark.readStream.format(self.format)
            .options(maxFileAge=_MAX_AGE, columnNameOfCorruptRecord=MALFORMED, **self.options)
            .schema(StructType(asked))
            .load(self.place)
        )
        place = "_metadata.row_index" if self.format == PARQUET else "_metadata.file_block_start"
        file = F.regexp_extract("_metadata.file_path", "[^/]*$", 0)
        return rows.withColumns({FILE: file, PLACE: F.col(place)})

    def schema(self, table: Table) -> StructType:
        """The columns of `rows`, as they are before they are checked.

        JSON is read as variants: a reader told to expect a string makes one of anything.
        """
        columns = [
            StructField(
                c.name,
                VariantType()
                if self.format != PARQUET
                else LongType()  # all integers, so that one out of range is seen
                if isinstance(c.dataType, IntegralType)
                else c.dataType,
            )
            for c in table.schema
        ]
        texts = [StructField(name, StringType()) for name in (MALFORMED, FILE)]
        return StructType([*columns, *texts, StructField(PLACE, LongType())])

    def find(self, table: Table, rows: DataFrame, row: Column) -> Found:
        """The rows of `rows`, and where the table's columns are in them.

        `row`: counts the rows of a part of the input, where a file is read in order. Events are
        given their `file` and `place`, which put them in order.
        """
        if self.format == PARQUET:
            cells = {name: _typed_cell(name) for name in table.schema.names}
        else:
            cells = {c.name: json_cell(c.name, c.dataType) for c in table.schema}
        extra = []
        if table.name == "events":
            place = F.col(PLACE) + row if self.format == JSON else F.col(PLACE)
            extra = [F.col(FILE).alias("file"), place.alias("place")]
        return Found(rows, cells, F.col(FILE), F.col(MALFORMED), extra)

    def _messages(self, spark: SparkSession) -> DataFrame:
        try:
            reader = spark.readStream.format(KAFKA).options(subscribe=self.place, **self.options)
            return reader.load()
        except AnalysisException as error:
            raise SparkError(
                f"{self.name}: Spark has no Kafka connector; give it one with --packages "
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            ) from error


def directory(spark: SparkSession, path: str, options: Mapping[str, str] | None = None) -> Source:
    """A directory as a source, in the format of the files that are there; of none: Parquet.

    Files put there later must be in the same format. `TableError` if it is not there, or holds
    files of both formats or of none of them.
    """
    files, place = files_for(spark, path)
    if not files.exists(place):
        raise TableError(f"{path}: no such directory")
    names = [name for name in files.names(place) if not name.startswith(("_", "."))]
    formats = {format_of(name): name for name in names}
    if None in formats:
        raise TableError(f"{path}: {formats[None]} is neither Parquet nor JSON by its name")
    if len(formats) > 1:
        raise TableError(f"{path}: has files of both formats; a stream reads one of them")
    return Source(place, next(iter(formats), None) or PARQUET, options or {})


def topic(name: str, servers: str, options: Mapping[str, str] | None = None) -> Source:
    """A Kafka topic, or several with commas between, as a source; from the oldest message on.

    `servers`: as host:port, the same. The session must have Spark's Kafka connector.
    """
    given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    return Source(name, KAFKA, given | dict(options or {}))


def format_of(name: str) -> str | None:
    """The format that a file name tells of, None for neither."""
    return _FORMATS.get(PurePosixPath(name.removesuffix(_COMPRESSED)).suffix)


def parse_messages(messages: DataFrame, table: Table) -> DataFrame:
    """Kafka's messages as rows of a table: a JSON object each; what is none is malformed."""
    value = F.col("value").cast("string")
    row = F.try_parse_json(value)
    is_object = F.coalesce(F.schema_of_variant(row).startswith("OBJECT"), F.lit(False))
    columns = {
        name: F.when(is_object, F.try_variant_get(row, f"$.{name}", "variant"))
        for name in table.schema.names
    }
    partition = F.lpad(F.col("partition").cast("string"), _OFFSET_DIGITS, "0")
    return messages.select(
        *(column.alias(name) for name, column in columns.items()),
        F.when(~is_object, F.coalesce(value, F.lit(""))).alias(MALFORMED),
        F.concat_ws("-", "topic", partition).alias(FILE),
        F.col("offset").alias(PLACE),
    )


def _check_a_file(spark: SparkSession, source: Source, table: Table) -> None:
    """Look at one file, if there is any: better an error now than after hours.

    A Parquet file says what columns it has; of JSON each row is looked at when it comes.
    """
    files, place = files_for(spark, source.place)
    names = [name for name in files.names(place) if format_of(name) == PARQUET]
    if source.format == PARQUET and names:
        path = f"{place}/{names[0]}"
        with in_one_line(path):
            rows = spark.read.parquet(path)
        find(table, rows, f"{path}: ")


def _typed_cell(name: str) -> Cell:
    return Cell(F.col(name), F.col(name).cast("string"))
