"""Rows that advance event time without input: their files go once they are in the state."""

from collections import Counter
from types import SimpleNamespace

import pytest

from purgatory.spark.errors import RejectedRows
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream.event_time import ControlSource, IdleClock
from purgatory.spark.stream.packing import CLOSE, REACHED
from purgatory.spark.stream.shard import compute_closed_ms
from purgatory.trace import KeyEvent, Operation
from tests.testing.stream_input import StreamInput

# Several micro-batches each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def feed(tmp_path):
    """An operation that waits for long, one that does not, and an event of another key."""
    feed = StreamInput(tmp_path)
    rows = [Operation("o", "", 0, 10**6, ("a",)), Operation("p", "", 0, 100, ("a",))]
    feed.put("operations", rows)
    feed.put("events", [KeyEvent("q", 50)])
    return feed


def control_files(feed):
    """Return the names of the files that advance event time without input."""
    return {file.name for file in (feed.checkpoint / "control").glob("*.jsonl")}


def test_an_idle_source_goes_on_with_the_clock(spark, feed):
    """Without more rows a timeout is told, after so long as rows came before it.

    The files that advance time are deleted while the stream runs, two micro-batches later; those
    of a run that ended, by the next.
    """
    seen = []

    def look(entry):
        seen.append(control_files(feed))
        if entry.batch == 3:
            stream.stop()

    stream = feed.stream(spark, watermark_ms=0, idle_seconds=0.5, on_commit=look)
    assert stream.run(trigger_seconds=0.1).pending == 1
    assert [(o.op_id, o.outcome, o.at_ms) for o in feed.outcomes()] == [("p", "expired", 100)]
    assert seen[1]
    assert not seen[1] & seen[3]
    assert feed.stream(spark, watermark_ms=0).run(once=True).closed_ms >= 100
    feed.stream(spark)
    assert not control_files(feed)


def test_where_an_idle_source_is():
    """Where the others are, plus the time since a row of any came; once in `idle_seconds`."""
    added = []
    entry = SimpleNamespace(
        newest_ms={"operations": 500, "events": 900}, counts=Counter(operations=1), pending=1
    )
    tables = ["operations", "events"]
    control = SimpleNamespace(add=added.append)
    clock, never = (IdleClock(control, tables, seconds) for seconds in (10, None))
    start = clock._next

    def reached(after, **counts):
        entry.counts.update(counts)
        for each in (clock, never):
            each.tick(entry, start + after)
        rows = added.pop() if added else []
        return {row["table"].removeprefix(REACHED): row["time_ms"] for row in rows}

    assert reached(0) == {}
    assert reached(9.9) == {}
    entry.newest_ms["events"] = 1000
    assert reached(10, events=1) == {"operations": 1000}
    assert reached(19.9) == {}
    assert reached(20) == {"operations": 11_000, "events": 11_000}
    assert reached(30, late_events=1) == {"operations": 1000}
    entry.pending = 0  # nothing waits for the time
    assert reached(45) == {}
    entry.pending = 1
    assert reached(45.5) == {"operations": 16_500, "events": 16_500}
    entry.newest_ms.clear()
    assert reached(60) == {}


@pytest.mark.parametrize(
    ("idle_seconds", "watermark_ms", "late_after"), [(10, 1000, 10.5), (3, 8000, 11)]
)
def test_after_which_outage_rows_are_late(idle_seconds, watermark_ms, late_after):
    """None as short as the longer of the two makes a row late; one shorter than their sum may."""
    added = []
    entry = SimpleNamespace(newest_ms={"events": 0}, counts=Counter(events=1), pending=1)
    control = SimpleNamespace(add=added.append)
    clock = IdleClock(control, ["events"], idle_seconds)
    start = clock._next
    clock.tick(entry, start)

    def is_late_after(outage):
        clock.tick(entry, start + outage)
        reached = max((row["time_ms"] for rows in added for row in rows), default=0)
        return compute_closed_ms({"events": reached}, ["events"], watermark_ms, -(10**9)) >= 1

    longer = max(idle_seconds, watermark_ms / 1000)
    assert not any(is_late_after(second / 2) for second in range(int(longer * 2)))
    assert is_late_after(late_after)


def test_a_planned_micro_batch_keeps_its_files(spark, feed):
    """Spark has planned it but not committed: its file is read again, and not before deleted."""
    feed.stream(spark).run(once=True)
    (feed.path / "events" / "0003.json").write_text("{}\n")
    (feed.path / "events" / "0002.parquet").rename(feed.path / "read already")
    ControlSource(LocalFileSystem(), str(feed.checkpoint / "control")).add(
        [{"table": CLOSE, "time_ms": 10**6}]
    )
    with pytest.raises(RejectedRows):
        feed.stream(spark, strict=True).run(once=True)
    stream = feed.stream(spark)
    assert len(control_files(feed)) == 1
    assert stream.run(once=True).closed_ms == 10**6
    assert [(o.op_id, o.at_ms) for o in feed.outcomes()] == [("o", 10**6), ("p", 100)]
