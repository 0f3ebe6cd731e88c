"""The tables of jobs."""

from purgatory.spark.report.content import JobsReport, Kind
from purgatory.spark.report.jobs import job_tables
from tests.testing.job_journals import job_report_of, make_job, mixed_jobs


def test_a_row_for_each_kind():
    """Columns without a figure are left out; of one kind the sum is left out."""
    heads, rows = job_tables.summary_table(job_report_of(mixed_jobs(900)))
    assert heads[:5] == ("kind", "ended", "done", "dead", "cancelled")
    assert rows[0][0] == "all kinds"
    assert len(rows) == 10
    heads, rows = job_tables.summary_table(job_report_of([make_job(1, run=15)]))
    assert "dead" not in heads
    assert [row[0] for row in rows] == ["mail"]


def test_data_of_what_there_is():
    """A file for each table with rows."""
    report = job_report_of(mixed_jobs(900))
    figures = job_tables.figures(report)
    assert set(figures) == {"job-kinds", "job-errors", "job-workers", "job-hours"}
    assert figures["job-kinds"].csv().splitlines()[1].startswith("1,,")
    nothing = JobsReport(0, 0, 0, 0, exact=True)
    assert job_tables.figures(nothing) == {}


def test_names_are_printable():
    """Those of kinds, errors and workers."""
    rows = [make_job(1, "a\x00", "dead", error="E\x1b[31m", worker="w" * 40)]
    report = job_report_of(rows)
    assert str(report.summaries[1].kind) == "a\N{REPLACEMENT CHARACTER}"
    for _, cells in (job_tables.error_table(report), job_tables.worker_table(report)):
        [[first, *_]] = cells
        assert first.isprintable()
        assert len(first) < 110
    assert report.summaries[1].kind == Kind(False, "a\x00")
