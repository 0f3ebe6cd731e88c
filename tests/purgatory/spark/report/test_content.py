"""The rows of a report."""

from purgatory.spark.report.content import EndCount, JobSummary, Kind


def test_kinds_have_names():
    """All kinds, the others, one without a name, and one with an unprintable name."""
    names = {None: "other kinds", "": "(no kind)", "a": "a", "a\x00": "a\N{REPLACEMENT CHARACTER}"}
    assert str(Kind(True, None)) == "all kinds"
    assert {name: str(Kind(False, name)) for name in names} == names


def test_ends_of_jobs_are_summed_up():
    """Whatever the state."""
    assert EndCount(5, 1, 2, 3).ended == 6
    summary = JobSummary(Kind(True, None), 4, 2, 1, 6, 9, 3, (), ())
    assert summary.ended == 7
