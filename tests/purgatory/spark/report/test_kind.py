"""What a row is about."""

from purgatory.spark.report.kind import Kind


def test_names():
    """All kinds, the others, one without a name, and one with an unprintable name."""
    kinds = (Kind(True, None), Kind(False, None), Kind(False, ""), Kind(False, "a\x00"))
    shown = ["all kinds", "other kinds", "(no kind)", "a\N{REPLACEMENT CHARACTER}"]
    assert [*map(str, kinds)] == shown
