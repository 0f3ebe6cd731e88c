"""The records of a report about jobs."""

from purgatory.spark.report.jobs.job_content import EndCount, JobSummary
from purgatory.spark.report.kind import Kind


def test_ends_are_summed_up():
    """Whatever the state."""
    assert EndCount(5, 1, 2, 3).ended == 6
    summary = JobSummary(Kind(True, None), 4, 2, 1, 6, 9, 3, (), ())
    assert summary.ended == 7
