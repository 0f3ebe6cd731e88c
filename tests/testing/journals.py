"""Small journals for the tests of aggregates, reports and wheel tuning."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from purgatory.spark.report import curves
from purgatory.spark.report.content import Finding, Kind, KindSummary, Report, ValueCount
from purgatory.spark.report.findings import find
from purgatory.spark.report.histograms import ALL_KINDS, quantiles
from purgatory.spark.tables.schema import OPERATIONS, OUTCOMES
from purgatory.trace import Operation, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def make_outcome(
    number: int,
    start: int,
    timeout: int,
    end: int | None = None,
    *,
    kind: str = "",
    outcome: str = "completed",
    key: str | None = "k",
    late: int = 0,
) -> Outcome:
    """Make an outcome that ended at `end`: completed by default; expired if `end` is None."""
    at = start + timeout if end is None else end
    result = "expired" if end is None else outcome
    by_key = key if result == "completed" else None
    deadline = start + timeout
    return Outcome(f"o{number}", kind, result, at, by_key, start, deadline, at - start, late)


def random_outcomes(seed: int, count: int) -> list[Outcome]:
    """Make outcomes of four kinds, one of them rare, with ties and all three outcomes."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        start, timeout = rng.randrange(1000), rng.choice([0, 5, 20, 40])
        end = rng.choice([None, start + rng.randint(0, timeout), start + timeout])
        rows.append(
            make_outcome(
                number,
                start,
                timeout,
                end,
                kind=rng.choice(["a", "a", "b", ""]) if number else "rare",
                outcome=rng.choice(["completed", "completed", "cancelled"]),
                key=rng.choice(["k1", "k2", "k3", None]),
                late=rng.choice([0, 0, 7]),
            )
        )
    return rows


def outcomes_frame(spark: SparkSession, rows: Iterable[Outcome]) -> DataFrame:
    """Return outcomes as a DataFrame."""
    return spark.createDataFrame([tuple(row) for row in rows], OUTCOMES)


def operations_frame(spark: SparkSession, rows: Iterable[Operation]) -> DataFrame:
    """Return operations as a DataFrame."""
    return spark.createDataFrame([(*row[:4], list(row.keys), row.need) for row in rows], OPERATIONS)


def waits_of(rows: Iterable[Outcome]) -> list[ValueCount]:
    """Return the histogram of the waits of outcomes."""
    return _histogram((row.waited_ms, row.outcome) for row in rows)


def _histogram(pairs: Iterable[tuple[int, str]]) -> list[ValueCount]:
    counts = Counter(pairs)
    return [
        ValueCount(value, *(counts[value, outcome] for outcome in ValueCount._fields[1:]))
        for value in sorted({value for value, _ in counts})
    ]


def report_of(rows: Iterable[Outcome]) -> Report:
    """Return the summaries, curves and suggestions of outcomes, computed without Spark."""
    rows = list(rows)
    of_kinds: dict[Kind, list[Outcome]] = {ALL_KINDS: rows}
    for row in rows:
        of_kinds.setdefault(Kind(False, row.kind), []).append(row)
    kind_curves = {k: curves.completion_curve(k, waits_of(of)) for k, of in of_kinds.items()}
    summaries = tuple(_summary(kind, of, kind_curves[kind]) for kind, of in of_kinds.items())
    return Report(
        operations=len(rows),
        kinds=len(of_kinds) - 1,
        first_ms=min(row.submitted_ms for row in rows),
        last_ms=max(row.at_ms for row in rows),
        exact=True,
        bin_ms=1,
        summaries=summaries,
        curves=kind_curves,
    )


def _summary(kind: Kind, rows: list[Outcome], curve: curves.Curve) -> KindSummary:
    timeouts = _histogram((row.deadline_ms - row.submitted_ms, row.outcome) for row in rows)
    shortest, median, longest = quantiles(timeouts, lambda row: row.ended, (0, 0.5, 1))
    ends = Counter(row.outcome for row in rows)
    return KindSummary(
        kind,
        None,
        len(rows),
        ends["completed"],
        ends["failed"],
        ends["expired"],
        ends["cancelled"],
        timeouts_ms=(shortest, median, longest),
        now=curves.at_timeouts(curve, timeouts, median),
        completed_waited_ms=quantiles(waits_of(rows), lambda row: row.completed),
        lateness_ms=quantiles(
            _histogram((row.lateness_ms, row.outcome) for row in rows), lambda row: row.expired
        ),
        distinct_timeouts=len({row.deadline_ms - row.submitted_ms for row in rows}),
    )


def finding_of(rows: Iterable[Outcome]) -> Finding | None:
    """Return what to do with the timeouts of outcomes, all kinds together."""
    rows = list(rows)
    report = report_of(rows)
    return find(report.summaries[0], report.curves[ALL_KINDS], waits_of(rows))
