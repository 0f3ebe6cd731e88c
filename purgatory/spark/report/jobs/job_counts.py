"""Counts of a journal's jobs: few queries, whose results fit into memory.

No session, no action: for any thread that may use the DataFrame.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.report.aggregates import hours_of_week, largest_kinds, numbered, rounded_up
from purgatory.trace.validation import CANCELLED, DEAD, DONE

#: Measures of `count_ends`.
QUEUE, RUN, ATTEMPTS, HOUR, LATE_HOUR, MINUTE = range(6)
#: The states of ends, in the order of the fields of `EndCount`.
STATES: Final = (DONE, DEAD, CANCELLED)

_MINUTE_MS: Final = 60_000
_MINUTES: Final = 60
# Errors are told apart by so many characters.
_ERROR_LENGTH: Final = 120


def describe_kinds(jobs: DataFrame, max_kinds: int) -> DataFrame:
    """Describe all kinds together, then the `max_kinds` largest, in one query."""
    of_kinds = jobs.groupBy("kind").agg(
        F.count("*").alias("ended"),
        F.min("submitted_ms").alias("first_ms"),
        F.max("ended_ms").alias("last_ms"),
    )
    times = F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms")
    return largest_kinds(of_kinds, "ended", max_kinds, *times)


def count_ends(jobs: DataFrame, late_ms: int, *, exact: bool) -> DataFrame:
    """Count the values of all measures by kind, in one query.

    Columns: `kind`, `measure`, and those of `EndCount`. `QUEUE`, `RUN`: in ms, rounded up to
    `aggregates.DIGITS` digits unless `exact`, of begun jobs. `HOUR`: of the week, when jobs were
    due; `LATE_HOUR`: of jobs that began more than `late_ms` later. `MINUTE`: of the hour.
    """
    measures = F.array(*(F.struct(*pair) for pair in _measures(late_ms, exact=exact)))
    rows = jobs.select("kind", "state", F.explode(measures).alias("of"))
    counts = (F.count(F.when(F.col("state") == state, 1)).alias(state) for state in STATES)
    return (
        rows.select("kind", "state", "of.*")
        .where(F.col("value").isNotNull())
        .groupBy("kind", "measure", "value")
        .agg(*counts)
    )


def _measures(late_ms: int, *, exact: bool) -> list[tuple[Column, Column]]:
    queue, run, due = F.greatest("queue_ms", F.lit(0)), F.greatest("run_ms", F.lit(0)), "due_ms"
    hour = hours_of_week(F.col(due))
    values = {
        QUEUE: F.when(F.col("queue_ms").isNotNull(), queue if exact else rounded_up(queue)),
        RUN: F.when(F.col("run_ms").isNotNull(), run if exact else rounded_up(run)),
        ATTEMPTS: F.col("attempts"),
        HOUR: hour,
        LATE_HOUR: F.when(F.col("queue_ms") > late_ms, hour),
        MINUTE: F.pmod(F.floor(F.col(due) / _MINUTE_MS), F.lit(_MINUTES)),
    }
    return numbered(values)


def count_errors(jobs: DataFrame, most: int) -> DataFrame:
    """Count the most frequent errors of each kind: `kind, error, dead, cancelled`.

    Takes the first line of an error, with "#" for digits.
    """
    line = F.substring(F.substring_index(F.col("error"), "\n", 1), 1, _ERROR_LENGTH)
    errors = jobs.where((F.col("error") != "") & (F.col("state") != DONE)).select(
        "kind", "state", F.regexp_replace(line, r"\d+", "#").alias("error")
    )
    counted = errors.groupBy("kind", "error").agg(
        *(F.count(F.when(F.col("state") == state, 1)).alias(state) for state in (DEAD, CANCELLED))
    )
    return _first(counted, most, F.desc(DEAD), F.desc(CANCELLED), F.col("error"))


def count_workers(jobs: DataFrame, most: int) -> DataFrame:
    """Count jobs of the busiest workers of each kind: `kind, worker, done, dead, run_ms`."""
    of_workers = jobs.where((F.col("worker") != "") & F.col("run_ms").isNotNull())
    counted = of_workers.groupBy("kind", "worker").agg(
        *(F.count(F.when(F.col("state") == state, 1)).alias(state) for state in (DONE, DEAD)),
        F.sum(F.greatest("run_ms", F.lit(0))).alias("run_ms"),
        F.count("*").alias("ended"),
    )
    return _first(counted, most, F.desc("ended"), F.col("worker"))


def _first(rows: DataFrame, most: int, *order: Column) -> DataFrame:
    rank = F.row_number().over(Window.partitionBy("kind").orderBy(*order))
    return rows.withColumn("rank", rank).where(F.col("rank") <= most).orderBy(*order, "kind")


def attempts_in_order(jobs: DataFrame) -> DataFrame:
    """Return `kind, began_ms, ended_ms` of the last attempts, in order."""
    begun = jobs.where(F.col("began_ms").isNotNull())
    return begun.select("kind", "began_ms", "ended_ms").orderBy("began_ms")
