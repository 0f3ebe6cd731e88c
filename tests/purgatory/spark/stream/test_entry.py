"""Where a stream stands, in words."""

from purgatory.spark.stream.entry import CheckpointEntry


def test_a_new_stream_has_no_rows():
    """No row waits, and none was counted."""
    entry = CheckpointEntry()
    assert (entry.batch, entry.pending, entry.kept) == (-1, 0, 0)
    assert not any(entry.counts.values())


def test_a_line_tells_where_a_stream_stands():
    """Also for times that no calendar reaches."""
    assert str(CheckpointEntry()).startswith("batch -1, event time not begun, 0 operations")
    entry = CheckpointEntry(closed_ms=1_767_225_600_007)
    assert "event time 2026-01-01 00:00:00.007+00:00, " in str(entry)
    assert "event time 9223372036854775807 ms" in str(CheckpointEntry(closed_ms=2**63 - 1))
    counts = dict(CheckpointEntry().counts) | {
        "late_events": 2,
        "late_operations": 1,
        "rejected_events": 4,
    }
    assert str(CheckpointEntry(counts=counts)).endswith("0 pending, 3 rows late, 4 rows rejected")
