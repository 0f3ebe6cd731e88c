"""Computes the report of a journal by a few Spark jobs.

Any thread may call, but a session makes one report at a time. A `Report` is immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel

from purgatory.spark.report import aggregates, curves, wheel_tuning
from purgatory.spark.report.comparison import compare_reports
from purgatory.spark.report.content import (
    Bin,
    Finding,
    HotKey,
    Kind,
    KindSummary,
    Report,
    Suggestion,
    ValueCount,
    WeekHour,
    WheelRow,
)
from purgatory.spark.report.findings import find, weight
from purgatory.spark.report.histograms import ALL_KINDS, Histogram, bin_width_ms, collect, quantiles
from purgatory.spark.report.jobs.job_report import make_job_report
from purgatory.spark.report.wheel_buckets import WheelSize
from purgatory.spark.tables import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Of more outcomes quantiles and curves are rounded, see `aggregates.DIGITS`.
EXACT_ROWS: Final = 1_000_000
DEFAULT_SHARES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
# The rest of the kinds share a row.
MAX_KINDS: Final = 20
MAX_KEYS: Final = 10

_Histograms = Mapping[int, Mapping[Kind, Histogram]]
"""By measure of `aggregates`, then by kind, the total first."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report; without `wheels` none are compared.

    Raises ValueError for impossible shares and wheels.
    """

    shares: Sequence[float] = DEFAULT_SHARES
    wheels: Sequence[WheelSize] = field(default_factory=wheel_tuning.wheel_sizes)
    exact_rows: int = EXACT_ROWS
    max_kinds: int = MAX_KINDS
    max_keys: int = MAX_KEYS

    def __post_init__(self) -> None:
        curves.check_shares(self.shares)
        if self.wheels:
            wheel_tuning.check_candidates(self.wheels)


def make_report(
    outcomes: DataFrame,
    operations: DataFrame | None = None,
    options: ReportOptions | None = None,
    progress: Callable[[str], object] = lambda _: None,
    *,
    against: Report | None = None,
    jobs: DataFrame | None = None,
    is_server: bool = False,
) -> Report:
    """Compute the report of checked tables.

    Calls `progress` with the name of each step. Without `operations`, the numbers submitted and of
    watchers are None. `against`: the report of an earlier period, to compare with. `is_server`: see
    `Report`.
    """
    options = options or ReportOptions()
    of_jobs = None
    if jobs is not None:
        of_jobs = make_job_report(jobs, options.exact_rows, options.max_kinds, progress)
    with ExitStack() as stack:
        progress("reading the rows")
        outcomes = _persist(stack, outcomes, _OUTCOME_COLUMNS)
        if operations is not None:
            operations = _persist(stack, operations, _OPERATION_COLUMNS)
        if is_server:  # its wheel is no setting
            options = replace(options, wheels=())
        report = _compute_report(outcomes, operations, options, progress)
    report = replace(report, jobs=of_jobs, is_server=is_server)
    if against is None:
        return report
    return replace(report, changes=tuple(compare_reports(report, against)))


_OUTCOME_COLUMNS: Final = [name for name in schema.OUTCOMES.names if name != "op_id"]
_OPERATION_COLUMNS: Final = ["kind", "keys"]


def _persist(stack: ExitStack, table: DataFrame, columns: list[str]) -> DataFrame:
    """Cache the needed columns: the checks of rows are expensive."""
    needed = table.select(*columns).persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(needed.unpersist)
    return needed


def _compute_report(
    outcomes: DataFrame,
    operations: DataFrame | None,
    options: ReportOptions,
    progress: Callable[[str], object],
) -> Report:
    described = aggregates.describe_kinds(outcomes, options.max_kinds).collect()
    if not described or not described[0]["operations"]:
        return Report(0, 0, 0, 0, exact=True, bin_ms=1)
    total, *kinds = described
    names = [row.kind for row in kinds]
    outcomes = aggregates.fold_kinds(outcomes, names)
    operations = None if operations is None else aggregates.fold_kinds(operations, names)
    exact = total.operations <= options.exact_rows
    bin_ms = bin_width_ms(total.last_ms - total.first_end_ms + 1)
    progress("waits, timeouts and times")
    counts = aggregates.count_values(outcomes, operations, bin_ms, exact=exact)
    histograms: _Histograms = collect(counts, ValueCount, aggregates.WAIT)
    progress("hot keys")
    hot_keys = aggregates.hot_keys(outcomes, operations, options.max_keys).collect()
    kind_curves = {
        kind: curves.completion_curve(kind, waits)
        for kind, waits in histograms[aggregates.WAIT].items()
    }
    summaries = tuple(
        _summary(histograms, curve, submitted_known=operations is not None)
        for curve in kind_curves.values()
    )
    return Report(
        operations=total.operations,
        kinds=total.kinds,
        first_ms=total.first_ms,
        last_ms=total.last_ms,
        exact=exact,
        bin_ms=bin_ms,
        summaries=summaries,
        findings=_findings(summaries, kind_curves, histograms[aggregates.WAIT]),
        bins=_bins(histograms[aggregates.END]),
        week=tuple(
            WeekHour(*divmod(row.value, 24), row.ended, row.expired)
            for row in histograms[aggregates.WEEK_HOUR][ALL_KINDS]
        ),
        hot_keys=tuple(
            HotKey(Kind(row.total, row.kind), row.key, row.watched, row.completed)
            for row in hot_keys
        ),
        suggestions=tuple(_suggestions(kind_curves, options.shares)),
        curves={kind: curves.thin_curve(curve) for kind, curve in kind_curves.items()},
        wheels=_wheels(outcomes, histograms, options, progress, exact=exact),
    )


def _wheels(
    outcomes: DataFrame,
    histograms: _Histograms,
    options: ReportOptions,
    progress: Callable[[str], object],
    *,
    exact: bool,
) -> tuple[WheelRow, ...]:
    if not options.wheels:
        return ()
    progress("wheels")
    longest_ms = histograms[aggregates.TIMEOUT][ALL_KINDS][-1].value
    rows = wheel_tuning.compare_wheels(outcomes, options.wheels, longest_ms, in_memory=exact)
    return tuple(rows)


def _summary(histograms: _Histograms, curve: curves.Curve, *, submitted_known: bool) -> KindSummary:
    kind = curve[0].kind
    waits, timeouts = (histograms[n][kind] for n in (aggregates.WAIT, aggregates.TIMEOUT))
    sums = [sum(counts) for counts in zip(*(row[1:] for row in waits), strict=True)]
    completed, failed, expired, cancelled = sums
    submitted = histograms.get(aggregates.SUBMITTED, {}).get(kind, ())
    shortest, median, longest = quantiles(timeouts, _ended, (0, 0.5, 1))
    return KindSummary(
        kind,
        sum(row.completed for row in submitted) if submitted_known else None,
        sum(sums),
        completed,
        failed,
        expired,
        cancelled,
        timeouts_ms=(shortest, median, longest),
        now=curves.at_timeouts(curve, timeouts, median),
        completed_waited_ms=quantiles(waits, _completed),
        lateness_ms=quantiles(histograms[aggregates.LATENESS][kind], attrgetter("expired")),
        distinct_timeouts=len(timeouts),
    )


_ended: Final = attrgetter("ended")
_completed: Final = attrgetter("completed")


def _findings(
    summaries: Sequence[KindSummary],
    kind_curves: Mapping[Kind, curves.Curve],
    waits: Mapping[Kind, Histogram],
) -> tuple[Finding, ...]:
    of_kinds = (
        find(row, kind_curves[row.kind], waits[row.kind]) for row in summaries if not row.kind.total
    )
    found = (finding for finding in of_kinds if finding is not None)
    return tuple(sorted(found, key=weight, reverse=True))


def _bins(ends: Mapping[Kind, Histogram]) -> tuple[Bin, ...]:
    rows = [Bin(kind, *row) for kind, of in ends.items() if not kind.total for row in of]
    return tuple(sorted(rows, key=attrgetter("start_ms")))


def _suggestions(
    kind_curves: Mapping[Kind, curves.Curve], shares: Sequence[float]
) -> Iterator[Suggestion]:
    for kind, curve in kind_curves.items():
        for share in sorted(set(map(float, shares))):
            yield Suggestion(kind, share, curves.shortest_timeout(curve, share))
