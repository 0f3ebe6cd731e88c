"""JournalWriter: a write is urgent as soon as a thread waits for it, or much more is posted."""

import threading

import pytest

from purgatory.journal.write_pace import WritePace
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


@pytest.mark.parametrize("wait", ["flush", "close"])
def test_a_thread_that_waits_makes_it_urgent(wait):
    """Whether it waits for what is being written, or for the end."""
    pace = WritePace()
    rows = EndlessRows(pace)
    writer = JournalWriter(rows, 0.01, pace)
    try:
        writer.post(1)
        assert rows.writing.wait(HANG)
        getattr(writer, wait)()
        assert rows.kept == 0
    finally:
        writer.close()


def test_more_to_write_makes_it_urgent():
    """A journal that is given much while it writes makes no pauses: it would gather in memory."""
    pace = WritePace()
    rows = EndlessRows(pace)
    writer = JournalWriter(rows, 0.01, pace)
    try:
        writer.post(1)
        assert rows.writing.wait(HANG)
        writer.post(1, BATCH - 1)
        assert not pace.is_urgent()
        writer.post(1)
        assert rows.written.wait(HANG)
    finally:
        writer.close()
