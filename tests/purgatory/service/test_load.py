"""Mixed load for a while: only the pending operations take memory.

`PURGATORY_SECONDS` is how long, 5 by default; `pytest -s` shows the figures.
"""

import collections
import concurrent.futures
import random
import re
import sys
import time
from os import environ
from pathlib import Path

import pytest

from purgatory import OperationExpired
from purgatory.service import Client
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

SECONDS = float(environ.get("PURGATORY_SECONDS", "5"))
RATE = 2000  # operations a second, or what the machine allows


def resources(pid):
    """Return bytes of memory, threads and descriptors of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    return memory, threads, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def no_more_open(now, before):
    """Tell whether there are no more threads and descriptors than before."""
    return now[1] <= before[1] and now[2] <= before[2]


class SteadyLoad:
    """Defers operations of three timeouts, and completes most of them a little later."""

    def __init__(self, one, two):
        self.one, self.two = one, two
        self.dice = random.Random(1)
        self.sent = 0
        self.waiting = set()
        self.ended = []  # outcomes
        self.late = []  # seconds beyond the deadline, as the client sees it

    def send(self, count):
        """Submit up to `count` operations in all, and complete some earlier ones."""
        while self.sent < count:
            timeout = self.dice.choice((0.1, 1.0, 3.0))
            # Taken before the submit, so the server's deadline is later.
            due = time.monotonic() + timeout
            future = self.one.defer(f"key {self.sent}", timeout=timeout)
            self.waiting.add(future)
            future.add_done_callback(lambda future, due=due: self.on_outcome(future, due))
            if self.dice.random() < 0.6:
                self.two.complete_later(f"key {self.sent - 200}")
            self.sent += 1
        self.two.flush()  # bounds what is in flight

    def on_outcome(self, future, due):
        """Note an outcome; called by the client's I/O thread, or by this one if it is late."""
        expired = isinstance(future.exception(), OperationExpired)
        if expired:
            self.late.append(time.monotonic() - due)
        self.waiting.discard(future)
        self.ended.append("expired" if expired else "completed")


@pytest.mark.timeout(60 + 2 * SECONDS)
def test_nothing_grows(tmp_path):
    """Memory, threads and descriptors do not grow between the first quarter and the end."""
    with (
        ServerProcess(tmp_path / "data") as serve,
        Client(serve.address, name="one", timeout=HANG) as one,
        Client(serve.address, name="two", timeout=HANG) as two,
    ):
        load = SteadyLoad(one, two)
        start = time.monotonic()
        early = None
        while (passed := time.monotonic() - start) < SECONDS or early is None:
            load.send(RATE * min(passed, SECONDS))
            if early is None and passed > SECONDS / 4:
                early = resources(serve.process.pid)
        concurrent.futures.wait(list(load.waiting), HANG)
        eventually(lambda: len(load.ended) == load.sent)  # those that wait are woken first
        outcomes = collections.Counter(load.ended)
        late = resources(serve.process.pid)
        stats = two.stats()
        p99 = sorted(load.late)[len(load.late) * 99 // 100]
        sys.stdout.write(
            f"\n{load.sent / SECONDS:,.0f} operations/s, {dict(outcomes)}; expiry told after the "
            f"deadline, p99: {1000 * p99:.1f} ms; bytes, threads, files: {early}, then {late}\n"
        )
        assert stats["pending"] == 0
        assert stats["completed"] == outcomes["completed"]
        assert stats["expired"] == outcomes["expired"]
        assert min(load.late) >= 0
        # Not at once: a file of the journal that is being written is open for a moment.
        eventually(lambda: no_more_open(resources(serve.process.pid), early))
        # Between the two, the retained outcomes may have come, up to ten thousand of them, and the
        # memory that the journal needs to write its files, which it does rarely.
        assert late[0] < early[0] + 96e6
        assert serve.end() == (0, "")
