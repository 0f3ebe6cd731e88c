"""The sections of a page about jobs."""

from collections.abc import Callable

from purgatory.spark.report.content import JobHour, JobsReport
from purgatory.spark.report.formatting import count, duration, share
from purgatory.spark.report.jobs import job_tables
from purgatory.spark.report.jobs.job_advice import LATE_MS
from purgatory.spark.report.page.charts import draw_week
from purgatory.spark.report.page.html import figure, paragraph, section, table
from purgatory.spark.report.tables import TableCells


def job_cards(report: JobsReport) -> list[tuple[str, str]]:
    """Return important figures with labels."""
    total = report.summaries[0]
    queue, run = (values[2] if values else None for values in (total.queue_ms, total.run_ms))
    return [
        (count(total.ended), "ends of jobs"),
        (share(total.done / total.ended), "done"),
        (count(total.dead), "dead"),
        (duration(queue), "99 % began within"),
        (duration(run), "99 % of the done took at most"),
    ]


def job_sections(report: JobsReport) -> list[str]:
    """Make the sections that the journal has rows for."""
    makers = (_kinds, _errors, _hours, _workers, _limits, _time_limits)
    return [made for maker in makers if (made := maker(report))]


def _kinds(report: JobsReport) -> str:
    note = (
        "Queue: from the time at which the last attempt was due until a worker began it. Run: the "
        "attempts that did their jobs. At once: how many last attempts ran at the same time, at "
        "most. A retried dead job has ended more than once."
    )
    cells = job_tables.summary_table(report)
    return _noted(report, "Jobs", "Jobs by kind", cells, "job-kinds", note)


def _errors(report: JobsReport) -> str:
    if not report.errors:
        return ""
    note = (
        "Of each kind the most frequent ones, and reasons of cancellations: the first line of the "
        'last error, with "#" for digits. Failed attempts that another one made good have none.'
    )
    cells = job_tables.error_table(report)
    return _noted(report, "Errors of jobs", "Errors", cells, "job-errors", note)


def _hours(report: JobsReport) -> str:
    hours = job_tables.figures(report)["job-hours"]

    def draw(title: str, value: Callable[[JobHour], float], shown: Callable[..., str]) -> str:
        title = f"{title}, by hour of the week (UTC)"
        return figure(draw_week(title, hours, value, shown, "job"))

    drawn = [draw("Jobs due", lambda row: row.ended, count)]
    if any(row.late for row in report.hours):
        title = f"Share that began more than {duration(LATE_MS)} after they were due"
        drawn.append(draw(title, lambda row: row.late / row.ended, share))
    if any(row.dead for row in report.hours):
        drawn.append(draw("Share that ended dead", lambda row: row.dead / row.ended, share))
    return section("Jobs by hour of the week", drawn)


def _workers(report: JobsReport) -> str:
    if not report.workers:
        return ""
    note = "A worker is a connection: a process that connects again counts as another one."
    cells = job_tables.worker_table(report)
    return _noted(report, "Workers", "Workers", cells, "job-workers", note)


def _limits(report: JobsReport) -> str:
    if not report.limits:
        return ""
    note = (
        "Had no more than so many of a kind run at once (purgatory jobs limit KIND --running N), "
        "with attempts that begin in the same order and take as long: the share that would have "
        "begun later, and by how much. Attempts before the last one are not in the journal."
    )
    cells = job_tables.limit_table(report)
    return _noted(report, "What a limit would have done", "Limits", cells, "job-limits", note)


def _time_limits(report: JobsReport) -> str:
    if not report.time_limits:
        return ""
    note = (
        "Had attempts been ended after so long (timeout= of a handler): how many jobs would not "
        "have been done by the attempt that did them, and by how much sooner attempts that failed "
        "would have ended."
    )
    title, cells = "What a time limit would have done", job_tables.time_limit_table(report)
    return _noted(report, title, "Time limits", cells, "job-time-limits", note)


def _noted(
    report: JobsReport, title: str, caption: str, cells: TableCells, name: str, note: str
) -> str:
    data = job_tables.figures(report).get(name)
    return section(title, [table(caption, *cells, data), paragraph(note, "small")])
