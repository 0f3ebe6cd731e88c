"""The fixtures of the tests of `purgatory store`: a lease in memory instead of a database."""

import threading

import pytest

from purgatory.service.platform import boot_ns
from purgatory.service.store import opening
from purgatory.service.store.lease import ClockReading
from tests.testing.fake_lease import FakeLeaseTable

URL = "postgresql://joe:secret@db1:5432,db2/purgatory"


@pytest.fixture
def table(monkeypatch):
    """A database by the real clock, to which the commands connect."""
    table = FakeLeaseTable(boot_ns)
    table.opened = []

    def open_row(url, partition, holder, address):
        table.opened.append((url, partition))
        return table.open_row(holder, address)

    monkeypatch.setattr(opening, "open_lease_row", open_row)
    monkeypatch.setenv("PURGATORY_STORE", URL)
    return table


@pytest.fixture
def active(table):
    """A server that is active, beats, and hands over if a standby is there."""
    row = table.open_row("a", "tcp://a:7411")
    row.raise_epoch(table.seen())
    stopped = threading.Event()

    def run():
        while not stopped.wait(0.01):
            if table.row.handover:
                row.release(ClockReading(0))
                table.open_row("b", "tcp://b:7411").raise_epoch(table.seen())
                return
            row.beat(ClockReading(0))

    thread = threading.Thread(target=run)
    thread.start()
    yield row
    stopped.set()
    thread.join()
