"""The tables of a report about jobs."""

from purgatory.spark.report.content import (
    JobError,
    JobHour,
    JobsReport,
    JobSummary,
    LimitEffect,
    TimeLimitEffect,
    WorkerJobs,
)
from purgatory.spark.report.formatting import NOTHING, count, duration, name, share
from purgatory.spark.report.histograms import QUANTILE_NAMES, QUANTILES
from purgatory.spark.report.tables import Figure, TableCells, labelled, without_empty_columns

_WORKER_LETTERS = 12
#: The names of all figures.
FIGURES = ("job-kinds", "job-errors", "job-workers", "job-limits", "job-time-limits", "job-hours")


def summary_table(report: JobsReport) -> TableCells:
    """Return heads and cells of the kinds."""
    heads = [
        *("kind", "ended", "done", "dead", "cancelled", "attempts", "most", "at once"),
        *("queue p50", "queue p99", "run p50", "run p99"),
    ]
    # A total would repeat its one kind.
    rows = report.summaries[1:] if len(report.summaries) == 2 else report.summaries
    return without_empty_columns(heads, map(_summary_cells, rows))


def _summary_cells(row: JobSummary) -> list[str]:
    queue, run = (values or (None,) * len(QUANTILES) for values in (row.queue_ms, row.run_ms))
    return [
        str(row.kind),
        count(row.ended),
        *(share(part / row.ended) for part in (row.done, row.dead, row.cancelled)),
        *(count(row.attempts), count(row.most_attempts), count(row.peak)),
        *map(duration, (queue[0], queue[2], run[0], run[2])),
    ]


def error_table(report: JobsReport) -> TableCells:
    """Return heads and cells of the errors, the most frequent first."""
    rows = [
        [f"{row.kind}: {name(row.error, 90)}", count(row.dead), count(row.cancelled)]
        for row in report.errors
    ]
    return without_empty_columns(["error", "dead", "cancelled"], rows)


def worker_table(report: JobsReport) -> TableCells:
    """Return heads and cells of the workers."""
    rows = [
        [
            f"{row.kind}: {name(row.worker, _WORKER_LETTERS)}",
            *(count(row.done), count(row.dead)),
            duration(row.run_ms / max(1, row.done + row.dead)),
        ]
        for row in report.workers
    ]
    return without_empty_columns(["worker", "done", "dead", "average run"], rows)


def limit_table(report: JobsReport) -> TableCells:
    """Return heads and cells of the tried limits."""
    rows = [
        [
            f"{row.kind}: {count(row.running)} at once",
            *(share(row.held), duration(row.p99_ms), duration(row.most_ms)),
        ]
        for row in report.limits
    ]
    return ["limit", "held", "later p99", "later, most"], rows


def time_limit_table(report: JobsReport) -> TableCells:
    """Return heads and cells of the tried time limits."""
    rows = [
        [
            f"{row.kind}: {duration(row.limit_ms)}",
            count(row.cut) if row.cut else "none",
            duration(row.saved_ms) if row.saved_ms else NOTHING,
        ]
        for row in report.time_limits
    ]
    return ["time limit", "done jobs that it ends", "failed attempts end sooner, in all"], rows


def figures(report: JobsReport) -> dict[str, Figure]:
    """Return the figures with rows, by name."""
    found = (
        _kinds(report),
        labelled("job-errors", JobError._fields, report.errors),
        labelled("job-workers", WorkerJobs._fields, report.workers),
        labelled("job-limits", LimitEffect._fields, report.limits),
        labelled("job-time-limits", TimeLimitEffect._fields, report.time_limits),
        Figure("job-hours", JobHour._fields, report.hours),
    )
    return {figure.name: figure for figure in found if figure.rows}


def _kinds(report: JobsReport) -> Figure:
    heads = [
        *JobSummary._fields[:7],
        *(f"{what}_{p}_ms" for what in ("queue", "run") for p in QUANTILE_NAMES),
        "peak",
    ]
    none = (None,) * len(QUANTILES)
    rows = [
        (*row[:7], *(row.queue_ms or none), *(row.run_ms or none), row.peak)
        for row in report.summaries
    ]
    return labelled("job-kinds", heads, rows)
