"""The charts about jobs."""

from purgatory.spark.report.formatting import count
from purgatory.spark.report.page.job_charts import by_hour_of_week
from tests.testing.job_journals import HOUR, MONDAY, job_report_of, make_job


def test_the_hours_of_the_week():
    """A field for each hour with jobs; the text names the one with most."""
    rows = [make_job(n, due=MONDAY + (30 if n else 2) * HOUR) for n in range(3)]
    chart = by_hour_of_week(job_report_of(rows), "Jobs due", lambda row: row.ended, count)
    assert chart.title == "Jobs due, by hour of the week (UTC)"
    assert "Most, 2, on Tue 06:00." in chart.alternative
    assert chart.svg.count('class="box heat"') == 4  # wide and narrow
