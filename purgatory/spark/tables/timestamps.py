"""Timestamps in a trace, as pandas writes them: their Unix milliseconds.

They are rounded down, and UTC without a time zone, as in a replay. Spark refuses a column of
nanoseconds, unless a setting makes them integers.
"""

from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from purgatory.trace.tables import TABLES

TIME_COLUMNS: Final = sorted({c.name for table in TABLES for c in table.columns if c.is_time})

_US_PER_MS: Final = 1000
_NS_PER_MS: Final = 1_000_000
_AS_INTEGERS: Final = "spark.sql.legacy.parquet.nanosAsLong"
_NANOSECONDS: Final = "TIMESTAMP(NANOS"


def is_time(name: str, found: DataType) -> bool:
    """Tell whether a column of a table holds timestamps."""
    return name in TIME_COLUMNS and isinstance(found, TimestampType | TimestampNTZType)


def ms_of_timestamp(time: Column, found: DataType) -> Column:
    """Return the Unix milliseconds of a timestamp."""
    if isinstance(found, TimestampType):
        return _floor_div(F.unix_micros(time), _US_PER_MS)
    epoch = F.lit("1970-01-01 00:00:00").cast(TimestampNTZType())
    return _floor_div(F.timestamp_diff("MICROSECOND", epoch, time), _US_PER_MS)


def ms_of_nanoseconds(time: Column) -> Column:
    """Return the Unix milliseconds of nanoseconds."""
    return _floor_div(time, _NS_PER_MS)


def read_nanoseconds_as_integers(spark: SparkSession) -> None:
    """Let a session read nanoseconds, from now on: a query is set when it runs."""
    spark.conf.set(_AS_INTEGERS, "true")


def is_nanoseconds(kind: str) -> bool:
    """Tell whether a logical type of Parquet is of nanoseconds."""
    return kind.startswith(_NANOSECONDS)


def _floor_div(count: Column, unit: int) -> Column:
    # Nothing is subtracted from the count, which may be the least of 64 bits.
    down = F.when(count % unit < 0, 1).otherwise(0)
    return F.call_function("div", count, F.lit(unit).cast("bigint")) - down
