"""Aggregates of a journal: counts, shares, quantiles, outcomes over time, hot keys.

Each function takes outcomes (or operations) as a DataFrame and returns a DataFrame: no session, no
action. Two columns label the rows of a result: `total`, true in a row about all kinds together
(`kind` is null then), and `kind`, null in a row about the small kinds that `fold_kinds` has put
together. Any thread that may use the DataFrames may call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import COMPLETED, EXPIRED

CANCELLED: Final = "cancelled"
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
# Of `approx_percentile`: the rank is wrong by at most one in so many.
ACCURACY: Final = 100_000
LABELS: Final = ("total", "kind")

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Round widths of bins, in ms.
_WIDTHS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28)),
)


def fold_kinds(rows: DataFrame, kinds: Iterable[str]) -> DataFrame:
    """Replace each kind that is not one of `kinds` by null."""
    known = F.col("kind").isin(list(kinds))
    return rows.withColumn("kind", F.when(known, F.col("kind")))


def count_kinds(rows: DataFrame) -> DataFrame:
    """Count rows by kind: columns `kind, count`, largest first."""
    return rows.groupBy("kind").count().orderBy(F.desc("count"), "kind")


def summarize_kinds(outcomes: DataFrame, *, exact: bool) -> DataFrame:
    """Summarize outcomes by kind and in total, largest first.

    `operations`, `completed`, `expired`, `cancelled`: counts. `mean_waited_ms`: of all operations.
    `waited_ms`, `completed_waited_ms` and `lateness_ms`: arrays with the `QUANTILES` of the waits
    of all operations, of the waits of completed ones, and of the lateness; null if there are none.

    A quantile is the smallest value that at least this share of the values do not exceed (nearest
    rank). `exact`: by sorting; else by `approx_percentile` with `ACCURACY`.
    """
    completed_wait = F.when(F.col("outcome") == COMPLETED, F.col("waited_ms"))
    columns = {
        "waited_ms": F.col("waited_ms"),
        "completed_waited_ms": completed_wait,
        "lateness_ms": F.col("lateness_ms"),
    }
    values = outcomes.select("kind", "outcome", *(c.alias(n) for n, c in columns.items()))
    table = values.rollup("kind").agg(
        F.grouping("kind").cast("boolean").alias("total"),
        F.count("*").alias("operations"),
        *(_count(outcome).alias(outcome) for outcome in (COMPLETED, EXPIRED, CANCELLED)),
        F.avg("waited_ms").alias("mean_waited_ms"),
        *(_quantiles(name, exact).alias(name) for name in columns),
    )
    return table.select(*LABELS, *table.columns[2:]).orderBy(
        F.desc("total"), F.desc("operations"), "kind"
    )


def _count(outcome: str) -> Column:
    return F.count(F.when(F.col("outcome") == outcome, 1))


def _quantiles(name: str, exact: bool) -> Column:
    if not exact:
        return F.percentile_approx(name, list(QUANTILES), ACCURACY)
    each = (f"percentile_disc({q}) WITHIN GROUP (ORDER BY {name})" for q in QUANTILES)
    ranks = F.array(*(F.expr(rank).cast("long") for rank in each))
    return F.when(F.count(name) > 0, ranks)


def bin_width_ms(span_ms: int, max_bins: int = 96) -> int:
    """Return the smallest round width with at most `max_bins` bins.

    Above 28 days, a multiple of 28 days.
    """
    wanted = max(1, -(-span_ms // max_bins))
    return next((w for w in _WIDTHS if w >= wanted), -(-wanted // _WIDTHS[-1]) * _WIDTHS[-1])


def outcomes_over_time(outcomes: DataFrame, width_ms: int) -> DataFrame:
    """Count outcomes by kind and time, without empty bins.

    `start_ms`: start of the bin, a multiple of `width_ms`; `completed`, `expired`, `cancelled`:
    counts.
    """
    start = F.col("at_ms") - F.pmod("at_ms", F.lit(width_ms))
    return (
        outcomes.groupBy("kind", start.alias("start_ms"))
        .agg(*(_count(outcome).alias(outcome) for outcome in (COMPLETED, EXPIRED, CANCELLED)))
        .orderBy("start_ms", "kind")
    )


def hot_keys(outcomes: DataFrame, operations: DataFrame | None, max_keys: int) -> DataFrame:
    """Find the hottest keys by kind and in total, hottest first.

    At most `max_keys` each. `watched`: number of operations that watch the key, null without a
    table of operations; `completed`: number of operations that it completed. The hottest keys are
    those watched most; without operations, those that completed most. Keys that are used only once
    are left out.
    """
    unwatched = F.lit(None if operations is None else 0).cast("long")
    uses = _completing_keys(outcomes, watched=unwatched)
    if operations is not None:
        uses = _watched_keys(operations).unionByName(uses)
    of_kinds = uses.groupBy("kind", "key").agg(
        F.sum("watched").alias("watched"), F.sum("completed").alias("completed")
    )
    in_total = of_kinds.groupBy("key").agg(
        F.sum("watched").alias("watched"), F.sum("completed").alias("completed")
    )
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


def _watched_keys(operations: DataFrame) -> DataFrame:
    key = F.explode(F.array_distinct("keys"))
    one, none = F.lit(1).cast("long"), F.lit(0).cast("long")
    return operations.select(
        "kind", key.alias("key"), one.alias("watched"), none.alias("completed")
    )


def _completing_keys(outcomes: DataFrame, watched: Column) -> DataFrame:
    one = F.lit(1).cast("long")
    return outcomes.where(F.col("by_key").isNotNull()).select(
        "kind", F.col("by_key").alias("key"), watched.alias("watched"), one.alias("completed")
    )
