"""ClientIOThread: what it does when a connection ends."""

import select
import sqlite3

import pytest

from purgatory.service import StoreFailed
from purgatory.service.store.store import Store
from tests.testing.failing_disk import DiskFaults
from tests.testing.purgatory_harness import HANG


def test_an_answer_before_the_end_is_had(serve, connect):
    """An answer counts although the server is gone before the I/O thread reads it."""
    faults = DiskFaults()
    server = serve({"open_store": lambda path: Store(path, connect=faults.connect)})
    client = connect(server)
    client.stats()
    faults.fail(code=sqlite3.SQLITE_IOERR, message="disk I/O error")
    io_thread = client._io_thread
    client._batcher._send_now = lambda *_: False  # it is this thread that sends
    sleep, ends = io_thread._wait_for_events, []

    def sleep_until_it_is_gone():
        if io_thread._session.busy and not ends:
            ends.append(server.wait(HANG))
            ends.extend(select.select([io_thread._connection.descriptors[1]], [], [], HANG)[0])
        sleep()

    io_thread._wait_for_events = sleep_until_it_is_gone
    with pytest.raises(StoreFailed, match="disk I/O error"):
        client.defer("k").result(HANG)
    assert len(ends) == 2
    assert all(ends)
