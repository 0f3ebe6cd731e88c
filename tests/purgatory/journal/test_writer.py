"""JournalWriter: a write is urgent as soon as a thread waits for it, or much more is posted."""

import threading
from collections import deque

import pytest

from purgatory.journal.files import JournalError, WritePace
from purgatory.journal.writer import BATCH, JournalWriter
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


class EndlessRows:
    """Rows whose write goes on until it is urgent."""

    def __init__(self, pace):
        self.pace = pace
        self.kept = 0
        self.writing, self.written = threading.Event(), threading.Event()

    def add(self, item):
        self.kept += item

    def __len__(self):
        return self.kept

    def write(self):
        if self.kept:
            self.writing.set()
            eventually(self.pace.is_urgent)
            self.kept = 0
            self.written.set()

    def close(self):
        pass


@pytest.fixture
def rows():
    return EndlessRows(WritePace())


@pytest.fixture
def writer(rows):
    """Return a writer whose thread is writing."""
    writer = JournalWriter(rows, 0.01, rows.pace)
    try:
        writer.post(1)
        assert rows.writing.wait(HANG)
        yield writer
    finally:
        writer.close()


@pytest.mark.parametrize("wait", ["flush", "close"])
def test_a_thread_that_waits_makes_it_urgent(rows, writer, wait):
    """Whether it waits for what is being written, or for the end."""
    getattr(writer, wait)()
    assert rows.kept == 0


def test_more_to_write_makes_it_urgent(rows, writer):
    """A journal that is given much while it writes makes no pauses: it would gather in memory."""
    writer.post(1, BATCH - 1)
    assert not rows.pace.is_urgent()
    writer.post(1)
    assert rows.written.wait(HANG)


class ClosingQueue(deque):
    """A queue whose journal another thread closes just before an item is added."""

    def append(self, item):
        self.close()
        super().append(item)


def test_a_row_that_comes_as_the_journal_is_closed():
    """It is written or refused, in no case lost in silence."""
    rows = EndlessRows(WritePace())
    writer = JournalWriter(rows, 60, rows.pace)
    queue = writer._posted = ClosingQueue()
    queue.close = writer.close
    with pytest.raises(JournalError, match="closed"):
        writer.post(1)
    assert not queue


class LateRows(EndlessRows):
    """Rows during whose last write another comes."""

    def write(self):
        self.kept = 0
        try:
            self.post(1)
        except JournalError as error:
            self.refused = error


def test_a_row_that_comes_during_the_last_write():
    """It is refused: the thread would not write it."""
    rows = LateRows(WritePace())
    writer = JournalWriter(rows, 1e6, rows.pace)
    rows.post = writer.post
    writer.close()
    assert str(rows.refused) == "the journal is closed"
