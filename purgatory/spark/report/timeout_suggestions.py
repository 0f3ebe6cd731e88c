"""Suggests timeouts: the shortest one for a wanted share of completions.

An operation that expired after 5 s shows that it takes longer than 5 s, not how long. Survival
analysis deals with such *censored* waits; the estimate here is Kaplan's and Meier's (1958), which
counts each operation for as long as it was watched. If all operations of a kind have the same
timeout, it is simply the share completed in time. If timeouts differ, or some operations were
cancelled, operations with a short timeout do not count as failures of a longer one.

The estimate assumes that operations with short timeouts would complete like those with long ones.

Transformations without a session: any thread that may use the DataFrame may call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.report.aggregates import LABELS
from purgatory.spark.tables.schema import COMPLETED

# Rounded waits keep so many digits, as those of a replay do.
DIGITS: Final = 4
# Shares are sums of fractions, so a wanted share counts as reached this little below it.
_EPSILON: Final = 1e-12
_COLUMNS: Final = ("timeout_ms", "share", "mean_wait_ms", "watched")


def completion_curve(outcomes: DataFrame, *, exact: bool) -> DataFrame:
    """Estimate what each timeout would achieve, by kind and in total.

    The result has a row for each `timeout_ms` that is the wait of some operation: `share` of
    operations that complete by then, 0 to 1; `mean_wait_ms`, the average wait of an operation,
    completed or expired; `watched`, the number of operations that waited so long. Unless `exact`,
    waits of 10 s and more are rounded up to four digits, which keeps the curve short.
    """
    counts = _counts(outcomes, exact)
    steps = counts.withColumn("survive", _survive())
    by_wait = Window.partitionBy(*LABELS).orderBy("timeout_ms")
    so_far = by_wait.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = F.lag("left", 1, 1.0).over(by_wait)
    wait = F.col("timeout_ms") - F.lag("timeout_ms", 1, 0).over(by_wait)
    return (
        steps.withColumn("left", F.exp(F.sum(F.col("survive")).over(so_far)))
        .withColumn("area", before * wait)
        .select(
            *LABELS,
            "timeout_ms",
            (1 - F.col("left")).alias("share"),
            F.sum("area").over(so_far).alias("mean_wait_ms"),
            "watched",
        )
    )


def check_shares(shares: Sequence[float]) -> None:
    """Raise ValueError for no shares, and for one outside (0, 1]."""
    if not shares:
        raise ValueError("no shares; expected at least one")
    for share in shares:
        if not 0 < share <= 1:
            raise ValueError(f"share is {share!r}; expected more than 0 and at most 1")


def suggest_timeouts(curve: DataFrame, shares: Sequence[float]) -> DataFrame:
    """Find the shortest timeout on a curve for each of `shares`.

    Columns: `wanted` and those of the curve. A share that no known timeout reaches has no row.
    Raises what `check_shares` raises.
    """
    check_shares(shares)
    wanted = F.explode(F.array(*(F.lit(float(share)) for share in sorted(set(shares)))))
    return (
        curve.select("*", wanted.alias("wanted"))
        .where(F.col("share") >= F.col("wanted") - _EPSILON)
        .groupBy(*LABELS, "wanted")
        .agg(F.min(F.struct(*_COLUMNS)).alias("point"))
        .select(*LABELS, "wanted", "point.*")
        .orderBy(F.desc("total"), "kind", "wanted")
    )


def thin_curve(curve: DataFrame) -> DataFrame:
    """Reduce a curve to a few hundred points, enough for a chart."""
    # No gap above a percent in the share, or above a tenth in the timeout.
    percent = F.round(100 * F.col("share"))
    decade = F.round(24 * F.log10(F.col("timeout_ms") + 1))
    return (
        curve.groupBy(*LABELS, percent.alias("percent"), decade.alias("decade"))
        .agg(F.max(F.struct(*_COLUMNS)).alias("point"))
        .select(*LABELS, "point.*")
        .orderBy(F.desc("total"), "kind", "timeout_ms")
    )


def _counts(outcomes: DataFrame, exact: bool) -> DataFrame:
    """Count the operations completed at each wait, and watched until then."""
    wait = F.col("waited_ms") if exact else _rounded_up(F.col("waited_ms"))
    completed = F.count(F.when(F.col("outcome") == COMPLETED, 1))
    of_kinds = (
        outcomes.groupBy("kind", wait.alias("timeout_ms"))
        .agg(F.count("*").alias("ended"), completed.alias("completed"))
        .select(F.lit(False).alias("total"), "*")
    )
    in_total = of_kinds.groupBy("timeout_ms").agg(
        F.sum("ended").alias("ended"), F.sum("completed").alias("completed")
    )
    no_kind = F.lit(None).cast("string").alias("kind")
    labelled = of_kinds.unionByName(in_total.select(F.lit(True).alias("total"), no_kind, "*"))
    from_here = (
        Window.partitionBy(*LABELS)
        .orderBy("timeout_ms")
        .rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    return labelled.withColumn("watched", F.sum("ended").over(from_here))


def _survive() -> Column:
    """Return the logarithm of the share not completed at a wait."""
    all_complete = F.col("completed") == F.col("watched")
    share = F.col("completed") / F.col("watched")
    return F.when(all_complete, F.lit(float("-inf"))).otherwise(F.log1p(-share))


def _rounded_up(wait: Column) -> Column:
    """Round up to `DIGITS` digits, so that the timeout still reaches its share."""
    digits = F.length(wait.cast("string"))
    unit = F.pow(F.lit(10.0), F.greatest(F.lit(0), digits - DIGITS)).cast("long")
    return wait + F.pmod(-wait, unit)
