"""The Purgatory compared with asyncio by hand: futures in a dict and `call_later`.

    python benchmarks/bench_purgatory.py [--sizes 10000,100000] [--pairs 100000] [--repeats 3]

*Pair*: with so many operations outstanding, one more is submitted and the oldest completed,
repeatedly; CPU nanoseconds of the process for a pair. *Expire*: so many operations, all due; CPU
nanoseconds for one. By hand, an operation with three keys is one entry under each of them.
`--one bytes NAME SIZE KEYS` prints the memory of one of so many.

Ours are a `KeyedOperation`, completed by `complete`; a subclass of `DelayedOperation` in Python,
with a condition that is checked twice at submission and by `check_and_complete`; and `defer`. Each
is called as a program would, without a star and without a function in between. By hand is the least
code that does the job; its loop never runs, so it does not pay for cleaning its heap.
"""

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Protocol

from harness import machine, measure, median, ratios, resident_bytes

from purgatory import DelayedOperation, KeyedOperation, Purgatory
from timingwheel import InlineExecutor, ManualClock, Timer

TIMEOUT = 60.0
Keys = tuple[int, ...]


class Contestant(Protocol):
    """What is measured: submitting, completing by key, and expiring."""

    def submit(self, keys: Keys) -> object:
        """Submit an operation that waits for any of `keys`."""

    @property
    def complete(self) -> Callable[[int], object]:
        """Completes what waits for a key."""

    def expire_all(self) -> Callable[[], object]:
        """Make all operations due, and return the function that expires them."""


class Satisfied(DelayedOperation):
    """Completes when it is checked, but not at its submission."""

    __slots__ = ("checks",)

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.checks = 0

    def try_complete(self) -> bool:
        """Complete at the third check: the first two are at submission."""
        self.checks += 1
        return self.checks > 2 and self.force_complete()


class Keyed:
    """`try_complete_else_watch` of a `KeyedOperation`, and `complete`.

    `clock`: None for the default one, which is read for each operation.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock
        self.purgatory = Purgatory(timer=Timer(clock=clock, executor=InlineExecutor()))
        self.complete: Callable[[int], object] = self.purgatory.complete

    def submit(self, keys: Keys) -> object:
        """See `Contestant`."""
        return self.purgatory.try_complete_else_watch(KeyedOperation(TIMEOUT), keys)

    def expire_all(self) -> Callable[[], object]:
        """See `Contestant`."""
        assert self.clock is not None
        self.clock.advance(2 * TIMEOUT)
        return self.purgatory.timer.advance_clock


class Conditions(Keyed):
    """`try_complete_else_watch` of a subclass, and `check_and_complete`."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self.complete = self.purgatory.check_and_complete

    def submit(self, keys: Keys) -> object:
        """See `Contestant`."""
        return self.purgatory.try_complete_else_watch(Satisfied(TIMEOUT), keys)


class Futures(Keyed):
    """`defer` and `complete`."""

    def submit(self, keys: Keys) -> object:
        """See `Contestant`."""
        if len(keys) == 1:
            return self.purgatory.defer(keys[0], timeout=TIMEOUT)
        return self.purgatory.defer(keys[0], keys[1], keys[2], timeout=TIMEOUT)


class ByHand:
    """A dict of futures and `call_later`, as many programs have."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.loop = asyncio.new_event_loop()
        self.waiting: dict[int, tuple[asyncio.Future[None], asyncio.TimerHandle, Keys]] = {}
        self.timeout = timeout

    def submit(self, keys: Keys) -> object:
        """See `Contestant`."""
        future = self.loop.create_future()
        entry = future, self.loop.call_later(self.timeout, self.expire, keys), keys
        for key in keys:
            self.waiting[key] = entry
        return future

    def complete(self, key: int) -> None:
        """See `Contestant`."""
        future, handle, keys = self.waiting[key]
        handle.cancel()
        for other in keys:
            del self.waiting[other]
        future.set_result(None)

    def expire(self, keys: Keys) -> None:
        """Cancel the future, so that asyncio does not warn of an unretrieved exception."""
        future = self.waiting[keys[0]][0]
        for key in keys:
            del self.waiting[key]
        future.cancel()

    def expire_all(self) -> Callable[[], object]:
        """See `Contestant`."""
        threading.Event().wait(self.timeout + 0.1)
        self.loop.call_later(0.0, self.loop.stop)
        return self.loop.run_forever


OURS: dict[str, type[Keyed]] = {
    "timingwheel": Keyed,
    "a condition in Python": Conditions,
    "defer and complete": Futures,
}
CONTESTANTS = [*OURS, "asyncio by hand"]


def one_pair(name: str, outstanding: int, keys: int, pairs: int) -> dict[str, float]:
    """Return the CPU time of submitting one and completing another, with so many outstanding."""
    contestant: Contestant = OURS[name]() if name in OURS else ByHand()
    submit, complete = contestant.submit, contestant.complete
    total = outstanding + pairs
    waiting = [tuple(range(n * keys, (n + 1) * keys)) for n in range(total)]
    for new in waiting[:outstanding]:
        submit(new)
    steps = list(zip(waiting[outstanding:], waiting, strict=False))
    start = time.process_time_ns()
    for new, old in steps:
        submit(new)
        complete(old[0])
    return {"pair": (time.process_time_ns() - start) / pairs}


def one_expiry(name: str, count: int, keys: int) -> dict[str, float]:
    """Return the CPU time of one expiry of so many."""
    contestant: Contestant = OURS[name](ManualClock()) if name in OURS else ByHand(1.0)
    for number in range(count):
        contestant.submit(tuple(range(number * keys, (number + 1) * keys)))
    run = contestant.expire_all()
    start = time.process_time_ns()
    run()
    return {"expiry": (time.process_time_ns() - start) / count}


def one_size(name: str, count: int, keys: int) -> dict[str, float]:
    """Return the resident bytes of one operation of so many, without its keys."""
    contestant: Contestant = OURS[name]() if name in OURS else ByHand()
    waiting = [tuple(range(n * keys, (n + 1) * keys)) for n in range(count)]
    futures: list[object] = [None] * count
    before = resident_bytes()
    for number, some in enumerate(waiting):
        futures[number] = contestant.submit(some)
    return {"bytes": (resident_bytes() - before) / count}


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.one:
        kind, name, *numbers = options.one
        runs: dict[str, Callable[..., dict[str, float]]]
        runs = {"pair": one_pair, "expiry": one_expiry, "bytes": one_size}
        print(json.dumps(runs[kind](name, *map(int, numbers))))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"## Purgatory ({machine()}; median of {options.repeats})")
    report("pair", sizes, [options.pairs], options.repeats)
    report("expiry", sizes, [], options.repeats)


def report(kind: str, sizes: list[int], rest: list[int], repeats: int) -> None:
    """Print a table with a column for each size and number of keys. The contestants take turns."""
    columns, figures = [], {name: list[float | None]() for name in CONTESTANTS}
    for size in sizes:
        for keys in (1, 3):
            columns.append(f"{size:,}, {keys} key{'s'[: keys - 1]}")
            runs = {name: list[dict[str, float]]() for name in CONTESTANTS}
            for _ in range(repeats):
                for name in CONTESTANTS:
                    runs[name] += measure(__file__, [kind, name, size, keys, *rest], 1)
            for name in CONTESTANTS:
                figures[name].append(median(runs[name])[kind])
    print(ratios(kind.capitalize(), "ns", columns, figures))


if __name__ == "__main__":
    main()
