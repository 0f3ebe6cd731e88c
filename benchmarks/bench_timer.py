"""The Timer beside asyncio, gevent, uvloop, a heap, sched, and two timers of the JVM.

    python benchmarks/bench_timer.py [--sizes 10000,...,3000000] [--repeats 3] [--seconds 5]

Times are CPU nanoseconds of the process for one timer; of the JVM those of the two threads that
work, when it is warm (see `Bench.java`). *Drain*: timers of 1 to 1000 ms, all due when it starts,
each calling an empty function; ours in its worker thread. *Collection*: CPU milliseconds of a full
`gc.collect()` with so many pending. *Lateness*: 1000 timers a second, wall time; ours also without
a worker thread, inline, as event loops run callbacks. *Stall*: the longest of many `schedule`
calls in one thread while what is due drains in others.

Netty has its default tick of 100 ms, at which it works in batches; for lateness, 1 ms. In each
round the contestants take turns, each in a fresh process. Sizes above a million are measured once.
What is not installed is left out.
"""

import argparse
import json
import statistics
import sys
from typing import Any

import jvm
from harness import keep, machine, median, ratios, run, table
from peers import INLINE, installed
from timer_work import STALL_EDGES, WORK, quantiles

SLOW_LIMIT = 100_000  # sched takes minutes for more
HUGE = 1_000_000  # measured once beyond it
PARTS = 200  # of the curves of lateness
KINDS = {
    "schedule": "ns a timer",
    "cancel": "ns a timer",
    "drain": "ns a timer",
    "bytes": "bytes a timer",
    "collection": "ms",
}
WEIGHED_FROM = 100_000  # fewer bytes are too small beside the pages of a process

Figures = dict[str, Any]


class Contest:
    """The contestants, and how each is measured."""

    def __init__(self, repeats: int, warm: int) -> None:
        self.repeats = repeats
        self.warm = warm
        self.python = installed()
        self.jvm: list[str] = []
        try:
            print(f"\nJVM: {jvm.version()}")
            jvm.command("fill", "jdk", 1, 0)
            self.jvm = list(jvm.PEERS)
        except jvm.NoJvm as error:
            print(f"\nWithout the JVM: {error}")

    def once(self, kind: str, peer: str, size: int) -> Figures:
        """Measure once, in a fresh process."""
        if peer in self.jvm:
            edges = STALL_EDGES if kind == "stall" else ()
            command = jvm.command(kind, peer, size, self.warm, edges)
        else:
            command = [sys.executable, __file__, "--one", kind, peer, str(size)]
        figures: Figures = run(command)
        return figures

    def rounds(self, kind: str, size: int, peers: list[str]) -> dict[str, list[Figures]]:
        """Measure all contestants in turn, several times."""
        runs: dict[str, list[Figures]] = {peer: [] for peer in peers}
        for _ in range(self.repeats if size <= HUGE else 1):
            for peer, done in runs.items():
                done.append(self.once(kind, peer, size))
        return runs


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="10000,100000,1000000,3000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of the lateness test")
    parser.add_argument("--warm", type=int, default=4, help="rounds for the JVM to warm up")
    parser.add_argument("--json", help="also write the figures there")
    options = parser.parse_args()
    if options.one:
        kind, peer, size = options.one
        print(json.dumps(WORK[kind](peer, int(size))))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"## Timer ({machine()}; median of {options.repeats})")
    contest = Contest(options.repeats, options.warm)
    figures = {
        "repeats": options.repeats,
        "sizes": sizes,
        "costs": costs(contest, sizes),
        "lateness": latenesses(contest, int(options.seconds * 1000)),
        "stalls": stalls(contest, sizes),
        "stall_edges": STALL_EDGES,
    }
    show(figures)
    keep(options.json, "timer", figures)


def costs(contest: Contest, sizes: list[int]) -> dict[str, dict[str, list[float | None]]]:
    """Return a figure for each size, by kind of cost and peer; None where there is none."""
    everyone = contest.python + contest.jvm
    figures: dict[str, dict[str, list[float | None]]] = {
        kind: {peer: [] for peer in (contest.python if kind == "collection" else everyone)}
        for kind in KINDS
    }
    for size in sizes:
        found: dict[str, Figures] = {peer: {} for peer in everyone}
        for work in ("fill", "drain", "collect"):
            peers = contest.python if work == "collect" else everyone
            peers = [peer for peer in peers if peer != "sched" or size <= SLOW_LIMIT]
            for peer, runs in contest.rounds(work, size, peers).items():
                found[peer] |= median(runs)
                if size < WEIGHED_FROM:
                    found[peer].pop("bytes", None)
        for kind, by_peer in figures.items():
            for peer, values in by_peer.items():
                values.append(found[peer].get(kind))
    return figures


def latenesses(contest: Contest, count: int) -> dict[str, Figures]:
    """Return for each peer the quantiles, medians over the rounds, and how many were early."""
    figures = {}
    everyone = [*contest.python, INLINE, *contest.jvm]
    for peer, runs in contest.rounds("lateness", count, everyone).items():
        curves = [quantiles(run["late"], PARTS) for run in runs]
        figures[peer] = {
            "quantiles": [statistics.median(values) for values in zip(*curves, strict=True)],
            "early": sum(late < 0 for run in runs for late in run["late"]),
            "count": sum(len(run["late"]) for run in runs),
        }
    return figures


def stalls(contest: Contest, sizes: list[int]) -> dict[str, list[Figures]]:
    """Return for each peer and size the longest call (median) and a histogram of all calls."""
    figures: dict[str, list[Figures]] = {peer: [] for peer in ["timingwheel", *contest.jvm]}
    for size in sizes:
        for peer, runs in contest.rounds("stall", size, list(figures)).items():
            figures[peer].append(
                {
                    "longest": statistics.median(run["longest"] for run in runs),
                    "calls": [
                        sum(calls) for calls in zip(*(r["calls"] for r in runs), strict=True)
                    ],
                }
            )
    return figures


def show(figures: Figures) -> None:
    """Print the tables."""
    columns = [f"{size:,}" for size in figures["sizes"]]
    for kind, by_peer in figures["costs"].items():
        print(ratios(kind.capitalize(), KINDS[kind], columns, by_peer))
    rows = []
    for peer, late in figures["lateness"].items():
        curve = late["quantiles"]
        marks = (curve[PARTS // 2], curve[PARTS * 99 // 100], curve[-1])
        rows.append(
            [peer, *(f"{mark:.2f}" for mark in marks), f"{late['early']} of {late['count']}"]
        )
    print(table("Lateness at 1000 timers/s, ms", ["", "p50", "p99", "max", "early"], rows))
    rows = [
        [peer, *(f"{stall['longest']:.1f}" for stall in by_size)]
        for peer, by_size in figures["stalls"].items()
    ]
    print(table("Longest schedule() while N are due, ms", ["", *columns], rows))


if __name__ == "__main__":
    main()
