"""One thread and two on a Python without the interpreter lock, beside one that has it.

    python benchmarks/bench_free_threading.py [--beside PYTHON] [--operations 100000] [--repeats 5]

Run it by a free-threaded Python. `--beside`: another Python that has the package, such as the same
version with the lock; its speed with one thread is compared. The contestants take turns, each in a
fresh process. Wall time, because threads that wait for each other use none of the processor's.

With two threads each does as much as one does alone, so twice the rate is the best there can be.
The bare loop, which is Python code that shares nothing, shows what the machine itself gives.

With one thread everything is measured once more while the cycle collector is off. Without the
interpreter lock each of its passes is over all objects of the process, its modules too.
"""

import argparse
import gc
import itertools
import json
import sys
import sysconfig
import threading
import time
from collections.abc import Callable

from harness import machine, median, run, table

from purgatory import Purgatory
from timingwheel import InlineExecutor, Timer

DELAY_S = 60.0

# What a thread does so many times.
Work = Callable[[int], object]


def noop() -> None:
    """Do nothing; the callback of the timers."""


def new_timer() -> Timer:
    return Timer(executor=InlineExecutor())


def bare_loop() -> Work:
    """Return work that shares nothing with another thread."""

    def work(count: int) -> None:
        found = 0
        for _ in itertools.repeat(None, 50 * count):  # small numbers: nothing is allocated
            found = (found + 7) & 127

    return work


def schedule_and_cancel(timer: Timer) -> Work:
    def work(count: int) -> None:
        schedule = timer.schedule

        def callback() -> None:
            """Do nothing. One for each thread: else they count references to the same object."""

        for _ in range(count):
            schedule(DELAY_S, callback).cancel()

    return work


def defer_and_complete(purgatory: Purgatory, prefix: int) -> Work:
    def work(count: int) -> None:
        defer, complete = purgatory.defer, purgatory.complete
        for key in range(prefix, prefix + count):
            defer(key, timeout=DELAY_S)
            complete(key)

    return work


def bare_loops(threads: int) -> list[Work]:
    return [bare_loop() for _ in range(threads)]


def timers_each(threads: int) -> list[Work]:
    return [own_timer] * threads


def own_timer(count: int) -> None:
    """Work of a thread that makes its timer itself, as programs with a timer a thread do."""
    schedule_and_cancel(new_timer())(count)


def shared_timer(threads: int) -> list[Work]:
    timer = new_timer()
    return [schedule_and_cancel(timer)] * threads


def shared_purgatory(threads: int) -> list[Work]:
    purgatory = Purgatory(timer=new_timer())
    return [defer_and_complete(purgatory, number * 10**9) for number in range(threads)]


SCALING: dict[str, Callable[[int], list[Work]]] = {
    "bare loop": bare_loops,
    "a timer each": timers_each,
    "shared timer": shared_timer,
    "shared purgatory": shared_purgatory,
}
ONE_THREAD = ("schedule", "cancel", "defer and complete")
COLLECTOR_OFF = ", collector off"
# The rows of two threads have so many times the operations: 100,000 take 80 ms, making the timers
# included, and are too few for what has to be found out.
SCALING_RUNS = 10


def rate_of(works: list[Work], count: int) -> float:
    """Return how often all threads together do their work in a second."""
    ready = threading.Barrier(len(works))
    moments: list[float] = []

    def body(work: Work) -> None:
        work(100)
        ready.wait()
        moments.append(time.perf_counter())
        work(count)
        moments.append(time.perf_counter())

    threads = [threading.Thread(target=body, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(works) * count / (max(moments) - min(moments))


def one_thread(count: int) -> dict[str, float]:
    """Return nanoseconds for each operation of `ONE_THREAD`."""
    timer = new_timer()
    schedule_and_cancel(timer)(count // 10)
    schedule = timer.schedule
    start = time.perf_counter_ns()
    tasks = [schedule(DELAY_S + number % 9973 * 0.001, noop) for number in range(count)]
    scheduled = time.perf_counter_ns()
    for task in tasks:
        task.cancel()
    cancelled = time.perf_counter_ns()
    defer_and_complete(Purgatory(timer=timer), 0)(count)
    paired = time.perf_counter_ns()
    times = (scheduled - start, cancelled - scheduled, paired - cancelled)
    return {name: taken / count for name, taken in zip(ONE_THREAD, times, strict=True)}


def collector_off(count: int) -> dict[str, float]:
    """Return the same as `one_thread`, without the collector's part."""
    gc.disable()
    return {name + COLLECTOR_OFF: taken for name, taken in one_thread(count).items()}


def one(what: str, threads: int, count: int) -> dict[str, float]:
    """Measure one row in this process."""
    if what in SCALING:
        return {"rate": rate_of(SCALING[what](threads), count)}
    return collector_off(count) if what == COLLECTOR_OFF else one_thread(count)


def scaling_rows(rates: dict[tuple[str, int], float]) -> list[list[str]]:
    """Return the rows of the table of one thread and two."""
    return [
        [name, f"{rates[name, 1]:,.0f}", f"{rates[name, 2]:,.0f}", _ratio(rates, name)]
        for name in SCALING
    ]


def _ratio(rates: dict[tuple[str, int], float], name: str) -> str:
    return f"{rates[name, 2] / rates[name, 1]:.2f}"


def measure_all(
    beside: str | None, count: int, repeats: int
) -> tuple[dict[tuple[str, int], float], dict[str, dict[str, float]]]:
    """Return the rates of `SCALING` and the nanoseconds of `ONE_THREAD`; medians."""
    pythons = {"this": sys.executable} | ({"beside": beside} if beside else {})
    rates: dict[tuple[str, int], list[dict[str, float]]] = {}
    alone: dict[str, list[dict[str, float]]] = {}
    for _ in range(repeats):
        for name, python in pythons.items():
            found: dict[str, float] = {}
            for what in ("one thread", COLLECTOR_OFF):
                found |= run([python, __file__, "--one", what, "1", str(count)])
            alone.setdefault(name, []).append(found)
        for name in SCALING:
            for threads in (1, 2):
                many = str(SCALING_RUNS * count)
                found = run([sys.executable, __file__, "--one", name, str(threads), many])
                rates.setdefault((name, threads), []).append(found)
    return (
        {row: median(runs)["rate"] for row, runs in rates.items()},
        {name: median(runs) for name, runs in alone.items()},
    )


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--beside", metavar="PYTHON")
    parser.add_argument("--operations", type=int, default=100_000, help="of each thread")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], *map(int, options.one[1:]))))
        return
    print(f"## Without the interpreter lock ({machine()}; median of {options.repeats})")
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        print("\nThis Python has the interpreter lock: two threads share one processor.")
    rates, alone = measure_all(options.beside, options.operations, options.repeats)
    names = [*ONE_THREAD, *(name + COLLECTOR_OFF for name in ONE_THREAD)]
    rows = [[name, *(f"{figures[name]:,.0f}" for figures in alone.values())] for name in names]
    if options.beside:
        for row, name in zip(rows, names, strict=True):
            row.append(f"{alone['beside'][name] / alone['this'][name]:.2f}")
    head = ["ns, one thread", "this", *(["beside", "speed"] if options.beside else [])]
    print(table("One thread", head, rows))
    print(table("Two threads", ["a second", "one", "two", "ratio"], scaling_rows(rates)))


if __name__ == "__main__":
    main()
