"""Re-arm pending timers to a later deadline, in random order, as heartbeats do.

    python benchmarks/bench_rearm.py [--sizes 10000,1000000] [--repeats 5]

CPU nanoseconds of the process for one timer: ours by `Timer.reschedule`, by `Timer.add`, and as
cancel and schedule; asyncio's cancel and `call_later`. In each round the contestants take turns,
each in a fresh process.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable
from typing import Any

from harness import machine, measure, median, ratios

from timingwheel import InlineExecutor, Timer

LATER_S = 300.0


def noop() -> None:
    """Do nothing; the callback of the timers."""


def reschedule(timer: Timer, tasks: list[Any]) -> None:
    move = timer.reschedule
    for task in tasks:
        move(task, LATER_S)


def add_again(timer: Timer, tasks: list[Any]) -> None:
    add = timer.add
    for task in tasks:
        add(task)


def cancel_and_schedule(timer: Timer, tasks: list[Any]) -> None:
    schedule = timer.schedule
    for number, task in enumerate(tasks):
        task.cancel()
        tasks[number] = schedule(LATER_S, noop)


OURS: dict[str, Callable[[Timer, list[Any]], None]] = {
    "timingwheel": reschedule,
    "add again": add_again,
    "cancel and schedule": cancel_and_schedule,
}


def one(contestant: str, size: int) -> dict[str, float]:
    """Measure one contestant with `size` pending timers."""
    chance = random.Random(size)
    delays = [chance.uniform(60, 120) for _ in range(size)]
    if contestant == "asyncio":
        return {"rearm": asyncio_rearm(chance, delays)}
    timer = Timer(executor=InlineExecutor())
    tasks = [timer.schedule(delay, noop) for delay in delays]
    chance.shuffle(tasks)
    start = time.process_time_ns()
    OURS[contestant](timer, tasks)
    return {"rearm": (time.process_time_ns() - start) / size}


def asyncio_rearm(chance: random.Random, delays: list[float]) -> float:
    """Cancel and schedule the timers of an event loop; ns a timer."""
    loop = asyncio.new_event_loop()
    handles = [loop.call_later(delay, noop) for delay in delays]
    chance.shuffle(handles)
    start = time.process_time_ns()
    for number, handle in enumerate(handles):
        handle.cancel()
        handles[number] = loop.call_later(LATER_S, noop)
    taken = time.process_time_ns() - start
    loop.close()
    return taken / len(delays)


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="10000,1000000")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], int(options.one[1]))))
        return
    sizes = options.sizes.split(",")
    print(f"## Re-arming ({machine()}; median of {options.repeats})")
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(options.repeats):
        for size in sizes:
            for contestant in (*OURS, "asyncio"):
                found = measure(__file__, [contestant, size], 1)
                runs.setdefault((contestant, size), []).extend(found)
    figures: dict[str, list[float | None]] = {
        contestant: [median(runs[contestant, size])["rearm"] for size in sizes]
        for contestant in (*OURS, "asyncio")
    }
    print(ratios("Re-arm", "ns a timer", sizes, figures))


if __name__ == "__main__":
    main()
