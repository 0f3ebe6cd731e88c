"""The sections of a page about jobs."""

from collections.abc import Callable
from typing import Final

from purgatory.spark.report.content import JobHour, JobsReport
from purgatory.spark.report.formatting import count, duration, share
from purgatory.spark.report.jobs import job_tables
from purgatory.spark.report.jobs.job_advice import LATE_MS
from purgatory.spark.report.page.charts import draw_week
from purgatory.spark.report.page.html import figure, paragraph, section, table
from purgatory.spark.report.tables import Figure


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
    figures = job_tables.figures(report)
    made = [
        section(title, [table(caption, *cells(report), figures[name]), paragraph(note, "small")])
        for title, caption, name, cells, note in _TABLES
        if name in figures
    ]
    place = 1 + ("job-errors" in figures)
    return [*made[:place], _hours(report, figures["job-hours"]), *made[place:]]


_TABLES: Final = (
    (
        *("Jobs", "Jobs by kind", "job-kinds", job_tables.summary_table),
        (
            "Queue: from the time at which the last attempt was due until a worker began it. Run: "
            "the attempts that did their jobs. At once: how many last attempts ran at the same "
            "time, at most. A retried dead job has ended more than once."
        ),
    ),
    (
        *("Errors of jobs", "Errors", "job-errors", job_tables.error_table),
        (
            "Of each kind the most frequent ones, and reasons of cancellations: the first line of "
            'the last error, with "#" for digits. Failed attempts that another one made good have '
            "none."
        ),
    ),
    (
        *("Workers", "Workers", "job-workers", job_tables.worker_table),
        "A worker is a connection: a process that connects again counts as another one.",
    ),
    (
        *("What a limit would have done", "Limits", "job-limits", job_tables.limit_table),
        (
            "Had no more than so many of a kind run at once (purgatory jobs limit KIND --running "
            "N), with attempts that begin in the same order and take as long: the share that "
            "would have begun later, and by how much. Attempts before the last one are not in the "
            "journal."
        ),
    ),
    (
        *("What a time limit would have done", "Time limits", "job-time-limits"),
        job_tables.time_limit_table,
        (
            "Had attempts been ended after so long (timeout= of a handler): how many jobs would "
            "not have been done by the attempt that did them, and by how much sooner attempts "
            "that failed would have ended."
        ),
    ),
)


def _hours(report: JobsReport, hours: Figure) -> str:

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
