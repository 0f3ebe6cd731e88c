"""How long another client waits while many jobs of a tag are cancelled.

    python benchmarks/bench_cancel_jobs.py [--jobs 100000] [--repeats 3]

A server over SQLite, a process. One client has scheduled the jobs; another, a process too, submits
one operation after the other, each on disk before the next. *Alone*: before the cancellation;
*beside it*: from its request to its answer. Milliseconds; medians of the rounds.
"""

import argparse
import statistics
import subprocess
import sys
import time

from bench_service import Service, running
from harness import machine, table
from service_peers import READY

from purgatory.service import Client

# Prints the moment and the milliseconds of each submit, when its input has ended.
NEIGHBOUR = """
import sys, threading, time
from purgatory.service import Client
waits = []
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
with Client(sys.argv[1], name="neighbour") as client:
    client.stats()
    print("ready", flush=True)
    while not ended.is_set():
        began = time.monotonic()
        client.submit("key", timeout=3600)
        waits.append((began, 1000 * (time.monotonic() - began)))
for wait in waits:
    print(*wait)
"""
ALONE_S = 2.0


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rounds = [one_round(arguments.jobs) for _ in range(arguments.repeats)]
    rows = [[name, *figures([one[name] for one in rounds])] for name in ("alone", "beside it")]
    print(machine())
    title = f"A submit while {arguments.jobs:,} jobs are cancelled, ms"
    print(table(title, ["", "p50", "p99", "longest"], rows))
    seconds = statistics.median(one["seconds"][0] for one in rounds)
    print(f"The cancellations took {seconds:.2f} s.")


def one_round(jobs: int) -> dict[str, list[float]]:
    """Return the waits alone and beside the cancellation, and how long this took."""
    limit = str(jobs + 10**6)
    most = ("--max-pending", limit, "--max-pending-per-client", limit)
    with running(lambda directory, port: Service(directory, port, *most)) as service:
        for _ in range(jobs):
            service.client.schedule_later(3600, kind="mail", tags=["red"])
        service.client.flush(READY)
        return measure(service.client, jobs)


def measure(client: Client, jobs: int) -> dict[str, list[float]]:
    """Cancel the jobs beside a neighbour."""
    command = [sys.executable, "-c", NEIGHBOUR, client.address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as neighbour:
        assert neighbour.stdout is not None
        neighbour.stdout.readline()  # it has begun
        time.sleep(ALONE_S)
        began = time.monotonic()
        assert client.cancel_jobs(tag="red") == jobs
        ended = time.monotonic()
        output, _ = neighbour.communicate()
    waits = [tuple(map(float, line.split())) for line in output.splitlines()]
    return {
        "alone": [wait for at, wait in waits if at + wait / 1000 < began],
        "beside it": [wait for at, wait in waits if at < ended and at + wait / 1000 > began],
        "seconds": [ended - began],
    }


def figures(rounds: list[list[float]]) -> list[str]:
    """Return p50, p99 and the longest of the waits, as medians of the rounds that have waits."""
    found = [
        (waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1])
        for waits in map(sorted, rounds)
        if waits
    ]
    columns = zip(*found, strict=True) if found else [[float("nan")]] * 3
    return [f"{statistics.median(column):.2f}" for column in columns]


if __name__ == "__main__":
    main()
