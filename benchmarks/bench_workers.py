"""Workers beside Celery, RQ and Dramatiq: empty jobs, durable, eight handlers at a time.

    python benchmarks/bench_workers.py [--jobs 20000] [--repeats 3]

Each contestant has a server process on this machine that syncs to disk before it answers: ours with
its defaults, the others Redis with `appendfsync always` (Debian: redis-server). Its jobs are
submitted by this process, *submit* is how many a second. Then one worker is started with eight
handlers at a time, threads or what the contestant has; *done* is how many jobs a second it ends,
from the tenth part of them on until none is left at the server. The contestants take turns; figures
are medians. Peers that are not installed are left out: pip install celery rq dramatiq.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from bench_service import free_port
from harness import machine, table
from service_peers import Process
from worker_peers import CONCURRENCY, PEERS, Contestant, Ours

OURS = "timer-purgatory"
# Jobs of a contestant of ours for each of a peer, which would take long.
SLOWER = 5


def contestants() -> dict[str, Callable[[Path, int], Contestant]]:
    """Return what is installed: name -> how to start it."""
    found: dict[str, Callable[[Path, int], Contestant]] = {OURS: Ours}
    if shutil.which("redis-server") and find_spec("redis"):
        found |= {name: peer for name, peer in PEERS.items() if find_spec(peer.package)}
    return found


def one_round(make: Callable[[Path, int], Contestant], count: int) -> dict[str, float]:
    """Submit jobs, then run them; returns rates."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contestant = make(directory, free_port())
        stack.callback(contestant.end)
        start = time.perf_counter()
        contestant.submit(count)
        submitted = count / (time.perf_counter() - start)
        worker = Process([sys.executable, *contestant.worker_command()], directory)
        stack.callback(worker.end)
        left = first = _wait_until(contestant, count * 9 // 10)
        start = time.perf_counter()
        while left:
            time.sleep(0.005)
            left = contestant.left()
        return {"submit": submitted, "done": first / (time.perf_counter() - start)}


def _wait_until(contestant: Contestant, most: int) -> int:
    """Wait until at most so many jobs are left; returns how many are."""
    while (left := contestant.left()) > most:
        time.sleep(0.005)
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contestants()}
    for _ in range(arguments.repeats):
        for name, make in contestants().items():
            count = arguments.jobs if name == OURS else arguments.jobs // SLOWER
            rounds[name].append(one_round(make, count))
    medians = {
        name: {key: statistics.median(one[key] for one in taken) for key in taken[0]}
        for name, taken in rounds.items()
    }
    print(machine())
    ours = medians[OURS]
    rows = [
        [name, *(f"{each[key]:,.0f} ({ours[key] / each[key]:.1f})" for key in ("submit", "done"))]
        for name, each in medians.items()
    ]
    title = f"Jobs a second, {CONCURRENCY} handlers at a time (ours as a multiple)"
    print(table(title, ["", "submit", "done"], rows))


if __name__ == "__main__":
    main()
