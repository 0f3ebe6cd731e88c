"""Workers that come and go under a steady load of jobs: nothing is left over, memory stays flat.

    python benchmarks/soak_workers.py [--seconds 600] [--rate 1000] [--json FILE]

This process schedules `--rate` jobs a second, each due at once or within two seconds; one in fifty
fails at its first attempt. Three workers run them, each a process; every few seconds one is killed
or told to end, by turns, and another one is started. A minute by minute table says how many jobs
were done, how late they began, and the memory of the server. At the end every job that was
scheduled is done: none is pending, leased, dead or unacknowledged. The exit code is 1 if some is.

The server remembers ended operations for a while, up to a number of them, so that what is submitted
again is known: memory grows until that is full, and is flat from then on.
"""

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench_service import free_port
from harness import machine, table
from service_peers import Process

from purgatory.service import Client
from purgatory.service.errors import ServiceError

WORKERS = 3
# Seconds between two ends of a worker, and of a lease.
TURNOVER_S = 5.0
LEASE_S = 2.0
# Seconds within which the last jobs should be done.
DRAIN_S = 60.0

# Appends a line for each attempt that succeeds: the job, and how late it began, in milliseconds.
WORKER = """
import os, signal, sys, time
from purgatory.service import Worker

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
address, lease = sys.argv[1], float(sys.argv[3])
worker = Worker(address, name="jobs", lease=lease, retry_delay=0.01, max_attempts=100)

@worker.on("work")
def run(job):
    if job.payload and job.attempt == 1:
        raise ValueError("as it was told")
    late_ms = int(time.time() * 1000) - job.due_ms if job.attempt == 1 else 0
    os.write(log, f"{job.id} {late_ms}\\n".encode())

signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.start()
worker.wait()
"""


class Workers:
    """Processes that run jobs; one at a time ends, and another one begins."""

    def __init__(self, address: str, directory: Path) -> None:
        self._log = directory / "log"
        self._log.touch()
        self._command = [sys.executable, "-c", WORKER, address, str(self._log), str(LEASE_S)]
        self._processes = [self._start() for _ in range(WORKERS)]
        self._ending: list[subprocess.Popen[bytes]] = []
        self.ended = {"killed": 0, "stopped": 0}

    def _start(self) -> "subprocess.Popen[bytes]":
        quiet = subprocess.DEVNULL
        return subprocess.Popen(self._command, stdout=quiet, stderr=quiet)

    def turn_over(self, number: int) -> None:
        """Kill a worker, or tell it to end, and start another one."""
        process = self._processes.pop(0)
        killed = number % 2 == 0
        process.kill() if killed else process.terminate()
        self.ended["killed" if killed else "stopped"] += 1
        self._ending = [one for one in self._ending if one.poll() is None] + [process]
        self._processes.append(self._start())

    def done(self) -> list[tuple[str, int]]:
        """Return what the handlers have done: the job, and how late it began, in milliseconds."""
        lines = self._log.read_text(encoding="ascii").splitlines()
        return [(job, int(late)) for job, late in map(str.split, lines)]

    def end(self) -> None:
        """End them all."""
        for process in self._processes + self._ending:
            process.kill()
            process.wait()


class Load:
    """Schedules jobs at a rate; `scheduled` counts them."""

    def __init__(self, client: Client, rate: float) -> None:
        self._client = client
        self._rate = rate
        self._random = random.Random(17)
        self._start = time.monotonic()
        self.scheduled = 0

    def run_until(self, end: float) -> None:
        """Schedule what is due until then; waits for each answer, some later."""
        replies = []
        while (now := time.monotonic()) < end:
            due = int((now - self._start) * self._rate)
            for _ in range(due - self.scheduled):
                delay = self._random.choice((0, 0.1, 0.5, 2.0))
                fails = self._random.random() < 0.02
                replies.append(self._client.schedule_later(delay, kind="work", payload=fails))
            self.scheduled = max(due, self.scheduled)
            time.sleep(0.01)
        for reply in replies:
            reply.result(DRAIN_S)


def memory_mb(pid: int) -> float:
    """Return the memory of a process that is its own."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def soak(seconds: float, rate: float, directory: Path, stack: ExitStack) -> dict[str, object]:
    """Run the load, print a row a minute, and return the figures of the end."""
    address = f"tcp://127.0.0.1:{free_port()}"
    flags = ["--data-dir", str(directory / "data"), "--bind", address, "--http-bind", ""]
    server = Process([sys.executable, "-m", "purgatory", "serve", *flags], directory)
    stack.callback(server.end)
    client = stack.enter_context(Client(address, name="jobs", timeout=DRAIN_S))
    client.stats()
    workers = Workers(address, directory)
    stack.callback(workers.end)
    load = Load(client, rate)
    start = time.monotonic()
    rows: list[list[str]] = []
    memory: list[float] = []
    for number in itertools.count():
        load.run_until(min(start + seconds, start + (number + 1) * TURNOVER_S))
        memory.append(memory_mb(server.pid))
        passed = time.monotonic() - start
        if passed >= seconds:
            break
        workers.turn_over(number)
        if int(passed / 60) > len(rows):
            rows.append(_row(passed, load, client, memory[-1]))
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    left = _drain(client)
    print(table("The load", ["after, s", "scheduled", "not done", "server, MB"], rows))
    return _figures(load, workers, left, memory)


def _row(passed: float, load: Load, client: Client, memory: float) -> list[str]:
    stats = client.stats()
    left = stats["pending"] + stats["unacknowledged"]
    return [f"{passed:.0f}", f"{load.scheduled:,}", f"{left:,.0f}", f"{memory:.0f}"]


def _drain(client: Client) -> dict[str, float]:
    """Wait for the last jobs; returns what is left."""
    deadline = time.monotonic() + DRAIN_S
    names = ("pending", "unacknowledged")
    while True:
        stats = client.stats()
        left = {name: stats[name] for name in names} | {
            "dead": len(client.jobs_page(state="dead").jobs)
        }
        if not any(left.values()) or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _figures(
    load: Load, workers: Workers, left: dict[str, float], memory: list[float]
) -> dict[str, object]:
    done = workers.done()
    late = sorted(late for _, late in done)
    ids = {job for job, _ in done}
    third = len(memory) // 3
    return {
        "scheduled": load.scheduled,
        "done": len(ids),
        "done twice": len(done) - len(ids),
        **left,
        **workers.ended,
        "late ms p50": late[len(late) // 2],
        "late ms p99": late[len(late) * 99 // 100],
        "server MB, first third": round(statistics.median(memory[:third] or memory), 1),
        "server MB, second third": round(statistics.median(memory[third : 2 * third] or memory), 1),
        "server MB, last third": round(statistics.median(memory[2 * third :]), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(machine())
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            figures = soak(arguments.seconds, arguments.rate, directory, stack)
        except ServiceError as error:
            print(error, file=sys.stderr)
            return 1
    print(table("At the end", ["", ""], [[name, f"{value:,}"] for name, value in figures.items()]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures), encoding="utf-8")
    lost = figures["scheduled"] != figures["done"]
    return int(lost or any(figures[name] for name in ("pending", "unacknowledged", "dead")))


if __name__ == "__main__":
    sys.exit(main())
