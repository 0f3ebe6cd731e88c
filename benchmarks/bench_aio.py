"""One wait in an event loop: `AsyncPurgatory` beside what programs write without it.

    python benchmarks/bench_aio.py [--waits 50000] [--ends 20000] [--repeats 5] [--loops LOOP ...]

*One wait*: CPU microseconds of the process for one wait and its completion, with one key and with
three, under asyncio and uvloop. *One after the other*: one task waits, and the loop completes what
it waits for in its next step. *A thousand at a time*: a thousand tasks wait, each again and again.
By hand is a dict of futures and `call_later`.

*Ends from a thread*: so many tasks wait for a key each, and another thread completes them all. The
longest step of the loop meanwhile, in time and in CPU time of its thread, and how long until all
tasks have ended.

Every figure is from a fresh process; a ratio is the median of those of each round.
"""

import argparse
import asyncio
import json
import statistics
import threading
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aio_peers import WAYS, Way
from harness import machine, measure, table

from purgatory.aio import AsyncPurgatory

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if find_spec("uvloop") is not None:  # not every Python has a wheel of it
    LOOPS["uvloop"] = import_module("uvloop").new_event_loop
KEYS = (1, 3)
TIMEOUT = 30.0
TASKS = 1000


async def one_after_the_other(way: Way, keys: int, count: int) -> float:
    """CPU microseconds for one wait of one task."""
    watched = tuple(f"key-{n}" for n in range(keys))
    call_soon = asyncio.get_running_loop().call_soon
    start = 0.0
    for number in range(count + count // 10):
        if number == count // 10:  # warm
            start = time.process_time()
        call_soon(way.complete, watched[number % keys], number)
        await way.wait(watched, TIMEOUT)
    return (time.process_time() - start) / count * 1e6


async def many_at_a_time(way: Way, keys: int, count: int) -> float:
    """CPU microseconds for one wait of each of many tasks."""
    rounds = max(1, count // TASKS)

    ended = 0

    async def work(task: int) -> None:
        nonlocal ended
        watched = tuple((task, n) for n in range(keys))
        for _ in range(rounds + 1):
            await way.wait(watched, TIMEOUT)
            ended += 1

    tasks = [asyncio.create_task(work(task)) for task in range(TASKS)]
    start = 0.0
    for number in range(rounds + 1):
        while ended < number * TASKS or not all(map(_waits, tasks)):
            await asyncio.sleep(0)
        if number == 1:  # warm
            start = time.process_time()
        for task in range(TASKS):
            way.complete((task, number % keys), number)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return (time.process_time() - start) / (rounds * TASKS) * 1e6


def _waits(task: "asyncio.Task[None]") -> bool:
    waiting = task._fut_waiter  # type: ignore[attr-defined]
    return waiting is not None and not waiting.done()


async def ends_from_a_thread(way: Way, count: int) -> dict[str, float]:
    """Milliseconds: the longest step of the loop, and until all have ended."""
    tasks = [asyncio.create_task(_wait(way, number)) for number in range(count)]
    all_ended = asyncio.gather(*tasks)  # takes a long step itself
    await asyncio.sleep(0.1)
    complete = way.complete_threadsafe if isinstance(way, AsyncPurgatory) else way.complete
    thread = threading.Thread(target=lambda: [complete(number, None) for number in range(count)])
    steps: list[tuple[float, float]] = []
    ticking = asyncio.create_task(_tick(steps))
    await asyncio.sleep(0)
    start = time.perf_counter()
    thread.start()
    await all_ended
    taken = time.perf_counter() - start
    ticking.cancel()
    thread.join()
    figures = {"longest step": max(wall for wall, _ in steps), "all": taken}
    figures["CPU"] = max(cpu for _, cpu in steps)
    return {figure: seconds * 1e3 for figure, seconds in figures.items()}


async def _wait(way: Way, number: int) -> None:
    await way.wait((number,), TIMEOUT)


async def _tick(steps: list[tuple[float, float]]) -> None:
    """Note how long each step of the loop takes, and how much CPU of the loop's thread."""
    before = time.perf_counter(), time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.perf_counter(), time.thread_time()
        steps.append((now[0] - before[0], now[1] - before[1]))
        before = now


def one_run(loop: str, way: str, what: str, keys: int, count: int) -> dict[str, float]:
    """Measure one thing, in this process."""

    async def work() -> dict[str, float]:
        async with WAYS[way]() as made:
            if what == "ends":
                return await ends_from_a_thread(made, count)
            measured: Callable[[Way, int, int], Coroutine[Any, Any, float]]
            measured = one_after_the_other if what == "one" else many_at_a_time
            return {"us": await measured(made, keys, count)}

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(work())


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--waits", type=int, default=50_000)
    parser.add_argument("--ends", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--loops", nargs="+", choices=list(LOOPS), default=list(LOOPS))
    options = parser.parse_args()
    if options.one:
        loop, way, what, keys, count = options.one
        print(json.dumps(one_run(loop, way, what, int(keys), int(count))))
        return
    for loop in set(LOOPS) - set(options.loops):
        del LOOPS[loop]
    print(f"## Event loops ({machine()}; median of {options.repeats})")
    report_waits("One wait, one after the other", "one", options.waits, options.repeats)
    report_waits("One wait, a thousand at a time", "many", options.waits, options.repeats)
    report_ends(options.ends, options.repeats)


def report_waits(title: str, what: str, count: int, repeats: int) -> None:
    """Print a table: microseconds of each way, and how many times those of by hand."""
    columns = [(loop, keys) for loop in LOOPS for keys in KEYS]
    runs = {(way, column): list[float]() for way in WAYS for column in columns}
    for _ in range(repeats):
        for (way, (loop, keys)), taken in runs.items():
            taken.append(measure(__file__, [loop, way, what, keys, count], 1)[0]["us"])
    rows = [[way, *(_cell(runs, way, column) for column in columns)] for way in WAYS]
    heads = [f"{loop}, {keys} key{'s'[: keys - 1]}" for loop, keys in columns]
    print(table(f"{title}: us, and times by hand", ["", *heads], rows))


def _cell(
    runs: dict[tuple[str, tuple[str, int]], list[float]], way: str, column: tuple[str, int]
) -> str:
    ours, by_hand = runs[way, column], runs["by hand", column]
    ratio = statistics.median(a / b for a, b in zip(ours, by_hand, strict=True))
    return f"{statistics.median(ours):.1f} ({ratio:.2f})"


def report_ends(count: int, repeats: int) -> None:
    """Print a table of ends from a thread."""
    rows = []
    for way in ("AsyncPurgatory", "wrap_future"):
        for loop in LOOPS:
            runs = measure(__file__, [loop, way, "ends", 1, count], repeats)
            figures = [
                statistics.median(run[figure] for run in runs)
                for figure in ("longest step", "CPU", "all")
            ]
            rows.append([f"{way}, {loop}", *(f"{figure:.1f}" for figure in figures)])
    print(
        table(
            f"{count:,} ends from a thread, ms",
            ["", "longest step", "longest step, CPU", "until all"],
            rows,
        )
    )


if __name__ == "__main__":
    main()
