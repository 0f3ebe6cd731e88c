"""Mixed load for a while: nothing grows but what waits.

``PURGATORY_SECONDS`` says how long, 5 by default; figures are printed (``pytest -s``).
"""

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
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

SECONDS = float(environ.get("PURGATORY_SECONDS", "5"))
RATE = 2000  # operations a second, or what the machine allows


def held(pid):
    """Bytes of memory, threads and descriptors of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    return memory, threads, len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Load:
    """Operations of three timeouts; most keys are completed a little later."""

    def __init__(self, one, two):
        self.one, self.two = one, two
        self.dice = random.Random(1)
        self.sent = 0
        self.waiting = set()
        self.ends = {"completed": 0, "expired": 0}
        self.late = []  # seconds beyond the deadline, as the client sees it

    def send(self, count):
        """Submit until there were so many, and complete some of those before."""
        while self.sent < count:
            timeout = self.dice.choice((0.1, 1.0, 3.0))
            due = time.monotonic() + timeout  # before: the server counts from later
            future = self.one.defer(f"key {self.sent}", timeout=timeout)
            self.waiting.add(future)
            future.add_done_callback(lambda future, due=due: self.end(future, due))
            if self.dice.random() < 0.6:
                self.two.complete_later(f"key {self.sent - 200}")
            self.sent += 1
        self.two.flush()  # no more is in flight than the server takes

    def end(self, future, due):
        """Count an end; called by the client's thread."""
        if isinstance(future.exception(), OperationExpired):
            self.late.append(time.monotonic() - due)
            self.ends["expired"] += 1
        else:
            self.ends["completed"] += 1
        self.waiting.discard(future)


@pytest.mark.timeout(60 + 2 * SECONDS)
def test_nothing_grows(tmp_path):
    """Memory, threads and descriptors are, at the end, those of soon after the beginning."""
    with (
        ServerProcess(tmp_path / "data") as serve,
        Client(serve.address, name="one", timeout=HANG) as one,
        Client(serve.address, name="two", timeout=HANG) as two,
    ):
        load = Load(one, two)
        start = time.monotonic()
        early = None
        while (passed := time.monotonic() - start) < SECONDS:
            load.send(RATE * passed)
            if early is None and passed > SECONDS / 4:
                early = held(serve.process.pid)
        concurrent.futures.wait(list(load.waiting), HANG)
        one.flush()
        late = held(serve.process.pid)
        stats = two.stats()
        p99 = sorted(load.late)[len(load.late) * 99 // 100]
        sys.stdout.write(
            f"\n{load.sent / SECONDS:,.0f} operations/s, {load.ends}; expiry told after the "
            f"deadline, p99: {1000 * p99:.1f} ms; bytes, threads, files: {early}, then {late}\n"
        )
        assert stats["pending"] == 0
        assert stats["completed"] + stats["expired"] == load.sent
        assert sum(load.ends.values()) == load.sent
        assert min(load.late) >= 0
        assert late[1:] == early[1:]
        # What is kept of the last ten thousand outcomes may have come in between, and what the
        # journal needs to write its files, which it does not do often.
        assert late[0] < early[0] + 96e6
        assert serve.end() == (0, "")
