"""Mixed load for a while: nothing grows but what waits.

``PURGATORY_SECONDS`` says how long, 5 by default; figures are printed (``pytest -s``).
"""

import os
import random
import re
import time
from pathlib import Path

import pytest

from purgatory import OperationExpired
from purgatory.service import Client
from tests.purgatory.helpers import HANG
from tests.purgatory.service.processes import Serve

SECONDS = float(os.environ.get("PURGATORY_SECONDS", "5"))
RATE = 2000  # operations a second, or what the machine allows


def held(pid):
    """Bytes of memory, threads and descriptors of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    return memory, threads, len(os.listdir(f"/proc/{pid}/fd"))


def finish(future):
    """How an operation ended."""
    try:
        future.result(HANG)
    except OperationExpired:
        return "expired"
    return "completed"


@pytest.mark.timeout(60 + 2 * SECONDS)
def test_nothing_grows(tmp_path):
    """Memory, threads and descriptors are, at the end, those of soon after the beginning."""
    dice = random.Random(1)
    ends = {"completed": 0, "expired": 0}
    with (
        Serve(tmp_path / "data") as serve,
        Client(serve.address, name="one", timeout=HANG) as one,
        Client(serve.address, name="two", timeout=HANG) as two,
    ):
        start = time.monotonic()
        waiting, answers, sent, early = [], [], 0, None
        while (passed := time.monotonic() - start) < SECONDS:
            while sent < RATE * passed:
                key = f"key {sent}"
                waiting.append(one.defer(key, timeout=dice.choice((0.1, 1.0, 3.0))))
                if dice.random() < 0.6:
                    answers.append(two.complete_later(key))
                sent += 1
            if early is None and passed > SECONDS / 4:
                early = held(serve.process.pid)
            done = [future for future in waiting if future.done()]
            waiting = [future for future in waiting if not future.done()]
            for future in done:
                ends[finish(future)] += 1
            answers = [answer for answer in answers if not answer.done()]
            two.flush()  # a moment, and no more is in flight than the server takes
        for future in waiting:
            ends[finish(future)] += 1
        one.flush()
        late = held(serve.process.pid)
        stats = two.stats()
        print(f"\n{sent / SECONDS:,.0f} operations/s, {ends}, early {early}, late {late}, {stats}")
        assert stats["pending"] == 0
        assert stats["completed"] + stats["expired"] == sent
        assert late[1:] == early[1:]
        # What is kept of the last ten thousand outcomes has come in between.
        assert late[0] < early[0] + 64e6
        assert serve.end() == (0, "")
