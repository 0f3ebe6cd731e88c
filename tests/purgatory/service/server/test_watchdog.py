"""Watchdog: it looks again and again, and outlives a look that fails."""

import threading

from purgatory.service.server.watchdog import Watchdog
from tests.testing.purgatory_harness import HANG


def test_a_look_that_fails(caplog):
    """It is logged once, with its traceback, and the others go on; `close` ends the thread."""
    looked = threading.Semaphore(0)

    def fail():
        raise ValueError("no such file")

    watchdog = Watchdog([fail, looked.release])
    watchdog.start()
    for _ in range(3):
        assert looked.acquire(timeout=HANG)
    watchdog.close()
    watchdog.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"the watchdog looks at this no longer: {fail!r}"
    ]
    assert "no such file" in caplog.text
    assert "service-watchdog" not in {thread.name for thread in threading.enumerate()}
