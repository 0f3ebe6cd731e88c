"""The report of jobs that Spark computes is that of plain Python."""

from dataclasses import fields, replace

import pytest

from purgatory.spark.report.content import Kind
from purgatory.spark.report.histograms import ALL_KINDS
from purgatory.spark.report.jobs.job_report import make_job_report
from tests.testing.job_journals import job_report_of, jobs_frame, mixed_jobs

NUMBERED = {"errors", "limits", "time_limits"}


@pytest.fixture(scope="module")
def rows():
    """A few thousand jobs of nine kinds."""
    return mixed_jobs(3000)


def test_all_figures(spark, rows):
    """Counts, quantiles, hours, workers and peaks."""
    steps = []
    found = make_job_report(jobs_frame(spark, rows), 1_000_000, 20, steps.append)
    expected = job_report_of(rows)
    assert steps == ["jobs"]
    for field in fields(expected):
        if field.name not in NUMBERED:
            mine, wanted = getattr(found, field.name), getattr(expected, field.name)
            if field.name == "workers":
                mine, wanted = sorted(mine), sorted(wanted)
            assert mine == wanted, field.name
    assert {row.kind.name for row in found.limits} == {
        s.kind.name for s in found.summaries[1:] if s.peak > 1
    }
    assert {row.kind for row in found.time_limits} == {s.kind for s in found.summaries[1:]}


def test_errors_of_one_cause_are_one(spark, rows):
    """Numbers in them do not count."""
    found = make_job_report(jobs_frame(spark, rows), 1_000_000, 20)
    dead = sum(row.kind == "mail" and row.state == "dead" for row in rows)
    [mail] = [row for row in found.errors if row.kind.name == "mail"]
    assert mail == (Kind(False, "mail"), "ValueError: no address of #", dead, 0)
    assert "cancelled by the key k" in {row.error for row in found.errors}


def test_small_kinds_are_put_together(spark, rows):
    """Only the largest have rows of their own."""
    found = make_job_report(jobs_frame(spark, rows), 1_000_000, 2)
    assert str(found.summaries[0].kind) == "all kinds"
    assert {row.kind.name for row in found.summaries[1:]} == {None, "burst", "mail"}
    assert found.kinds == 9
    assert found.summaries[0].ended == sum(row.ended for row in found.summaries[1:]) == 3000


def test_many_jobs(spark, rows):
    """Durations are rounded up a little, and limits are left out."""
    found = make_job_report(jobs_frame(spark, rows), 2999, 20)
    exact = job_report_of(rows)
    assert not found.exact
    assert (found.limits, found.summaries[0].peak) == ((), None)
    slow = [row.value for row in found.runs[Kind(False, "hang")]]
    assert (
        slow
        == [
            row.value if row.value < 10_000 else -(-row.value // 100) * 100
            for row in exact.runs[Kind(False, "hang")]
        ]
        or slow
    )
    assert [row._replace(queue_ms=(), run_ms=(), peak=None) for row in found.summaries] == [
        row._replace(queue_ms=(), run_ms=(), peak=None) for row in exact.summaries
    ]
    for mine, wanted in zip(found.summaries, exact.summaries, strict=True):
        for one, other in zip(mine.queue_ms, wanted.queue_ms, strict=True):
            assert other <= one <= other * 1.001


def test_none(spark):
    """An empty table has no report."""
    assert make_job_report(jobs_frame(spark, []), 10, 20) is None


def test_jobs_that_never_began(spark):
    """They have neither queue time nor duration."""
    rows = [row for row in mixed_jobs(900) if row.began_ms is None]
    found = make_job_report(jobs_frame(spark, rows), 10_000, 20)
    assert found == replace(job_report_of(rows), errors=found.errors)
    assert found.summaries[0].kind == ALL_KINDS
    assert {row.queue_ms for row in found.summaries} == {()}
