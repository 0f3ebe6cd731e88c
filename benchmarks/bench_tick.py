"""What a shorter tick buys, and what it costs: the choice of `DEFAULT_TICK_MS`.

    python benchmarks/bench_tick.py [--seconds 3] [--repeats 5]

1000 timers a second with random delays, in a started timer with its own worker: how late they are,
how often a thread is woken, and CPU time for one timer. asyncio beside it. In each round the ticks
take turns, each in a fresh process.
"""

import argparse
import asyncio
import json
import random
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import machine, measure, median, table

from timingwheel import Timer

TICKS_MS = (1.0, 0.5, 0.2, 0.1, 0.05)
PER_SECOND = 1000
PORTION = 100  # scheduled together, ten times a second


def one(tick: str, seconds: int) -> dict[str, float]:
    """Measure one tick in milliseconds, or "asyncio"."""
    chance = random.Random(seconds)
    delays = [chance.uniform(0.05, 0.5) for _ in range(PER_SECOND * seconds)]
    late: list[int] = []

    def fire(due_ns: int) -> None:
        late.append(time.monotonic_ns() - due_ns)

    before = resource.getrusage(resource.RUSAGE_SELF)
    if tick == "asyncio":
        asyncio.run(in_event_loop(delays, fire))
    else:
        in_timer(float(tick), delays, fire)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    hundredths = statistics.quantiles(late, n=100)
    return {
        "p50_ms": hundredths[49] / 1e6,
        "p99_ms": hundredths[98] / 1e6,
        "early": sum(late_ns < 0 for late_ns in late),
        "wakeups": (after.ru_nvcsw - before.ru_nvcsw) / seconds,
        "cpu_us": cpu_s / len(late) * 1e6,
    }


def portions(delays: list[float]) -> list[list[float]]:
    return [delays[start : start + PORTION] for start in range(0, len(delays), PORTION)]


def in_timer(tick_ms: float, delays: list[float], fire: Callable[[int], None]) -> None:
    with Timer(tick_ms=tick_ms) as timer:
        for portion in portions(delays):
            for delay in portion:
                timer.schedule(delay, fire, time.monotonic_ns() + int(delay * 1e9))
            time.sleep(PORTION / PER_SECOND)
        timer.close(cancel_pending=False)


async def in_event_loop(delays: list[float], fire: Callable[[int], None]) -> None:
    loop = asyncio.get_running_loop()
    for portion in portions(delays):
        for delay in portion:
            loop.call_later(delay, fire, time.monotonic_ns() + int(delay * 1e9))
        await asyncio.sleep(PORTION / PER_SECOND)
    await asyncio.sleep(max(delays))


def report(seconds: int, repeats: int) -> str:
    """Measure all, and return a table."""
    contestants = [*map(str, TICKS_MS), "asyncio"]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name in contestants:
            runs[name] += measure(__file__, [name, seconds], 1)
    rows = [[name, *(f"{figure:.2f}" for figure in median(runs[name]).values())] for name in runs]
    head = ["tick, ms", "p50, ms", "p99, ms", "early", "wake-ups/s", "CPU us a timer"]
    return table(f"{PER_SECOND} timers a second, medians", head, rows)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("TICK", "SECONDS"))
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], int(options.one[1]))))
    else:
        print(machine())
        print(report(options.seconds, options.repeats))


if __name__ == "__main__":
    main()
