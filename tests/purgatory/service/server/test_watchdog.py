"""Watchdog: it looks again and again, and outlives a look that fails."""

import threading

from purgatory.service.server import watchdog
from tests.testing.purgatory_harness import HANG


def test_a_look_that_fails(caplog):
    """It is logged once, with its traceback, and the others go on; `close` ends the thread."""
    looked = threading.Semaphore(0)

    def fail():
        raise ValueError("no such file")

    looking = watchdog.Watchdog([fail, looked.release])
    looking.start()
    for _ in range(3):
        assert looked.acquire(timeout=HANG)
    looking.close()
    looking.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"the watchdog stops checking {fail!r}"
    ]
    assert "no such file" in caplog.text
    assert "service-watchdog" not in {thread.name for thread in threading.enumerate()}


def test_a_look_that_asks_for_the_next_one(monkeypatch):
    """It comes without the usual pause; the other looks come no more often than else."""
    looked, calls = threading.Semaphore(0), []

    def look():
        monkeypatch.setattr(watchdog, "LOOK_S", 10 * HANG)
        calls.append("urgent")
        looked.release()
        return True

    looking = watchdog.Watchdog([look, lambda: calls.append("other")])
    looking.start()
    for _ in range(15):
        assert looked.acquire(timeout=HANG)
    looking.close()
    others = [place for place, name in enumerate(calls) if name == "other"]
    assert others[:2] == [1, 12]
