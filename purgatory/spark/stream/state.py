"""The stream's state between micro-batches, as Parquet tables.

Each committed state is a directory of its own in the checkpoint, named by the checkpoint's entry:

    operations/    pending operations, as `PENDING_OPERATIONS`
    events/        retained events, as `RETAINED_EVENTS`: those of instants that are not closed yet

An empty table has no directory. Each micro-batch writes the whole state anew. Any thread may call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from purgatory.spark.stream.parquet_writer import write_parquet
from purgatory.spark.tables.local_table import local_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from purgatory.spark.stream.checkpoint import CheckpointEntry

# `keys` are the watch keys without an event so far, `need` is how many of them are still needed.
PENDING_OPERATIONS: Final = StructType(
    [
        StructField("op_id", StringType()),
        StructField("kind", StringType()),
        StructField("submitted_ms", LongType()),
        StructField("deadline_ms", LongType()),
        StructField("keys", ArrayType(StringType())),
        StructField("need", IntegerType()),
    ]
)
# `file` and `place`, the place of the row in the file, order the events of one instant. None is
# held or has failed: a stream refuses those.
RETAINED_EVENTS: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("at_ms", LongType()),
        StructField("file", StringType()),
        StructField("place", LongType()),
    ]
)


def read_pending_operations(spark: SparkSession, entry: CheckpointEntry) -> DataFrame:
    """Read the pending operations of a committed state."""
    return _read(spark, f"{entry.state}/operations", entry.pending, PENDING_OPERATIONS)


def read_retained_events(spark: SparkSession, entry: CheckpointEntry) -> DataFrame:
    """Read the retained events of a committed state."""
    return _read(spark, f"{entry.state}/events", entry.kept, RETAINED_EVENTS)


def write_pending_operations(rows: DataFrame, count: int, state: str) -> None:
    """Write `count` pending operations into the directory of a state."""
    write_parquet(rows, count, f"{state}/operations")


def write_retained_events(rows: DataFrame, count: int, state: str) -> None:
    """Write `count` retained events into the directory of a state."""
    write_parquet(rows, count, f"{state}/events")


def _read(spark: SparkSession, path: str, count: int, schema: StructType) -> DataFrame:
    if not count:
        return local_table(spark, schema)
    return spark.read.schema(schema).parquet(path)
