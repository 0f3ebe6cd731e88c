"""What transactions do beside requests and expiry."""

import sqlite3

from purgatory.service.server.transactions.maintenance import MAINTENANCE_MS


def test_the_drift_of_the_clock(step_server):
    """It is written once a minute, if it has changed by a second."""
    server = step_server
    for wall_ms, written in [(999, 0), (5000, 5000), (5500, 5000)]:
        server.time.wall_ms = wall_ms
        server.pass_time(MAINTENANCE_MS)
        assert server.store.metadata()["drift_ms"] == written


def test_a_drift_that_cannot_be_written(step_server, caplog):
    """The server goes on, and says why."""
    server = step_server
    server.time.wall_ms = 5000
    server.faults.fail()
    server.pass_time(MAINTENANCE_MS)
    server.faults.clear()
    assert "disk is full" in caplog.text
    assert server.store_loop.failure is None
    server.pass_time(MAINTENANCE_MS)
    assert server.store.metadata()["drift_ms"] == 5000


def test_a_drift_whose_write_leaves_the_disk_unknown(step_server):
    """The server ends, as after such an error of a commit: later commits may be behind a gap."""
    server = step_server
    server.time.wall_ms = 5000
    server.faults.fail(sqlite3.SQLITE_IOERR, "disk I/O error")
    server.pass_time(MAINTENANCE_MS)
    server.faults.clear()
    assert server.store_loop.failure is not None
    assert server.store_loop.failure.fatal
