"""How long after its deadline an expiry is told, at a rate of operations of which half expire.

    python benchmarks/bench_expiry.py [--rate 2000] [--seconds 10]

One server with its defaults and one client, this process, over loopback. Each operation has a
timeout of 0.3 to 1 s; every second one is completed after half of it. *From defer*: the moment at
which the client is told, less that of the call of `defer` and the timeout. So it has the way to the
server in it, and is what a program sees. Deadlines are whole timeouts after the server has received
an operation. The first second is not counted.
"""

import argparse
import random
import tempfile
import time
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from bench_service import Service, free_port
from harness import machine, table

WARM_S = 1.0
PAUSE_S = 0.0003  # between two looks for what is to be done: shorter ones would take a processor


class Load:
    """Submits operations at a rate, completes half of them, and notes when the others are told."""

    def __init__(self, service: Service, rate: int) -> None:
        self.client = service.client
        self.rate = rate
        self.count = 0
        self.latencies: list[float] = []
        self._random = random.Random(1)
        self._to_complete: list[tuple[float, str]] = []
        self._start = time.monotonic()

    def run(self, seconds: float) -> None:
        """Submit for so many seconds, and wait for what was submitted."""
        while (now := time.monotonic() - self._start) < seconds:
            while self.count < now * self.rate:
                self._submit(now)
            while self._to_complete and self._to_complete[0][0] <= now:
                self.client.complete_later(heappop(self._to_complete)[1])
            time.sleep(PAUSE_S)
        time.sleep(2.0)  # no timeout is longer

    def _submit(self, now: float) -> None:
        key, timeout = f"key-{self.count}", self._random.randint(300, 1000) / 1000
        self.count += 1
        if self.count % 2:
            heappush(self._to_complete, (now + timeout / 2, key))
        due = time.monotonic() + timeout
        future = self.client.defer(key, timeout=timeout)
        future.add_done_callback(partial(self._note, due))

    def _note(self, due: float, future: Future[Any]) -> None:
        now = time.monotonic()
        if future.exception() is not None and now - self._start > WARM_S:
            self.latencies.append(1000 * (now - due))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), free_port())
        load = Load(service, options.rate)
        cpu = service.process.cpu_seconds()
        load.run(options.seconds)
        cpu = (service.process.cpu_seconds() - cpu) / options.seconds
        service.end()
    told = sorted(load.latencies)
    row = [f"{told[int(len(told) * part)]:.2f}" for part in (0, 0.5, 0.9, 0.99)]
    head = ["expiries", "least, ms", "p50", "p90", "p99", "server CPU"]
    print(f"## Telling an expiry ({machine()}; {options.rate} operations/s)")
    print(table("From defer", head, [[f"{len(told):,}", *row, f"{cpu:.2f}"]]))


if __name__ == "__main__":
    main()
