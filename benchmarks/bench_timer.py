"""The Timer beside asyncio, a heap and sched: schedule, cancel, drain, memory, lateness, stalls.

    python benchmarks/bench_timer.py [--sizes 10000,100000,1000000] [--repeats 3] [--seconds 5]

Times are CPU nanoseconds of the process for one timer. *Drain*: timers of 1 to 1000 ms, all due
when it starts, each calling an empty function; ours in its worker thread. *Lateness*: 1000 timers
a second, wall time. *Stall*: the longest of many ``schedule`` calls in one thread
while what is due drains in two others.
"""

import argparse
import gc
import json
import random
import statistics
import threading
import time
from functools import partial

from harness import machine, measure, median, ratios, resident_bytes, table
from peers import PEERS

from timingwheel import Timer

SLOW_CANCELS = 20  # sched looks through its whole queue for each
SLOW_LIMIT = 100_000  # and takes minutes for more


def noop() -> None:
    """What the timers call."""


def one_fill(peer_name: str, size: int) -> dict[str, float]:
    """Schedule ``size`` timers far ahead, weigh them, cancel them in random order."""
    chance = random.Random(size)
    delays = [chance.uniform(60, 120) for _ in range(size)]
    peer = PEERS[peer_name]()
    gc.collect()
    before = resident_bytes()
    start = time.process_time_ns()
    handles = peer.schedule(delays, noop)
    scheduled = time.process_time_ns() - start
    weight = (resident_bytes() - before) / size - 8  # our list of handles
    chance.shuffle(handles)
    doomed = handles[:SLOW_CANCELS] if peer_name == "sched" else handles
    start = time.process_time_ns()
    for handle in doomed:
        peer.cancel(handle)
    cancelled = time.process_time_ns() - start
    return {
        "schedule": scheduled / size,
        "cancel": cancelled / len(doomed),
        "bytes": weight,
    }


def one_drain(peer_name: str, size: int) -> dict[str, float]:
    """Run ``size`` timers that are all due."""
    chance = random.Random(size)
    peer = PEERS[peer_name]()
    peer.schedule([chance.uniform(0.001, 1) for _ in range(size)], noop)
    threading.Event().wait(1.1)
    start = time.process_time_ns()
    peer.drain()
    return {"drain": (time.process_time_ns() - start) / size}


def one_lateness(peer_name: str, count: int) -> dict[str, float]:
    """Fire ``count`` timers, one a millisecond; how late each was, in milliseconds."""
    peer = PEERS[peer_name]()
    late: list[float] = []
    for number in range(count):
        delay = 0.5 + number / 1000
        due = time.monotonic() + delay
        peer.schedule([delay], partial(note_lateness, late, due))
    if peer_name == "asyncio":
        peer.schedule([0.6 + count / 1000], peer.loop.stop)  # type: ignore[attr-defined]
        peer.loop.run_forever()  # type: ignore[attr-defined]
    else:
        peer.drain()
    late.sort()
    return {
        "p50": statistics.median(late),
        "p99": late[int(len(late) * 0.99)],
        "max": late[-1],
        "early": sum(value < 0 for value in late),
    }


def note_lateness(late: list[float], due: float) -> None:
    """What the timers of the lateness test call."""
    late.append((time.monotonic() - due) * 1000)


def one_stall(due: int) -> dict[str, float]:
    """Drain ``due`` timers in the timer's threads; the longest ``schedule`` beside it, in ms."""
    timer = Timer()
    chance = random.Random(due)
    for _ in range(due):
        timer.schedule(chance.uniform(0.001, 1), noop)
    threading.Event().wait(1.1)
    worst, adds = 0.0, 0
    timer.start()
    while timer.stats().fired < due:
        start = time.perf_counter()
        timer.schedule(60, noop)
        worst = max(worst, time.perf_counter() - start)
        adds += 1
    timer.close()
    return {"longest_add_ms": worst * 1000, "adds": adds}


MEASURES = {"fill": one_fill, "drain": one_drain, "lateness": one_lateness}


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    if options.one:
        kind, *rest = options.one
        if kind == "stall":
            print(json.dumps(one_stall(int(rest[0]))))
        else:
            print(json.dumps(MEASURES[kind](rest[0], int(rest[1]))))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"## Timer ({machine()}; median of {options.repeats})")
    report_costs(sizes, options.repeats)
    report_lateness(int(options.seconds * 1000), options.repeats)
    report_stalls(sizes, options.repeats)


def report_costs(sizes: list[int], repeats: int) -> None:
    """Schedule, cancel, drain and bytes, as ratios."""
    figures: dict[str, dict[str, list[float | None]]] = {
        kind: {peer: [] for peer in PEERS} for kind in ("schedule", "cancel", "drain", "bytes")
    }
    for size in sizes:
        for peer in PEERS:
            run: dict[str, float] = {}
            if peer != "sched" or size <= SLOW_LIMIT:
                run |= median(measure(__file__, ["fill", peer, size], repeats))
                run |= median(measure(__file__, ["drain", peer, size], repeats))
            for kind, by_peer in figures.items():
                by_peer[peer].append(run.get(kind))
    columns = [f"{size:,}" for size in sizes]
    for kind, by_peer in figures.items():
        unit = "bytes a timer" if kind == "bytes" else "ns a timer"
        print(ratios(kind.capitalize(), unit, columns, by_peer))


def report_lateness(count: int, repeats: int) -> None:
    """Milliseconds after the due time."""
    rows = []
    for peer in PEERS:
        run = median(measure(__file__, ["lateness", peer, count], repeats))
        rows.append(
            [peer, *(f"{run[key]:.2f}" for key in ("p50", "p99", "max")), f"{run['early']:.0f}"]
        )
    print(table("Lateness at 1000 timers/s, ms", ["", "p50", "p99", "max", "early"], rows))


def report_stalls(sizes: list[int], repeats: int) -> None:
    """The longest wait of an add beside a drain."""
    rows = []
    for due in sizes:
        run = median(measure(__file__, ["stall", due], repeats))
        rows.append([f"{due:,}", f"{run['longest_add_ms']:.1f}", f"{run['adds']:,.0f}"])
    print(table("Longest schedule() while N are due, ms", ["N", "longest", "calls"], rows))


if __name__ == "__main__":
    main()
