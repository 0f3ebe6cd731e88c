"""Interrupt: ends waits soon."""

import select
import threading
import time
from types import SimpleNamespace

from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from tests.testing.purgatory_harness import HANG


def test_it_ends_a_wait():
    """From another thread, and at once if it is set before."""
    interrupt = Interrupt()
    waiter = threading.Thread(target=interrupt.wait, args=(HANG,), daemon=True)
    waiter.start()
    assert not interrupt.is_set
    interrupt.set()
    waiter.join(HANG)
    assert not waiter.is_alive()
    assert interrupt.is_set
    interrupt.wait(HANG)
    interrupt.close()


def test_how_long_a_wait_lasts(monkeypatch):
    """So many seconds, unless it is set: the system takes milliseconds."""
    asked = []
    poll = SimpleNamespace(register=lambda *_: None, poll=asked.append)
    monkeypatch.setattr(select, "poll", lambda: poll)
    interrupt = Interrupt()
    interrupt.wait(1.5)
    interrupt.close()
    assert asked == [1500]


def test_deadlines():
    """What waits has a moment left, in which a database that is well answers."""
    interrupt = Interrupt()
    late = time.monotonic() + HANG
    assert interrupt.deadline(late) == late
    interrupt.set()
    interrupt.set()
    assert time.monotonic() - HANG < interrupt.deadline(late) < late
    assert interrupt.deadline(5.0) == 5.0
    interrupt.close()
    interrupt.close()


def test_after_its_end():
    """It may be set once its store is closed."""
    interrupt = Interrupt()
    interrupt.close()
    interrupt.set()
