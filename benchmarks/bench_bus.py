"""`complete_later` beside `complete`: what it costs the thread that completes.

    python benchmarks/bench_bus.py [--operations 80000] [--repeats 5]

So many operations, each waiting for a key of its own, are completed from one thread or from eight;
the purgatory is started, and its loop does what is posted. *Handed over*: wall nanoseconds for one
until the calls have returned, and *done*: until all operations are complete. With `complete` these
are the same. A ratio is the median over the rounds, each a fresh process for both.
"""

import argparse
import json
import statistics
import threading
import time

from harness import machine, measure, table

from purgatory import Purgatory

WAYS = ("complete", "complete_later")
THREADS = (1, 8)
TIMEOUT = 3600.0  # nothing expires here


def one_run(way: str, threads: int, count: int) -> dict[str, float]:
    """Complete ``count`` operations from so many threads; nanoseconds for one."""
    share = max(1, count // threads)
    total = share * threads
    with Purgatory() as purgatory:
        futures = [purgatory.defer(number, timeout=TIMEOUT) for number in range(total)]
        call = getattr(purgatory, way)
        start_line = threading.Barrier(threads + 1)

        def complete(first: int) -> None:
            start_line.wait()
            for key in range(first, first + share):
                call(key)

        workers = [
            threading.Thread(target=complete, args=(number * share,)) for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        start_line.wait()
        start = time.perf_counter_ns()
        for worker in workers:
            worker.join()
        handed_over = time.perf_counter_ns() - start
        for future in futures:
            future.result()
        done = time.perf_counter_ns() - start
    return {"handed over": handed_over / total, "done": done / total}


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--operations", type=int, default=80_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.one:
        way, *numbers = options.one
        print(json.dumps(one_run(way, *map(int, numbers))))
        return
    print(f"## Command bus ({machine()}; median of {options.repeats})")
    runs = {(way, threads): list[dict[str, float]]() for threads in THREADS for way in WAYS}
    for _ in range(options.repeats):
        for (way, threads), taken in runs.items():
            taken.extend(measure(__file__, [way, threads, options.operations], 1))
    for kind in ("handed over", "done"):
        report(kind, runs)


def report(kind: str, runs: dict[tuple[str, int], list[dict[str, float]]]) -> None:
    """One table: a column for each number of threads, and the ratio of the two ways."""
    figures = {key: [run[kind] for run in taken] for key, taken in runs.items()}
    rows = [
        [f"{way}, ns", *(f"{statistics.median(figures[way, n]):,.0f}" for n in THREADS)]
        for way in WAYS
    ]
    pairs = [zip(figures[WAYS[1], n], figures[WAYS[0], n], strict=True) for n in THREADS]
    times = [f"{statistics.median(later / now for later, now in pair):.2f}" for pair in pairs]
    rows.append(["complete_later, times complete", *times])
    columns = [f"{n} thread{'s'[: n - 1]}" for n in THREADS]
    print(table(kind.capitalize(), ["", *columns], rows))


if __name__ == "__main__":
    main()
