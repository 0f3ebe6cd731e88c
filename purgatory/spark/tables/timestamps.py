"""Times of a trace that are timestamps, as pandas writes them: Unix milliseconds of them.

They are rounded down to a millisecond, and without a time zone they are UTC, as in a replay. Spark
has no timestamps of nanoseconds, and refuses a file with a column of them, even if it is not used.
With a setting it reads them as integers. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from purgatory.spark.errors import TableError
from purgatory.trace.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

TIME_COLUMNS: Final = sorted({c.name for table in TABLES for c in table.columns if c.is_time})

_US_PER_MS: Final = 1000
_NS_PER_MS: Final = 1_000_000
_AS_INTEGERS: Final = "spark.sql.legacy.parquet.nanosAsLong"
_NANOSECONDS: Final = "TIMESTAMP(NANOS"


def is_time(name: str, found: DataType) -> bool:
    """Tell whether a column of a table is a time and holds timestamps."""
    return name in TIME_COLUMNS and isinstance(found, TimestampType | TimestampNTZType)


def ms_of_timestamp(time: Column, found: DataType) -> Column:
    """Return the Unix milliseconds of a timestamp."""
    if isinstance(found, TimestampType):
        return _floor_div(F.unix_micros(time), _US_PER_MS)
    epoch = F.lit("1970-01-01 00:00:00").cast(TimestampNTZType())
    return _floor_div(F.timestamp_diff("MICROSECOND", epoch, time), _US_PER_MS)


def ms_of_nanoseconds(time: Column) -> Column:
    """Return the Unix milliseconds of an integer that counts nanoseconds."""
    return _floor_div(time, _NS_PER_MS)


def read_nanoseconds_as_integers(spark: SparkSession) -> None:
    """Let a session read Parquet with nanoseconds, from now on: a query is set when it runs."""
    spark.conf.set(_AS_INTEGERS, "true")


def reads_nanoseconds_as_integers(spark: SparkSession) -> bool:
    """Tell whether a session does."""
    return spark.conf.get(_AS_INTEGERS, "false") == "true"


def columns_of_nanoseconds(
    spark: SparkSession, files: Sequence[str], names: Collection[str]
) -> set[str]:
    """Return those of some columns that are timestamps of nanoseconds, by the files' footers.

    `files`: as `inputFiles` of a DataFrame has them. Raises `TableError` if a column is that in
    some files only.
    """
    found = [_columns_of(spark, file, names) for file in files]
    for file, columns in zip(files, found, strict=True):
        if columns != found[0]:
            name = ", ".join(sorted(columns ^ found[0]))
            raise TableError(f"{file}: column {name} is not of the type that it has in {files[0]}")
    return set().union(*found)


def _columns_of(spark: SparkSession, file: str, names: Collection[str]) -> set[str]:
    context = spark.sparkContext
    jvm = context._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    settings = context._jsc.hadoopConfiguration()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, settings)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        schema = reader.getFileMetaData().getSchema()
        kinds = {
            name: str(schema.getType(name).getLogicalTypeAnnotation())
            for name in names
            if schema.containsField(name)
        }
    finally:
        reader.close()
    return {name for name, kind in kinds.items() if kind.startswith(_NANOSECONDS)}


def _floor_div(count: Column, unit: int) -> Column:
    """Divide integers, rounding down also before 1970."""
    divisor = F.lit(unit).cast("bigint")
    return F.call_function("div", count - F.pmod(count, divisor), divisor)
