"""Figures of a journal: counts and shares, quantiles, ends over time, hot keys.

Each function takes outcomes (or operations) as a DataFrame and returns a DataFrame: no session, no
action. Rows of results are labelled by two columns: `total`, true where a row is about all kinds
together (`kind` is null then), and `kind`, null where `fold_kinds` put a small kind among the
others. Any thread that may use the DataFrames may call them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import COMPLETED, EXPIRED

CANCELLED: Final = "cancelled"
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
# Of `approx_percentile`: at most one rank in so many is wrong.
ACCURACY: Final = 100_000
LABELS: Final = ("total", "kind")

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Widths of bins that people count in, in ms.
_WIDTHS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28)),
)


def fold_kinds(rows: DataFrame, kinds: Iterable[str]) -> DataFrame:
    """The same rows, with null for a kind that is not one of `kinds`."""
    known = F.col("kind").isin(list(kinds))
    return rows.withColumn("kind", F.when(known, F.col("kind")))


def count_kinds(rows: DataFrame) -> DataFrame:
    """Rows of any table with a kind to `kind, count`, largest first."""
    return rows.groupBy("kind").count().orderBy(F.desc("count"), "kind")


def summarize_kinds(outcomes: DataFrame, *, exact: bool) -> DataFrame:
    """Outcomes to a row a kind and one in total, largest first.

    `operations`, `completed`, `expired`, `cancelled`: how many. `mean_waited_ms`: of all.
    `waited_ms`, `completed_waited_ms` and `lateness_ms`: arrays with the `QUANTILES` of the
    waits of all, of those completed, and of the lateness; null where there are none.

    A quantile is the smallest value that at least this share of all do not exceed (nearest rank).
    `exact`: by sorting; else by `approx_percentile` with `ACCURACY`.
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
    """The smallest width that people count in which cuts `span_ms` into `max_bins` or fewer.

    Beyond 28 days: whole multiples of that.
    """
    wanted = max(1, -(-span_ms // max_bins))
    return next((w for w in _WIDTHS if w >= wanted), -(-wanted // _WIDTHS[-1]) * _WIDTHS[-1])


def outcomes_over_time(outcomes: DataFrame, width_ms: int) -> DataFrame:
    """Outcomes to how many ended when, a row a bin and kind; those without an end have no row.

    `start_ms` of the bin, a multiple of `width_ms`; `completed`, `expired`, `cancelled`.
    """
    start = F.col("at_ms") - F.pmod("at_ms", F.lit(width_ms))
    return (
        outcomes.groupBy("kind", start.alias("start_ms"))
        .agg(*(_count(outcome).alias(outcome) for outcome in (COMPLETED, EXPIRED, CANCELLED)))
        .orderBy("start_ms", "kind")
    )


def hot_keys(outcomes: DataFrame, operations: DataFrame | None, max_keys: int) -> DataFrame:
    """The `max_keys` hottest keys in total and of each kind, hottest first.

    `watched`: operations that have the key, null without a table of operations; `completed`:
    operations that it completed. The hottest are those watched most, without operations those that
    completed most. A key used once only is not hot, and left out.
    """
    nobody = F.lit(None if operations is None else 0).cast("long")
    uses = _completing_keys(outcomes, watched=nobody)
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
