"""Computes the report of the jobs of a journal, as rows that fit into memory.

Any thread may call, but a session makes one report at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from purgatory.spark.report.aggregates import fold_kinds
from purgatory.spark.report.content import (
    EndCount,
    EndCounts,
    JobError,
    JobHour,
    JobsReport,
    JobSummary,
    Kind,
    LimitEffect,
    TimeLimitEffect,
    WorkerJobs,
)
from purgatory.spark.report.histograms import ALL_KINDS, QUANTILES, collect, quantiles
from purgatory.spark.report.jobs import concurrency, job_counts, time_limits
from purgatory.spark.report.jobs.concurrency import Interval
from purgatory.spark.report.jobs.job_advice import LATE_MS

#: Of a kind, in rows of their own.
MAX_ERRORS: Final = 5
MAX_WORKERS: Final = 20
_COLUMNS: Final = (
    *("kind", "state", "submitted_ms", "due_ms", "began_ms", "ended_ms"),
    *("attempts", "queue_ms", "run_ms", "worker", "error"),
)

_Counts = Mapping[int, Mapping[Kind, EndCounts]]
"""By measure of `job_counts`, then by kind, the total first."""


def make_job_report(
    jobs: DataFrame,
    exact_rows: int,
    max_kinds: int,
    progress: Callable[[str], object] = lambda _: None,
) -> JobsReport | None:
    """Compute the report of the good rows of a table of jobs; None without rows.

    Of more than `exact_rows` jobs, durations are rounded up, and limits are not tried.
    """
    jobs = jobs.select(*_COLUMNS).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        progress("jobs")
        return _compute(jobs, exact_rows, max_kinds)
    finally:
        jobs.unpersist()


def _compute(jobs: DataFrame, exact_rows: int, max_kinds: int) -> JobsReport | None:
    described = job_counts.describe_kinds(jobs, max_kinds).collect()
    if not described or not described[0]["ended"]:
        return None
    total, *kinds = described
    jobs = fold_kinds(jobs, [row.kind for row in kinds])
    exact = total.ended <= exact_rows
    ends = job_counts.count_ends(jobs, LATE_MS, exact=exact)
    counts: _Counts = collect(ends, EndCount, job_counts.HOUR)
    intervals = _intervals(jobs) if exact else {}
    runs = counts.get(job_counts.RUN, {})
    return JobsReport(
        ended=total.ended,
        kinds=total.kinds,
        first_ms=total.first_ms,
        last_ms=total.last_ms,
        exact=exact,
        summaries=tuple(_summary(counts, kind, intervals) for kind in counts[job_counts.HOUR]),
        errors=tuple(
            JobError(Kind(False, row.kind), row.error, row.dead, row.cancelled)
            for row in job_counts.count_errors(jobs, MAX_ERRORS).collect()
        ),
        workers=tuple(
            WorkerJobs(Kind(False, row.kind), row.worker, row.done, row.dead, row.run_ms)
            for row in job_counts.count_workers(jobs, MAX_WORKERS).collect()
        ),
        hours=tuple(_hours(counts)),
        limits=tuple(_limits(intervals)),
        time_limits=tuple(_time_limits(runs)),
        minutes=counts[job_counts.MINUTE],
        runs=runs,
        attempts=counts[job_counts.ATTEMPTS],
    )


def _summary(counts: _Counts, kind: Kind, intervals: Mapping[Kind, list[Interval]]) -> JobSummary:
    ends = counts[job_counts.HOUR][kind]
    attempts = counts[job_counts.ATTEMPTS][kind]
    queue, run = (counts.get(of, {}).get(kind, ()) for of in (job_counts.QUEUE, job_counts.RUN))
    return JobSummary(
        kind,
        done=sum(row.done for row in ends),
        dead=sum(row.dead for row in ends),
        cancelled=sum(row.cancelled for row in ends),
        begun=sum(row.ended for row in run),
        attempts=sum(row.value * row.ended for row in attempts),
        most_attempts=max(row.value for row in attempts),
        queue_ms=quantiles(queue, attrgetter("ended")),
        run_ms=time_limits.quantiles_of_done(run, QUANTILES),
        peak=concurrency.peak_of(intervals[kind]) if kind in intervals else None,
    )


def _hours(counts: _Counts) -> Iterator[JobHour]:
    late_hours = counts.get(job_counts.LATE_HOUR, {}).get(ALL_KINDS, ())
    late = {row.value: row.ended for row in late_hours}
    for row in counts[job_counts.HOUR][ALL_KINDS]:
        yield JobHour(*divmod(row.value, 24), row.ended, row.dead, late.get(row.value, 0))


def _intervals(jobs: DataFrame) -> dict[Kind, list[Interval]]:
    rows = job_counts.attempts_in_order(jobs).select(
        "kind", "began_ms", F.greatest("began_ms", "ended_ms").alias("ended_ms")
    )
    found: dict[Kind, list[Interval]] = {}
    everything = found[ALL_KINDS] = []
    columns = rows.toArrow().to_pydict()
    for kind, began, ended in zip(*columns.values(), strict=True):
        everything.append((began, ended))
        found.setdefault(Kind(False, kind), []).append((began, ended))
    return found if everything else {}


def _limits(intervals: Mapping[Kind, list[Interval]]) -> Iterator[LimitEffect]:
    for kind, of_kind in intervals.items():
        if not kind.total and kind.name is not None:
            for running in concurrency.limits_to_try(concurrency.peak_of(of_kind)):
                yield concurrency.effect_of_limit(kind, of_kind, running)


def _time_limits(runs: Mapping[Kind, EndCounts]) -> Iterator[TimeLimitEffect]:
    for kind, of_kind in runs.items():
        if not kind.total and kind.name is not None:
            for limit_ms in time_limits.limits_to_try(of_kind):
                yield time_limits.effect_of_time_limit(kind, of_kind, limit_ms)
