"""ParquetSink: writes each committed row exactly once, over any number of restarts."""

import os
import shutil
import threading

import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory import JournalError
from purgatory.journal import writer as journal_writer
from purgatory.journal.files import WritePace
from purgatory.service.server.journal import parquet_sink
from purgatory.service.server.journal.parquet_sink import ParquetSink, _numbered
from purgatory.service.store.rows import JournalPosition
from tests.testing.journal_rows import JournalJob, JournalOperation, JournalOutcome
from tests.testing.purgatory_harness import HANG

DAY = 86_400_000


def operation(number):
    """Return the row of an operation."""
    return JournalOperation(number, f"op{number}", "order", number * DAY // 3, 500, ("k", "l"), 2)


def outcome(seq):
    """Return the row of an outcome, of the operation of the same number."""
    at = seq * DAY // 3
    return JournalOutcome(seq, f"op{seq}", "order", "expired", at + 500, None, at, at + 500, 500, 3)


def ids(directory, table):
    """Return the operation ids of all rows on disk, in order of their numbers."""
    found = pyarrow.dataset.dataset(directory / table, format="parquet", partitioning="hive")
    names = found.to_table().column("op_id").to_pylist() if found.files else []
    return sorted(names, key=lambda name: int(name[2:]))


class SinkRun:
    """A sink from its start to its close, and what it has confirmed."""

    def __init__(self, directory, source="db1"):
        self.confirmed = []
        self.has_confirmed = threading.Event()
        self.journal = ParquetSink(directory, seconds=1e6)
        self.position = self.journal.start(source, self.confirm)

    def confirm(self, position):
        self.confirmed.append(position)
        self.has_confirmed.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.journal.close()


def test_written_rows_are_dropped_in_portions(tmp_path, monkeypatch):
    """With a pause after each: to free many rows at once keeps the interpreter for long."""
    counts = []
    monkeypatch.setattr(WritePace, "pause", lambda _: counts.append(None))
    monkeypatch.setattr(parquet_sink, "PORTION", 2)
    with SinkRun(tmp_path) as run:
        for n in range(1, 7):
            run.journal.write([operation(n)], [])
        run.journal.flush()
    days = 3
    assert len(counts) == 1 + days + 6 // 2  # all are taken, each day is written, two are dropped


class TestRows:
    def test_both_tables(self, tmp_path):
        """Rows come back with the columns of a trace, and are confirmed when they are on disk."""
        with SinkRun(tmp_path) as run:
            assert run.position == JournalPosition(0, 0)
            run.journal.write([operation(1), operation(2)], [outcome(1)])
            run.journal.flush()
            assert run.confirmed == [JournalPosition(2, 1)]
        both = pyarrow.dataset.dataset(tmp_path / "operations", partitioning="hive").to_table()
        assert both.drop(["date"]).to_pylist()[0] == {
            "op_id": "op1",
            "kind": "order",
            "submitted_ms": DAY // 3,
            "timeout_ms": 500,
            "keys": ["k", "l"],
            "need": 2,
        }
        assert ids(tmp_path, "outcomes") == ["op1"]

    def test_nothing_new_is_not_confirmed(self, tmp_path):
        """A round without rows makes no file and no call."""
        with SinkRun(tmp_path) as run:
            run.journal.flush()
            run.journal.write([], [])
            run.journal.flush()
        assert run.confirmed == []
        assert list(tmp_path.rglob("*.parquet")) == []

    def test_another_database(self, tmp_path):
        """Its numbers begin at 1 again, and all of its rows are written."""
        for source in ("db1", "db2"):
            with SinkRun(tmp_path, source) as run:
                assert run.position == JournalPosition(0, 0)
                run.journal.write([operation(1)], [])
        assert ids(tmp_path, "operations") == ["op1", "op1"]

    def test_one_writer(self, tmp_path):
        """A second server on the same directory does not start."""
        with SinkRun(tmp_path):
            with pytest.raises(JournalError, match="another process"):
                SinkRun(tmp_path)
        SinkRun(tmp_path).journal.close()

    def test_before_start_and_after_close(self, tmp_path):
        """A journal that was never started is closed without harm; a closed one drops rows."""
        ParquetSink(tmp_path, seconds=1).close()
        run = SinkRun(tmp_path)
        run.journal.close()
        run.journal.close()
        run.journal.write([operation(1)], [])
        with SinkRun(tmp_path) as another:
            assert another.position == JournalPosition(0, 0)

    def test_jobs(self, tmp_path):
        """They have a table of their own, with null where no attempt has begun."""
        done = JournalJob(
            1, "a", "mail", "done", "c", ("t", "u"), 1, 2, 5, 9, 1, 3, 4, worker="77", error=""
        )
        cancelled = done._replace(
            number=2, job_id="b", state="cancelled", tags=(), began_ms=None, queue_ms=None
        )._replace(run_ms=None, worker="", error="cancelled by key k")
        with SinkRun(tmp_path) as run:
            run.journal.write([], [], jobs=[done])
            run.journal.write([], [], jobs=[cancelled])
            run.journal.flush()
            assert run.confirmed == [JournalPosition(0, 0, 0, 0, 2)]
        found = pyarrow.dataset.dataset(tmp_path / "jobs", format="parquet").to_table()
        rows = [tuple(row.values()) for row in found.sort_by("job_id").to_pylist()]
        expected = [(*row[1:5], list(row.tags), *row[6:]) for row in (done, cancelled)]
        assert rows == expected
        assert found.column_names == list(JournalJob._fields[1:])

    def test_a_journal_of_a_server_without_the_table(self, tmp_path):
        """It goes on, and the table begins at its first row."""
        with SinkRun(tmp_path) as run:
            run.journal.write([operation(1)], [])
            run.journal.flush()
        shutil.rmtree(tmp_path / "jobs", ignore_errors=True)
        with SinkRun(tmp_path) as run:
            assert run.position == JournalPosition(1, 0)


class TestRestarts:
    @settings(max_examples=30)
    @given(
        batches=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8),
        crashes=st.sets(st.integers(0, 7)),
        broken=st.sets(st.integers(0, 7)),
    )
    def test_exactly_once(self, tmp_path_factory, batches, crashes, broken):
        """What a crash loses, the store gives again, from the last position on."""
        directory = tmp_path_factory.mktemp("journal")
        operations, outcomes = [], []
        run = SinkRun(directory)
        for step, (more_operations, more_outcomes) in enumerate(batches):
            before = len(operations), len(outcomes)
            operations += map(operation, range(before[0] + 1, before[0] + more_operations + 1))
            outcomes += map(outcome, range(before[1] + 1, before[1] + more_outcomes + 1))
            run.journal.write(operations[before[0] :], outcomes[before[1] :])
            with pytest.MonkeyPatch.context() as patch:
                if step in broken:
                    patch.setattr(os, "fsync", no_space)
                try:
                    run.journal.flush()
                except JournalError:
                    pass
                if step in crashes:  # rows are lost, if the disk fails now
                    run.journal.close()
            if step in crashes:
                run = SinkRun(directory)
                assert not run.confirmed
                start = run.position
                run.journal.write(operations[start.operations :], outcomes[start.outcomes :])
        run.journal.close()
        assert ids(directory, "operations") == [row.op_id for row in operations]
        assert ids(directory, "outcomes") == [row.op_id for row in outcomes]
        assert run.confirmed[-1:] in ([], [JournalPosition(len(operations), len(outcomes))])

    def test_much_is_written_before_its_time(self, tmp_path):
        """A batch is written before its time when there are many rows."""
        run = SinkRun(tmp_path)
        run.journal.write([operation(1)], [])
        numbers = range(2, journal_writer.BATCH + 10_000)
        rows = [operation(number)._replace(submitted_ms=1) for number in numbers]
        for start in range(0, len(rows), 1000):
            run.journal.write(rows[start : start + 1000], [])
        assert run.has_confirmed.wait(HANG)
        assert run.confirmed[0].operations >= journal_writer.BATCH * 9 // 10  # keys count, too
        run.journal.close()
        assert len(ids(tmp_path, "operations")) == len(rows) + 1

    def test_much_is_written_in_parts(self, tmp_path, monkeypatch):
        """What a write takes of memory has a bound, in bytes of keys: rows may be large."""
        monkeypatch.setattr(parquet_sink, "BATCH", 1000)
        large = operation(1)._replace(keys=("k" * 128_000,))  # weighs as much as 1001 rows
        with SinkRun(tmp_path) as run:
            for number, row in enumerate([operation(1), large, large, operation(1), large], 1):
                run.journal.write([row._replace(number=number, op_id=f"op{number}")], [])
            run.journal.flush()
            assert [position.operations for position in run.confirmed] == [2, 3, 5]
        assert ids(tmp_path, "operations") == [f"op{number}" for number in range(1, 6)]

    def test_a_disk_that_stays_full(self, tmp_path, monkeypatch, caplog):
        """Memory is bounded: the rest waits in the store, until the next start."""
        monkeypatch.setattr(journal_writer, "MAX_WAITING", 3)
        run = SinkRun(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", no_space)
            run.journal.write([operation(1)], [])
            with pytest.raises(JournalError, match="No space"):
                run.journal.flush()
            for number in range(2, 9):
                run.journal.write([operation(number)], [])
        [behind] = [one for one in caplog.records if "the journal is behind" in one.message]
        assert "No space" in str(behind.exc_info[1])  # the reason follows in the log
        run.journal.write([operation(9)], [])
        run.journal.close()
        written = run.confirmed[-1].operations
        assert 1 <= written < 8
        with SinkRun(tmp_path) as another:
            assert another.position.operations == written
        assert ids(tmp_path, "operations") == [f"op{n}" for n in range(1, written + 1)]


def no_space(descriptor):
    """Fail as a full disk does."""
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("after", range(4))
def test_rows_that_were_written_are_skipped(after):
    """By their numbers, over batches, of which some may be empty."""
    batches = [[], [(1, 9, 9), (2, 0, 0)], [(3, 0, 9)]]
    found = list(_numbered(batches, after))
    assert found == [(1, (9, 9)), (2, (0, 0)), (3, (0, 9))][after:]
