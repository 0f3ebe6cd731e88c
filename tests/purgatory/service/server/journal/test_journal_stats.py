"""ParquetSink.stats: how far the journal is behind."""

import pytest

from purgatory import JournalError
from purgatory.journal.files import JournalFiles
from purgatory.service.server.journal.journal_sink import JournalStats
from purgatory.service.server.journal.parquet_sink import ParquetSink
from tests.testing.journal_rows import JournalOperation


def operations(*numbers):
    """Return rows of operations."""
    return [JournalOperation(number, f"op{number}", "", 0, 500, ("k",), 1) for number in numbers]


@pytest.fixture
def sink(tmp_path):
    """A journal that writes at a flush only."""
    sink = ParquetSink(tmp_path, seconds=1e6)
    sink.start("db1", lambda _: None)
    yield sink
    sink.close()


def test_rows_wait_until_they_are_written(sink):
    """There is a lag only while rows wait, and it counts from the first of them."""
    assert sink.stats() == JournalStats(0, 0.0, 0, False)
    sink.write(operations(1, 2), [])
    first = sink.stats()
    sink.write(operations(3), [])
    second = sink.stats()
    assert (first.waiting_rows, second.waiting_rows) == (2, 3)
    assert second.lag_s >= first.lag_s >= 0
    sink.flush()
    assert sink.stats() == JournalStats(0, 0.0, 0, False)


def test_a_disk_that_takes_nothing(sink, monkeypatch):
    """Each attempt that fails is counted, and the rows wait."""

    def full(*_):
        raise JournalError("No space left on device")

    sink.write(operations(1), [])
    with monkeypatch.context() as patch:
        patch.setattr(JournalFiles, "append", full)
        for _ in range(2):
            with pytest.raises(JournalError):
                sink.flush()
    found = sink.stats()
    assert (found.waiting_rows, found.failures, found.is_behind) == (1, 2, False)
    sink.flush()
    assert sink.stats() == JournalStats(0, 0.0, 2, False)


def test_before_it_starts(tmp_path):
    """There is nothing to tell."""
    assert ParquetSink(tmp_path, seconds=1).stats() == JournalStats(0, 0.0, 0, False)
