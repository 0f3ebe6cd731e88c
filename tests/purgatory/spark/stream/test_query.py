"""The stream: the oracle's outcomes, whatever the order of the input and its micro-batches."""

import json
import random
import threading

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from purgatory.spark.errors import CheckpointMismatch, RejectedRows, SparkError
from purgatory.spark.stream.checkpoint import Checkpoint
from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import directory_source
from purgatory.trace import KeyEvent, Operation, read_events, read_operations
from tests.testing.default_file_system import viewfs_as_default
from tests.testing.interrupts import GROUND_FLOOR, PURGATORY, at_every_place, handled_at
from tests.testing.purgatory_harness import HANG
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, same_outcomes

# Several micro-batches each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def feed(tmp_path):
    """Empty directories for the input of a stream."""
    return StreamInput(tmp_path)


def op(name, keys="a", *, at=0, timeout=10, need=1):
    """Make an operation with a key for each letter."""
    return Operation(name, "", at, timeout, tuple(keys), need)


def test_events_that_come_long_before_their_operations_wait_for_them(spark, feed):
    """A source that is behind holds event time back, so that its rows are not late."""
    feed.put("events", [KeyEvent("a", 5), KeyEvent("b", 1_000)])
    feed.put("events", [KeyEvent("c", 2_000)])
    feed.put("operations", [], name="none yet")
    feed.put("operations", [op("o")])
    entry = feed.stream(spark, watermark_ms=0).run(until_end=True)
    assert [(o.op_id, o.at_ms, o.by_key) for o in feed.outcomes()] == [("o", 5, "a")]
    assert entry.counts["late_operations"] == entry.counts["late_events"] == 0


def test_a_signal_handler_that_stops_it(spark, feed):
    """At any place of the waiting thread: the handler waits for no lock that the thread has."""
    stream = feed.stream(spark)

    def scene(place):
        found, folders = [], (threading.__file__, GROUND_FLOOR, PURGATORY)
        stream._stopping.clear()

        def wait():
            found.append(handled_at(place, lambda: stream._stopping.wait(0), stream.stop, folders))

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(HANG)
        assert not waiting.is_alive()
        return found[0]

    at_every_place(scene, 3)


def test_what_is_later_than_the_watermark_is_written_apart_and_counted(spark, feed):
    """A row at the watermark is in time; one before it is written to `late` as it came."""
    feed.put("operations", [op("first", at=1_000), op("waits", "z", at=995, timeout=5_000)])
    feed.put("events", [KeyEvent("x", 1_000)])
    feed.put("operations", [op("in time", "x", at=900, timeout=200), op("late", at=899)])
    feed.put("events", [KeyEvent("z", 899), KeyEvent("a", 1_005)])
    entry = feed.stream(spark, watermark_ms=100).run(until_end=True)
    assert {o.op_id: (o.outcome, o.at_ms) for o in feed.outcomes()} == {
        "first": ("completed", 1_005),
        "in time": ("completed", 1_000),
        "waits": ("expired", 5_995),
    }
    assert (entry.counts["late_operations"], entry.counts["late_events"]) == (1, 1)
    with read_operations(feed.out / "_late" / "operations") as rows:
        assert [row.op_id for row in rows] == ["late"]
    with read_events(feed.out / "_late" / "events") as rows:
        assert list(rows) == [KeyEvent("z", 899)]
    # Readers of the directory skip late rows.
    assert sorted(pd.read_parquet(feed.out)["op_id"]) == ["first", "in time", "waits"]
    assert spark.read.parquet(str(feed.out)).count() == 3


def test_rows_that_break_a_rule_are_written_apart_with_the_reason(spark, feed):
    """Each bad row is written to `rejected` with its file; the good rows count."""
    (feed.path / "operations" / "o.json").write_text(
        '{"op_id": "good", "submitted_ms": 0, "timeout_ms": 9, "keys": ["a"]}\n'
        '{"op_id": "negative", "submitted_ms": 0, "timeout_ms": -1, "keys": ["a"]}\n'
        '{"op_id": "needy", "submitted_ms": 0, "timeout_ms": 9, "keys": ["a"], "need": 2}\n'
        '{"op_id": 5, "submitted_ms": 0, "timeout_ms": 9, "keys": ["a"]}\n'
        "not JSON\n"
    )
    (feed.path / "events" / "e.json").write_text('{"key": "a", "at_ms": 9}\n{"at_ms": 1}\n')
    entry = feed.stream(spark).run(until_end=True)
    assert [(o.op_id, o.at_ms) for o in feed.outcomes()] == [("good", 9)]
    rejected = spark.read.parquet(str(feed.out / "_rejected")).collect()
    assert sorted((row.table, row.file, row.reason.partition(",")[0]) for row in rejected) == [
        ("events", "e.json", "column key: nothing"),
        ("operations", "o.json", "column need: '2'"),
        ("operations", "o.json", "column op_id: '5'"),
        ("operations", "o.json", "column timeout_ms: '-1'"),
        ("operations", "o.json", "the row cannot be taken apart"),
    ]
    assert "not JSON" in {row.row for row in rejected}
    assert (entry.counts["rejected_operations"], entry.counts["rejected_events"]) == (4, 1)


def test_strict_stops_at_a_bad_row_and_the_batch_is_not_committed(spark, feed):
    """The error names the row; without `strict` the same checkpoint continues."""
    feed.put("operations", [op("o")])
    (feed.path / "events" / "e.json").write_text('{"key": "", "at_ms": 1}\n')
    with pytest.raises(RejectedRows, match=r"^e\.json, column key: '', expected non-empty"):
        feed.stream(spark, strict=True).run(until_end=True)
    assert feed.outcomes() == []
    assert feed.stream(spark).run(until_end=True).counts["expired"] == 1


def test_the_order_of_lines_decides_between_keys_of_one_instant(spark, feed):
    """Events of one instant in large JSON files count in the order of files and rows."""
    rng = random.Random(5)
    keys = "abcdefgh"
    operations = [
        op(f"o{n}", rng.sample(keys, 4), at=rng.randrange(100), timeout=60, need=rng.randint(1, 4))
        for n in range(1_000)
    ]
    events = [KeyEvent(rng.choice(keys), rng.randrange(100)) for _ in range(4_000)]
    for table, rows in (("operations", operations), ("events", events)):
        for part in range(2):
            half = len(rows) // 2
            feed.put(table, rows[part * half : (part + 1) * half], suffix=".jsonl")
    feed.stream(spark, files_a_batch=2).run(until_end=True)
    assert expected((operations, events)) == feed.outcomes()


def test_rows_the_same_in_all_columns_have_an_outcome_each(spark, feed):
    """Equal operations have an outcome each; those of one id keep their own keys."""
    operations = [op("o", "ab", need=2), op("o", "ab", need=2), op("o", "bc"), op("o", "d")]
    events = [KeyEvent("a", 1), KeyEvent("b", 2), KeyEvent("c", 0)]
    feed.put("operations", operations)
    feed.put("events", events)
    feed.stream(spark).run(until_end=True)
    assert expected((operations, events)) == feed.outcomes()


def test_a_stream_goes_on_where_it_stopped(spark, feed):
    """Pending operations, found keys and retained events survive; no row is read twice."""
    feed.put("operations", [op("two of three", "abc", need=2, timeout=100), op("more", "x")])
    feed.put("events", [KeyEvent("a", 5), KeyEvent("q", 50)])
    stopped = feed.stream(spark, watermark_ms=0, on_commit=lambda entry: stopped.stop())
    entry = stopped.run()
    assert (entry.batch, entry.closed_ms, entry.pending, entry.kept) == (0, -1, 2, 2)
    feed.put("operations", [op("later", at=60)])
    feed.put("events", [KeyEvent("a", 20), KeyEvent("c", 61)])
    stopped = feed.stream(spark, watermark_ms=0, on_commit=lambda entry: stopped.stop())
    assert stopped.run().pending == 2
    assert [o.op_id for o in feed.outcomes()] == ["more"]
    feed.stream(spark, watermark_ms=0).run(until_end=True)
    assert [(o.op_id, o.outcome, o.at_ms) for o in feed.outcomes()] == [
        ("later", "expired", 70),
        ("more", "expired", 10),
        ("two of three", "completed", 61),
    ]


def test_an_ended_stream_changes_nothing_and_goes_on_after_the_end(spark, feed):
    """Event time is closed up to the last deadline only: later rows are still in time."""
    feed.put("operations", [op("o", timeout=100)])
    feed.put("events", [KeyEvent("q", 50)])
    ended = feed.stream(spark).run(until_end=True)
    again = feed.stream(spark).run(until_end=True)
    assert (ended.closed_ms, ended.counts) == (100, again.counts)
    feed.put("operations", [op("after", at=101, timeout=0), op("before", at=100)])
    last = feed.stream(spark).run(until_end=True)
    assert [o.op_id for o in feed.outcomes()] == ["after", "o"]
    assert last.counts["late_operations"] == 1


def test_once_leaves_what_is_open_pending_for_the_next_run(spark, feed):
    """Runs that are repeated, as by cron, lose no row of the next day as late."""
    feed.put("operations", [op("today", timeout=1_000)])
    feed.put("events", [KeyEvent("q", 50)])
    entry = feed.stream(spark, watermark_ms=0).run(once=True)
    assert (entry.pending, entry.closed_ms, feed.outcomes()) == (1, -1, [])
    feed.put("operations", [op("tomorrow", at=500)])
    feed.put("events", [KeyEvent("a", 600)])
    entry = feed.stream(spark, watermark_ms=0).run(once=True)
    assert [o.op_id for o in feed.outcomes()] == []
    assert feed.stream(spark, watermark_ms=0).run(until_end=True).counts["late_events"] == 0
    assert [(o.op_id, o.at_ms) for o in feed.outcomes()] == [("today", 600), ("tomorrow", 510)]


def test_input_that_was_read_may_be_deleted_or_moved(spark, feed):
    """By Spark, once its outcomes are committed; a run that begins later does not miss it."""
    operations = [op(f"o{n}", at=n) for n in range(3)]
    events = [KeyEvent("a", 0), KeyEvent("a", 1)]
    for number, event in enumerate(events):
        feed.put("operations", operations[number : number + 1])
        feed.put("events", [event])
    old = feed.path / "old"
    options = {
        "operations": {"cleanSource": "delete"},
        "events": {"cleanSource": "archive", "sourceArchiveDir": str(old)},
    }
    feed.stream(spark, source_options=options).run(once=True)
    assert [file.name for file in (feed.path / "operations").iterdir()] == ["0003.parquet"]
    assert [file.name for file in (feed.path / "events").iterdir()] == ["0004.parquet"]
    assert [file.name for file in old.rglob("*.parquet")] == ["0002.parquet"]
    feed.put("operations", operations[2:])
    entry = feed.stream(spark, source_options=options).run(until_end=True)
    assert expected((operations, events)) == feed.outcomes()
    assert entry.counts["late_operations"] == 0


def test_the_number_of_shards_is_that_of_the_first_run(spark, feed):
    """Another one is refused, and what to do is said; by default it is the checkpoint's."""
    feed.put("operations", [op(f"o{n}") for n in range(20)])
    feed.put("events", [KeyEvent("a", 5)])
    feed.stream(spark, shards=3).run(once=True)
    with pytest.raises(SparkError, match=r"has 3 shards, not 6; .* end it with --until-end"):
        feed.stream(spark, shards=6)
    assert feed.stream(spark).run(until_end=True).counts["completed"] == 20
    assert len(feed.outcomes()) == 20


def test_the_state_can_be_read(spark, feed):
    """Spark's reader of states shows what is pending, and the rows of open instants, as JSON."""
    feed.put("operations", [op("o", "ab", need=2, timeout=1_000), op("waits", at=9)])
    feed.put("events", [KeyEvent("a", 5), KeyEvent("q", 9)])
    feed.stream(spark, watermark_ms=0, shards=1).run(once=True)

    def read(variable):
        reader = spark.read.format("statestore").option("stateVarName", variable)
        state = reader.load(str(feed.checkpoint / "spark"))
        (row,) = state.selectExpr("CAST(user_map_value.packed AS STRING) AS json").collect()
        return json.loads(row.json)

    assert read("watchers") == {"b": [[1, "o", "", 0, 1_000, 1, ["b"]]]}
    assert [(row[0], row[4]) for row in read("waiting")] == [(9, "waits"), (9, "q")]


def test_output_on_another_default_file_system(spark, feed):
    """Paths without a scheme are Hadoop's, for Spark and for the commits alike."""
    feed.put("operations", [op("o")])
    feed.put("events", [KeyEvent("a", 5)])
    with viewfs_as_default(spark, "stream", feed.path):
        inputs = [directory_source(spark, f"/data/{name}") for name in ("operations", "events")]
        Stream(spark, *inputs, out="/data/out", checkpoint="/data/checkpoint").run(until_end=True)
    assert [(o.op_id, o.at_ms) for o in feed.outcomes()] == [("o", 5)]


def test_a_deadline_at_the_end_of_time(spark, feed):
    """Deadlines at the end of 64 bits, and the first watermarks of all, do not overflow."""
    feed.put("operations", [op("for ever", timeout=2**63 - 1), op("o", at=-(2**60), timeout=1)])
    feed.put("events", [KeyEvent("q", -(2**60))])
    feed.stream(spark).run(until_end=True)
    assert [(o.op_id, o.at_ms) for o in feed.outcomes()] == [
        ("for ever", 2**63 - 1),
        ("o", 1 - 2**60),
    ]


def test_a_column_that_is_missing_is_named_before_the_stream_starts(spark, feed):
    """A Parquet file without a column is refused at once, and no checkpoint is made."""
    pq.write_table(pq.read_table(_events_file(feed)).drop(["at_ms"]), _events_file(feed))
    with pytest.raises(SparkError, match="not a table of events, it has no column at_ms"):
        feed.stream(spark)
    assert not feed.checkpoint.exists()


def test_a_file_that_cannot_be_read_ends_the_run_and_is_named(spark, feed):
    """A damaged file is not skipped; once it is repaired, the stream continues."""
    feed.put("operations", [op("o")])
    feed.put("operations", [op("p")])
    good = (feed.path / "operations" / "0002.parquet").read_bytes()
    (feed.path / "operations" / "0002.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(SparkError, match=r"0002\.parquet"):
        feed.stream(spark).run(until_end=True)
    (feed.path / "operations" / "0002.parquet").write_bytes(good)
    feed.put("events", [])
    assert feed.stream(spark).run(until_end=True).counts["expired"] == 2


def test_bytes_that_are_not_utf8_do_not_stop_a_stream(spark, feed):
    """Such rows of Parquet are rejected; others have their outcomes, also in a run after it."""
    feed.put("operations", [op("first", "k"), *(op(name) for name in ("o", "p", "q", "é"))])
    file = feed.path / "operations" / "0001.parquet"
    table = pq.read_table(file)
    spoiled = {
        "op_id": [b"first", b"\xe8", b"p", b"q", b"\xc3\xa9"],
        "kind": [b"", b"", b"\xe8", b"", b"\xc3\xa9"],
        "keys": [[b"k"], [b"a"], [b"a"], [b"k\xe8"], [b"k"]],
    }
    for column, values in spoiled.items():
        kind = pa.list_(pa.binary()) if column == "keys" else pa.binary()
        array = pa.array(values, kind).view(table.schema.field(column).type)
        table = table.set_column(table.column_names.index(column), column, array)
    pq.write_table(table, file)
    feed.put("events", [KeyEvent("a", 1), KeyEvent("k\ufffd", 2)])
    assert feed.stream(spark).run(once=True).counts["rejected_operations"] == 3
    feed.put("operations", [op("later", "a", at=1)])
    feed.put("events", [])
    entry = feed.stream(spark).run(until_end=True)
    assert (entry.counts["rejected_operations"], len(feed.outcomes())) == (3, 3)
    rows = spark.read.parquet(f"{feed.out}/_rejected").collect()
    assert sorted(row.reason.partition(":")[0] for row in rows) == [
        f"column {column}" for column in ("keys", "kind", "op_id")
    ]


def test_a_checkpoint_of_other_sources_is_refused(spark, feed):
    """Another output is refused before anything is read, and both are named."""
    feed.put("operations", [op("o")])
    feed.put("events", [])
    feed.stream(spark)
    with pytest.raises(CheckpointMismatch, match=r"whose out is .*/out, not .*/elsewhere"):
        feed.stream(spark, out=str(feed.path / "elsewhere"))
    assert not (feed.path / "elsewhere").exists()


def test_two_runs_at_a_time_do_not_both_write(spark, feed):
    """The newer of two runs continues; the older one raises and publishes nothing."""
    feed.put("operations", [op("o")])
    feed.put("events", [])
    older = feed.stream(spark)
    newer = feed.stream(spark)
    with pytest.raises(SparkError, match="another run has taken over"):
        older.run(until_end=True)
    assert feed.outcomes() == []
    newer.run(until_end=True)
    assert len(feed.outcomes()) == 1


def test_the_flights_in_monthly_files(spark, feed, flights, flights_outcomes):
    """Twelve files of each table, three a batch: 249,716 completed and 78,805 expired."""
    for table, time in (("operations", "submitted_ms"), ("events", "at_ms")):
        rows = pq.read_table(flights / f"{table}.parquet")
        at = pc.cast(rows[time], pa.timestamp("ms"))
        # Rows of the new year belong to December's file.
        month = pc.if_else(pc.greater(pc.year(at), 2013), 12, pc.month(at))
        for number in range(1, 13):
            part = feed.path / f"{table}-{number}.parquet"
            pq.write_table(rows.filter(pc.equal(month, number)), part)
            feed.adopt(table, part)
    commits = []
    entry = feed.stream(spark, files_a_batch=3, on_commit=commits.append).run(until_end=True)
    assert (entry.counts["completed"], entry.counts["expired"]) == (249_716, 78_805)
    assert len(commits) == 4 + 1
    assert same_outcomes(flights_outcomes, feed.out)


def _events_file(feed):
    feed.put("operations", [op("o")])
    feed.put("events", [KeyEvent("a", 1)], name="e")
    return feed.path / "events" / "e.parquet"


@pytest.mark.parametrize(
    ("argument", "error", "words"),
    [
        ({"shards": 0}, ValueError, "shards is 0; expected 1 or more"),
        ({"shards": -2}, ValueError, "shards is -2; expected 1 or more"),
        ({"shards": True}, TypeError, "shards is True; expected an integer"),
        ({"shards": 1.5}, TypeError, r"shards is 1\.5; expected an integer"),
        ({"watermark_ms": -1}, ValueError, "watermark_ms is -1; expected 0 or more"),
        ({"watermark_ms": 0.5}, TypeError, r"watermark_ms is 0\.5; expected an integer"),
        ({"watermark_ms": float("nan")}, TypeError, "watermark_ms is nan; expected an integer"),
        ({"idle_seconds": -1}, ValueError, "idle_seconds is -1; expected a finite number"),
        ({"idle_seconds": float("nan")}, ValueError, "idle_seconds is nan; expected a finite"),
        ({"idle_seconds": "x"}, TypeError, "idle_seconds is 'x'; expected a number or None"),
        ({"on_commit": 5}, TypeError, "on_commit is 5; expected a function or None"),
        ({"name": None}, TypeError, "name is None; expected a text"),
    ],
)
def test_bad_arguments_are_named_before_a_checkpoint_is_made(
    spark, feed, monkeypatch, argument, error, words
):
    """No directory is begun with them, which a correct run would then have to fit."""
    monkeypatch.setattr(Checkpoint, "begin", lambda *_: pytest.fail("begun"))
    with pytest.raises(error, match=words):
        feed.stream(spark, **argument)
    assert not feed.checkpoint.exists()
    assert not feed.out.exists()


def test_the_least_arguments(spark, feed):
    """One shard, events in order, and sources that are idle at once."""
    assert feed.stream(spark, shards=1, watermark_ms=0, idle_seconds=0)
