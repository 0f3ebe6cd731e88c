"""The rows of a report."""

from purgatory.spark.report.kind import Kind

ALL, OTHERS = Kind(True, None), Kind(False, None)


def test_kinds_have_names():
    """Every kind has a name to show, also the empty one."""
    assert [str(k) for k in (ALL, OTHERS, Kind(False, ""), Kind(False, "a"))] == [
        "all kinds",
        "other kinds",
        "(no kind)",
        "a",
    ]
