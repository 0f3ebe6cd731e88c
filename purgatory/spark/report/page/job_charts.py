"""The charts of a page about jobs. Pure; any thread may call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from purgatory.spark.report.jobs import job_tables
from purgatory.spark.report.page.charts import Chart, draw_week

if TYPE_CHECKING:
    from purgatory.spark.report.jobs.job_content import JobHour, JobsReport


def by_hour_of_week(
    report: JobsReport, title: str, value: Callable[[JobHour], float], shown: Callable[..., str]
) -> Chart:
    """Draw a field for each hour of the week (UTC) in which jobs were due."""
    fields = [(row.weekday, row.hour, value(row), row.ended) for row in report.hours]
    title = f"{title}, by hour of the week (UTC)"
    return draw_week(title, fields, shown, "job", job_tables.hours(report))
