"""Two servers over one PostgreSQL: how long nothing is acknowledged after a kill and in a handover.

    python benchmarks/bench_takeover.py [--kills 50] [--handovers 5] [--pending 0,100000,1000000]

A PostgreSQL of this machine is started, and a process for each server. A client submits something
every 10 ms. *Kill* is the time from SIGKILL of the active server to the acknowledgement of what was
sent after it. *Handover* is the longest time without an acknowledgement while the servers
change places. Both include what the new active server reads, and what the client needs to find it.
"""

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from durable_postgres import durable_postgres, open_store, remove_template
from harness import machine, table
from msgspec import Raw

from purgatory.service import Client
from purgatory.service.cluster.store_report import hand_over
from purgatory.service.store.changes import Changes
from purgatory.service.store.opening import open_lease_row
from purgatory.service.store.rows import MAX_BATCH, OperationBatch

# What the tests use; untyped.
PORTS: Any = importlib.import_module("tests.testing.purgatory_harness")
PATIENCE_S = 120.0


class ServerProcess:
    """`purgatory serve` over a database, in a process of its own."""

    def __init__(self, url: str, directory: Path, takeover_after: float) -> None:
        self.address = f"tcp://127.0.0.1:{PORTS.free_port()}"
        self._directory = directory
        self._log_path = directory / f"{self.address[-5:]}.log"
        self._command = [
            *(sys.executable, "-m", "purgatory", "serve", "--store", url, "--no-journal"),
            *("--bind", self.address, "--advertise", self.address, "--http-bind", ""),
            *("--takeover-after", str(takeover_after), "--data-dir", str(directory)),
        ]

    def start(self) -> None:
        """Start the process, and wait until it serves or stands by."""
        with self._log_path.open("wb") as log:
            # Not from here: a checkout would be imported instead of what is installed.
            self.process = subprocess.Popen(
                self._command, cwd=self._directory, stdout=log, stderr=log
            )
        wait_until(lambda: any(word in self._said() for word in (b"serving at", b"standby")))

    def _said(self) -> bytes:
        assert self.process.poll() is None, self._log_path.read_text()
        return self._log_path.read_bytes()

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        self.process.wait()


class Probe:
    """A client that submits something every 10 ms, and notes when that is acknowledged."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, name="probe", timeout=PATIENCE_S, on_outcome=print)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acks: list[tuple[float, float]] = []  # sent and acknowledged, in order of the latter
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.01):
            sent = time.monotonic()
            future = self._client.submit_later("never", timeout=86_400.0)
            future.add_done_callback(partial(self._note, sent))

    def _note(self, sent: float, _: object) -> None:
        self.acks.append((sent, time.monotonic()))

    def after(self, moment: float) -> float:
        """Return the seconds from a moment to the first answer to something sent after it."""
        wait_until(lambda: self.acks[-1][0] > moment)
        return min(acked for sent, acked in self.acks if sent > moment) - moment

    def gap(self, moment: float) -> float:
        """Return the longest time without an acknowledgement since a moment."""
        times = [moment, *(acked for _, acked in self.acks if acked > moment)]
        return max(later - sooner for sooner, later in pairwise(times))

    def close(self) -> None:
        """End the client."""
        self._stopped.set()
        self._thread.join()
        self._client.close(0)


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once a condition is true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.005)


def fill(url: str, pending: int) -> None:
    """Store so many operations that wait for a day."""
    now_ms, store = int(time.time() * 1000), open_store(url)
    for first in range(1, pending + 1, MAX_BATCH):
        last = min(first + MAX_BATCH, pending + 1)
        items = [
            [f"op-{n}", [f"key-{n}"], 86_400_000, 1, "order", Raw(b"\xa5hello")]
            for n in range(first, last)
        ]
        changes = Changes()
        changes.operations = [OperationBatch(first, "shop", now_ms, items)]
        store.commit(changes)
    store.close()


class Pair:
    """Two servers over a database with so many pending operations, and a probe."""

    def __init__(self, parts: ExitStack, pending: int, takeover_after: float) -> None:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory()))
        url = parts.enter_context(durable_postgres())
        self._row = open_lease_row(url, "", "bench", "")
        fill(url, pending)
        self._servers = [ServerProcess(url, directory, takeover_after) for _ in range(2)]
        for server in self._servers:
            server.start()
            parts.callback(server.kill)
            wait_until(lambda: self._row.look().address == self._servers[0].address)
        self.probe = Probe(",".join(server.address for server in self._servers))
        parts.callback(self.probe.close)
        wait_until(lambda: len(self.probe.acks) > 0)

    def kill(self) -> float:
        """Kill the active server, and return for how long nothing was acknowledged."""
        address = self._row.look().address
        [active] = [server for server in self._servers if server.address == address]
        moment = time.monotonic()
        active.kill()
        taken = self.probe.after(moment)
        active.start()
        return taken

    def hand_over(self) -> float:
        """Have the servers change places, and return for how long nothing was acknowledged."""
        wait_until(lambda: len(self._row.standbys()) > 0)
        moment = time.monotonic()
        hand_over(self._row, PATIENCE_S)
        self.probe.after(time.monotonic())
        return self.probe.gap(moment)


def measured(name: str, times: list[float]) -> list[str]:
    """Return a row of the table."""
    return [name, f"{statistics.median(times):.2f}", f"{max(times):.2f}", str(len(times))]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pending", default="0,100000,1000000")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--handovers", type=int, default=5)
    parser.add_argument("--takeover-after", type=float, default=2.0)
    arguments = parser.parse_args()
    print(machine())
    rows = []
    for pending in map(int, arguments.pending.split(",")):
        with ExitStack() as parts:
            pair = Pair(parts, pending, arguments.takeover_after)
            if arguments.kills:
                times = [pair.kill() for _ in range(arguments.kills)]
                rows.append(measured(f"kill -9, {pending:,} pending", times))
            if arguments.handovers:
                times = [pair.hand_over() for _ in range(arguments.handovers)]
                rows.append(measured(f"handover, {pending:,} pending", times))
    remove_template()
    print(table("Nothing is acknowledged for", ["", "median, s", "longest, s", "times"], rows))


if __name__ == "__main__":
    main()
