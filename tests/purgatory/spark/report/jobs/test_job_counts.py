"""What Spark counts of jobs."""

from purgatory.spark.report.jobs import job_counts
from tests.testing.job_journals import HOUR, MONDAY, jobs_frame, make_job


def test_measures(spark):
    """Each job counts once for each measure that it has."""
    due = MONDAY + 25 * HOUR + 7 * 60_000
    rows = [
        make_job(1, due=due, queue=5000, run=12_345, attempts=2),
        make_job(2, due=due, queue=None, state="cancelled", error="cancelled"),
    ]
    counted = job_counts.count_ends(jobs_frame(spark, rows), 1000, exact=False).collect()
    found = {(row.measure, row.value): (row.done, row.dead, row.cancelled) for row in counted}
    assert found == {
        (job_counts.QUEUE, 5000): (1, 0, 0),
        (job_counts.RUN, 12_350): (1, 0, 0),
        (job_counts.ATTEMPTS, 2): (1, 0, 0),
        (job_counts.ATTEMPTS, 0): (0, 0, 1),
        (job_counts.HOUR, 25): (1, 0, 1),
        (job_counts.LATE_HOUR, 25): (1, 0, 0),
        (job_counts.MINUTE, 7): (1, 0, 1),
    }


def test_errors_and_workers(spark):
    """The most frequent first; of an error the first line, without its numbers."""
    rows = [
        *(make_job(n, state="dead", error=f"E {n}\nline", worker="a") for n in range(3)),
        make_job(4, state="dead", error="F", worker="b"),
        make_job(5, state="done", error="G", worker="b"),
        make_job(6, state="cancelled", error="G", queue=None),
    ]
    frame = jobs_frame(spark, rows)
    errors = [
        (row.error, row.dead, row.cancelled) for row in job_counts.count_errors(frame, 2).collect()
    ]
    assert errors == [("E #", 3, 0), ("F", 1, 0)]
    workers = [
        (row.worker, row.done, row.dead, row.run_ms)
        for row in job_counts.count_workers(frame, 5).collect()
    ]
    assert workers == [("a", 0, 3, 30), ("b", 1, 1, 20)]


def test_kinds_and_attempts(spark):
    """All kinds first, then by size; attempts by their beginning."""
    rows = [make_job(1, "b", due=MONDAY + 5), make_job(2, "a"), make_job(3, "b")]
    frame = jobs_frame(spark, rows)
    described = job_counts.describe_kinds(frame, 1).collect()
    assert [(row.total, row.kind, row.ended, row.kinds) for row in described] == [
        (True, None, 3, 2),
        (False, "b", 2, 1),
    ]
    began = [row.began_ms for row in job_counts.attempts_in_order(frame).collect()]
    assert began == [MONDAY, MONDAY, MONDAY + 5]
