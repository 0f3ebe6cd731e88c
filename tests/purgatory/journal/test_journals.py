"""The journals of a purgatory: outcomes as commands in a mailbox, or as Parquet files."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time

import pyarrow.dataset
import pytest

from mq import Mailbox
from purgatory import (
    Ended,
    JournalError,
    KeyedOperation,
    MailboxJournal,
    Outcome,
    ParquetJournal,
    Purgatory,
)
from purgatory.journal import journals
from purgatory.journal import writer as journal_writer
from purgatory.journal.files import WritePace
from purgatory.trace.reader import Reader
from purgatory.trace.tables import OUTCOMES
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, Recorder
from timingwheel import InlineExecutor, ManualClock, Timer


@pytest.fixture
def manual():
    """A purgatory without threads, with a clock moved by hand."""
    purgatory = Purgatory(timer=Timer(clock=ManualClock(), executor=InlineExecutor()))
    yield purgatory
    purgatory.close()


class TestMailboxJournal:
    def test_outcomes_as_commands(self, manual):
        """Each outcome is posted once to the mailbox."""
        mailbox = Mailbox()
        p = Purgatory(timer=manual.timer, journal=MailboxJournal(mailbox))
        completed, cancelled = KeyedOperation(5), KeyedOperation(5)
        p.try_complete_else_watch(completed, ["a"])
        p.try_complete_else_watch(cancelled, ["b"])
        p.complete("a")
        p.close()
        received = [mailbox.recv(0), mailbox.recv(0), mailbox.recv(0)]
        assert received == [
            Ended(completed, Outcome.COMPLETED),
            Ended(cancelled, Outcome.CANCELLED),
            None,
        ]

    def test_what_is_no_mailbox(self):
        """Else each outcome would be lost, and an error."""
        with pytest.raises(TypeError, match=r"mailbox\.send is None; expected a callable"):
            MailboxJournal("mailbox")


def rows(directory):
    """Return all rows on disk."""
    found = pyarrow.dataset.dataset(directory / "outcomes", format="parquet", partitioning="hive")
    return found.to_table().to_pylist() if found.files else []


class Named(Recorder):
    """An operation with an op_id and a kind."""

    op_id = "order-17"
    kind = "payment"


class TestRows:
    def test_written_rows_are_dropped_in_portions(self, tmp_path, manual, monkeypatch):
        """With a pause after each: to free many rows at once keeps the interpreter for long."""
        pauses = []
        monkeypatch.setattr(WritePace, "pause", lambda _: pauses.append(None))
        monkeypatch.setattr(journals, "PORTION", 2)
        with ParquetJournal(tmp_path, seconds=1e6) as journal:
            p = Purgatory(timer=manual.timer, journal=journal)
            for _ in range(5):
                p.try_complete_else_watch(KeyedOperation(5), ["a"])
            p.complete("a")
            journal.flush()
            assert len(pauses) == 1 + 1 + 3  # taken, written, dropped
            p.close()
        assert len(rows(tmp_path)) == 5

    def test_every_outcome(self, tmp_path):
        """Rows of all outcomes have Unix times that agree with each other."""
        clock = ManualClock()
        with ParquetJournal(tmp_path, clock=clock) as journal:
            harness = PurgatoryHarness(journal=journal)
            harness.clock.advance(0)
            started_ms = time.time_ns() // 1_000_000
            harness.purgatory.defer("a", "b", timeout=9)
            harness.purgatory.complete("b")
            harness.purgatory.defer("c", timeout=0.5)
            clock.advance(0.75)
            harness.advance(0.75)
            harness.purgatory.defer("d", timeout=9).cancel()
            ended_ms = time.time_ns() // 1_000_000
        completed, expired, cancelled = sorted(rows(tmp_path), key=lambda row: row["op_id"][-2:])
        assert [r["outcome"] for r in (completed, expired, cancelled)] == [
            "completed",
            "expired",
            "cancelled",
        ]
        assert [r["by_key"] for r in (completed, expired, cancelled)] == ["b", None, None]
        assert (expired["waited_ms"], expired["lateness_ms"]) == (750, 250)
        for row in (completed, expired, cancelled):
            assert started_ms <= row["at_ms"] <= ended_ms
            assert row["waited_ms"] == row["at_ms"] - row["submitted_ms"]
        assert completed["deadline_ms"] - completed["submitted_ms"] == 9000
        assert expired["at_ms"] - expired["deadline_ms"] == 250

    def test_a_deadline_of_0(self, tmp_path):
        """A clock may read 0 at a deadline, as at any other."""
        clock = ManualClock(-1000)
        timer = Timer(clock=clock, executor=InlineExecutor())
        with ParquetJournal(tmp_path, clock=clock) as journal:
            Purgatory(timer=timer, journal=journal).defer("a", timeout=1)
            clock.advance(1.5)
            timer.advance_clock()
        (row,) = rows(tmp_path)
        assert (row["outcome"], row["waited_ms"], row["lateness_ms"]) == ("expired", 1500, 500)
        assert row["deadline_ms"] - row["submitted_ms"] == 1000

    def test_no_expiry_is_early(self, tmp_path):
        """Neither within the millisecond of a deadline: the row has the deadline, or later."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        with ParquetJournal(tmp_path, clock=clock) as journal:
            clock.advance(0.0006)
            Purgatory(timer=timer, journal=journal).defer("key", timeout=0.01)
            clock.advance(0.0102)
            timer.advance_clock()
        (row,) = rows(tmp_path)
        assert (row["outcome"], row["waited_ms"], row["lateness_ms"]) == ("expired", 10, 0)
        assert row["at_ms"] == row["deadline_ms"]

    def test_names_and_kinds(self, tmp_path):
        """op_id and kind are the operation's; else a unique name, and the class."""
        with ParquetJournal(tmp_path) as journal, Purgatory(journal=journal) as p:
            p.try_complete_else_watch(Named(timeout=9), ["k"])
            p.try_complete_else_watch(Recorder(timeout=9), ["k"])
            p.defer("k")
            p.defer("k")
        found = rows(tmp_path)
        assert sorted(row["kind"] for row in found) == ["", "", "Recorder", "payment"]
        assert len({row["op_id"] for row in found}) == 4
        assert "order-17" in {row["op_id"] for row in found}

    def test_keys_that_are_no_text(self, tmp_path):
        """by_key is str(key), with half surrogate pairs escaped, and null if it is empty."""
        with ParquetJournal(tmp_path) as journal, Purgatory(journal=journal) as p:
            for key in ((1, 2), "\ud800", ""):
                p.defer(key)
                p.complete(key)
        assert {row["by_key"] for row in rows(tmp_path)} == {"(1, 2)", "\\ud800", None}

    def test_keys_without_a_text(self, tmp_path):
        """Their outcomes are not lost: the text of a number is bounded, and a key's may raise."""

        class Mute:
            def __str__(self):
                raise RuntimeError

        with ParquetJournal(tmp_path) as journal, Purgatory(journal=journal) as p:
            for key in (10**5000, Mute()):
                p.defer(key)
                p.complete(key)
        number, mute = (row["by_key"] for row in rows(tmp_path))
        assert number.startswith("<int object at")
        assert "Mute object at" in mute

    def test_it_is_a_table_of_a_trace(self, tmp_path):
        """The reader of outcomes reads the files and accepts each row."""
        with ParquetJournal(tmp_path) as journal, Purgatory(journal=journal) as p:
            p.defer("k", timeout=4.6e15)
            p.complete("k")
        (path,) = tmp_path.rglob("*.parquet")
        assert [row.outcome for row in Reader(path, OUTCOMES)] == ["completed"]


class TestLife:
    def test_flush(self, tmp_path):
        """After flush all earlier outcomes are on disk; later ones follow."""
        with ParquetJournal(tmp_path, seconds=1e6) as journal, Purgatory(journal=journal) as p:
            for count in range(1, 4):
                p.defer("k")
                p.complete("k")
                journal.flush()
                assert len(rows(tmp_path)) == count
            p.defer("k")
        assert len(rows(tmp_path)) == 4

    def test_a_second_journal(self, tmp_path):
        """A second journal is refused while the first is open; then it adds rows."""
        for _ in range(2):
            with ParquetJournal(tmp_path) as journal, Purgatory(journal=journal) as p:
                with pytest.raises(JournalError, match="another process"):
                    ParquetJournal(tmp_path)
                p.defer("k")
        assert len({row["op_id"] for row in rows(tmp_path)}) == 2

    def test_close(self, tmp_path):
        """close ends the thread; later outcomes are errors for on_error."""
        before = set(threading.enumerate())
        journal = ParquetJournal(tmp_path)
        harness = PurgatoryHarness(journal=journal)
        harness.purgatory.defer("k")
        journal.close()
        journal.close()
        assert set(threading.enumerate()) <= before
        harness.purgatory.complete("k")
        ((error, _),) = harness.errors
        assert isinstance(error, JournalError)
        with pytest.raises(JournalError, match="closed"):
            journal.flush()

    @pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copies_are_refused(self, tmp_path, copy_of):
        """A copy would share the files and the thread."""
        with ParquetJournal(tmp_path) as journal:
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copy_of(journal)
            with Purgatory(journal=journal) as p:
                p.defer("k")
        assert len(rows(tmp_path)) == 1

    def test_forgotten(self, tmp_path):
        """A journal that is dropped writes what it has, and ends its thread."""
        before = set(threading.enumerate())
        with Purgatory(journal=ParquetJournal(tmp_path)) as p:
            p.defer("k")
        del p
        gc.collect()
        assert set(threading.enumerate()) <= before
        assert len(rows(tmp_path)) == 1

    def test_the_end_of_the_process(self, tmp_path):
        """At the end of the process an open journal writes what is left."""
        code = (
            "import sys; from purgatory import *\n"
            "p = Purgatory(journal=ParquetJournal(sys.argv[1]))\n"
            "p.defer('k'); p.complete('k')"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=HANG)
        assert len(rows(tmp_path)) == 1

    def test_many_threads(self, tmp_path):
        """Every outcome is written once, from any thread."""
        with ParquetJournal(tmp_path, seconds=0.01) as journal, Purgatory(journal=journal) as p:

            def work(name):
                for number in range(500):
                    p.defer((name, number), timeout=0.001 if number % 3 else 60)
                    p.complete((name, number))

            threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(HANG)
            p.close()
            stats = p.stats()
        found = rows(tmp_path)
        assert len({row["op_id"] for row in found}) == len(found) == 2000
        outcomes = [row["outcome"] for row in found]
        assert outcomes.count("completed") == stats.completed
        assert outcomes.count("expired") == stats.expired

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_bad_seconds(self, tmp_path, seconds):
        """Bad values of seconds are refused; the error shows the value."""
        with pytest.raises(ValueError, match="seconds"):
            ParquetJournal(tmp_path, seconds=seconds)


class TestDiskThatFails:
    def test_rows_wait_for_it(self, tmp_path, monkeypatch):
        """While the disk is full flush raises; later all rows are written."""
        with ParquetJournal(tmp_path, seconds=1e6) as journal, Purgatory(journal=journal) as p:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", no_space)
                for _ in range(3):
                    p.defer("k")
                p.complete("k")
                with pytest.raises(JournalError, match="No space left"):
                    journal.flush()
            assert rows(tmp_path) == []
            journal.flush()
            assert len(rows(tmp_path)) == 3

    def test_not_for_ever(self, tmp_path, monkeypatch):
        """While the disk is full, rows beyond a bound are refused."""
        monkeypatch.setattr(journal_writer, "MAX_WAITING", 3)
        harness = PurgatoryHarness(journal=(journal := ParquetJournal(tmp_path, seconds=1e6)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", no_space)
            harness.purgatory.defer("k")
            harness.purgatory.complete("k")
            with pytest.raises(JournalError, match="No space left"):
                journal.flush()
            for _ in range(5):
                harness.purgatory.defer("k")
            harness.purgatory.complete("k")
            assert len(harness.errors) == 3
            assert len({error for error, _ in harness.errors}) == 3  # each alone
            with pytest.raises(JournalError, match="No space left"):
                journal.close()


def no_space(descriptor):
    """A full disk."""
    raise OSError(28, "No space left on device")


def test_a_class_is_no_journal():
    """An object is: each call of `ended` would fail."""
    with pytest.raises(TypeError, match=r"journal is <class .*; expected an object of the class"):
        Purgatory(journal=ParquetJournal)


def test_an_empty_path():
    """As of an unset variable; it would be the current directory."""
    with pytest.raises(ValueError, match="directory is ''; expected the path of one"):
        ParquetJournal("")


@pytest.mark.parametrize("seconds", ["1", None, True, 0, -1, float("nan"), float("inf")], ids=repr)
def test_bad_seconds(tmp_path, seconds):
    """A typed error that names them, and no thread is left."""
    with pytest.raises((TypeError, ValueError), match="seconds is "):
        ParquetJournal(tmp_path, seconds=seconds)
    with pytest.raises(TypeError, match="clock is 5"):
        ParquetJournal(tmp_path, clock=5)
    ParquetJournal(tmp_path).close()


def test_an_unexpected_error_of_the_thread(tmp_path, manual, monkeypatch):
    """The thread lives, and the error is told; what was posted is written later."""
    journal = ParquetJournal(tmp_path)
    recorder = Recorder(60)
    manual.try_complete_else_watch(recorder, ["k"])
    journal.ended(recorder, Outcome.CANCELLED)

    def fail(_):
        raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr(journals._OutcomeBuffer, "write", fail)
        with pytest.raises(JournalError, match=r"cannot write: MemoryError"):
            journal.flush()
    journal.flush()
    assert len(rows(tmp_path)) == 1
    journal.close()


def test_a_directory_is_released_beside_a_forked_child(tmp_path):
    """A flock is of the open file, which the child has, too."""
    journal = ParquetJournal(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        journal.close()
        ParquetJournal(tmp_path).close()
        assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it lived meanwhile
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
