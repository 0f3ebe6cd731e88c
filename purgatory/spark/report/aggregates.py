"""Aggregates of a journal that Spark computes: few queries, whose results fit into memory.

Two columns label the rows of a result: `total`, true in a row about all kinds (`kind` is null
then), and `kind`, null in a row about the small kinds that `fold_kinds` has put together. No
session, no action: for any thread that may use the DataFrames.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.report.content import ValueCount

LABELS: Final = ("total", "kind")
# Unless exact, values are rounded up to so many digits.
DIGITS: Final = 4
# Measures of `count_values`.
WAIT, LATENESS, TIMEOUT, END, WEEK_HOUR, SUBMITTED = range(6)

_HOUR_MS: Final = 3_600_000
_WEEK_HOURS: Final = 7 * 24
_FIRST_MONDAY_MS: Final = 4 * 24 * _HOUR_MS  # 5 January 1970


def describe_kinds(outcomes: DataFrame, max_kinds: int) -> DataFrame:
    """Describe all kinds together, then the `max_kinds` largest, in one query.

    `first_ms`: first submission; `first_end_ms`, `last_ms`: first and last end.
    """
    of_kinds = outcomes.groupBy("kind").agg(
        F.count("*").alias("operations"),
        F.min("submitted_ms").alias("first_ms"),
        F.min("at_ms").alias("first_end_ms"),
        F.max("at_ms").alias("last_ms"),
    )
    first = (F.min(name).alias(name) for name in ("first_ms", "first_end_ms"))
    return largest_kinds(
        of_kinds, "operations", max_kinds, *first, F.max("last_ms").alias("last_ms")
    )


def largest_kinds(of_kinds: DataFrame, size: str, max_kinds: int, *columns: Column) -> DataFrame:
    """Describe all kinds together, then the `max_kinds` kinds of the largest column `size`."""
    sums = (F.coalesce(F.sum(size), F.lit(0)).alias(size), F.count("*").alias("kinds"))
    return (
        of_kinds.rollup("kind")
        .agg(F.grouping("kind").cast("boolean").alias("total"), *sums, *columns)
        .orderBy(F.desc("total"), F.desc(size), "kind")
        .limit(max_kinds + 1)
    )


def fold_kinds(rows: DataFrame, kinds: Iterable[str]) -> DataFrame:
    """Replace each kind outside `kinds` by null."""
    known = F.col("kind").isin(list(kinds))
    return rows.withColumn("kind", F.when(known, F.col("kind")))


def count_values(
    outcomes: DataFrame, operations: DataFrame | None, bin_ms: int, *, exact: bool
) -> DataFrame:
    """Count the values of all measures by kind, in one query.

    Columns: `kind`, `measure`, and those of `ValueCount`. `WAIT`, `LATENESS`, `TIMEOUT`: in ms,
    rounded up to `DIGITS` digits unless `exact`. `END`: start of a bin of `bin_ms`. `WEEK_HOUR`:
    hours from Monday 0:00 UTC to the submission. `SUBMITTED`: in `completed`, the number of rows of
    operations.
    """
    measures = _measures(bin_ms, exact=exact)
    rows = outcomes.select(
        "kind", "outcome", F.explode(F.array(*(F.struct(*pair) for pair in measures))).alias("of")
    ).select("kind", "outcome", "of.*")
    if operations is not None:
        submitted = (F.lit(SUBMITTED).alias("measure"), F.lit(0).cast("long").alias("value"))
        counted = operations.select("kind", F.lit("completed").alias("outcome"), *submitted)
        rows = rows.unionByName(counted)
    counts = (
        F.count(F.when(F.col("outcome") == outcome, 1)).alias(outcome)
        for outcome in ValueCount._fields[1:]
    )
    return rows.groupBy("kind", "measure", "value").agg(*counts)


def _measures(bin_ms: int, *, exact: bool) -> list[tuple[Column, Column]]:
    durations = {
        WAIT: F.col("waited_ms"),
        LATENESS: F.col("lateness_ms"),
        TIMEOUT: F.col("deadline_ms") - F.col("submitted_ms"),
    }
    values = {n: value if exact else rounded_up(value) for n, value in durations.items()}
    values[END] = F.col("at_ms") - F.pmod("at_ms", F.lit(bin_ms))
    values[WEEK_HOUR] = hours_of_week(F.col("submitted_ms"))
    return numbered(values)


def numbered(values: Mapping[int, Column]) -> list[tuple[Column, Column]]:
    """Return pairs of the columns `measure` and `value`."""
    return [
        (F.lit(number).alias("measure"), value.cast("long").alias("value"))
        for number, value in values.items()
    ]


def hours_of_week(at_ms: Column) -> Column:
    """Return the hours from Monday 0:00 UTC to a time."""
    return F.pmod(F.floor((at_ms - _FIRST_MONDAY_MS) / _HOUR_MS), F.lit(_WEEK_HOURS))


def rounded_up(value: Column) -> Column:
    """Round up to `DIGITS` digits, within 64 bits: a timeout still reaches its share."""
    digits = F.length(F.abs(value).cast("string"))
    unit = F.pow(F.lit(10.0), F.greatest(F.lit(0), digits - DIGITS)).cast("long")
    return F.coalesce(F.try_add(value, F.pmod(-value, unit)), value)


def hot_keys(outcomes: DataFrame, operations: DataFrame | None, max_keys: int) -> DataFrame:
    """Find at most `max_keys` hottest keys of each kind and in total, hottest first.

    `watched`: operations that watch the key, null without a table of operations; `completed`:
    operations completed by the key. The hottest are the most watched or, without operations, those
    that completed most. Leaves out keys used once.
    """
    one, none = F.lit(1).cast("long"), F.lit(0).cast("long")
    unknown = F.lit(None).cast("long")
    uses = outcomes.where(F.col("by_key").isNotNull()).select(
        "kind",
        F.col("by_key").alias("key"),
        (unknown if operations is None else none).alias("watched"),
        one.alias("completed"),
    )
    if operations is not None:
        key = F.explode(F.array_distinct("keys")).alias("key")
        watched = operations.select("kind", key, one.alias("watched"), none.alias("completed"))
        uses = watched.unionByName(uses)
    sums = [F.sum(name).alias(name) for name in ("watched", "completed")]
    of_kinds = uses.groupBy("kind", "key").agg(*sums)
    in_total = of_kinds.groupBy("key").agg(*sums)
    labelled = of_kinds.select(F.lit(False).alias("total"), "*").unionByName(
        in_total.select(F.lit(True).alias("total"), F.lit(None).cast("string").alias("kind"), "*")
    )
    used = F.greatest("watched", "completed")
    order = [F.desc("watched"), F.desc("completed"), F.col("key")]
    rank = F.row_number().over(Window.partitionBy(*LABELS).orderBy(*order))
    return (
        labelled.where(used > 1)
        .withColumn("rank", rank)
        .where(F.col("rank") <= max_keys)
        .orderBy(F.desc("total"), "kind", "rank")
    )
