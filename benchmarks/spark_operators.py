"""The stream's other design, for `bench_spark_pending.py`: Spark's own stateful operators.

An operation is a row for each of its keys, joined with the events of that key between its
submission and its deadline; the outer side of the join has those that expire, and of the rows of an
operation only the first one is kept. Exact for operations that one event completes (`need=1`)
and events that come in order; extensions and held events cannot be said in this way.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

OPERATIONS = "op_id string, submitted_ms long, timeout_ms long, keys array<string>"
EVENTS = "key string, at_ms long"
LONGEST = "4 hours"  # the longest timeout, or Spark could never forget an event


def run_join(spark: SparkSession, path: str, on_commit: Callable[[], object]) -> None:
    """Take the files of `path` that are there, a file of each table a micro-batch."""
    operations = read(spark, f"{path}/operations", OPERATIONS).select(
        "op_id",
        F.explode("keys").alias("watched"),
        F.timestamp_millis("submitted_ms").alias("submitted"),
        F.timestamp_millis(F.col("submitted_ms") + F.col("timeout_ms")).alias("deadline"),
    )
    events = read(spark, f"{path}/events", EVENTS).select(
        "key", F.timestamp_millis("at_ms").alias("at")
    )
    joined = operations.withWatermark("deadline", "0 seconds").join(
        events.withWatermark("at", "0 seconds"),
        F.expr(
            "watched = key AND at >= submitted AND at <= deadline "
            f"AND at >= deadline - INTERVAL {LONGEST}"
        ),
        "leftOuter",
    )
    ends = joined.select("op_id", "deadline", F.unix_millis("at").alias("at_ms"))
    outcomes = ends.dropDuplicatesWithinWatermark(["op_id"])

    def write(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{path}/out/{number}")
        on_commit()

    run_batches(outcomes, write, f"{path}/checkpoint")


def read(spark: SparkSession, directory: str, schema: str) -> DataFrame:
    """Return a table of the input as a stream."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(directory)


def run_batches(rows: DataFrame, take: Callable[[DataFrame, int], None], checkpoint: str) -> None:
    """Have `take` called with each micro-batch of what is there."""
    query = rows.writeStream.outputMode("append").foreachBatch(take)
    query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()
