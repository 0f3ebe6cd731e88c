"""Substitutes: while a world runs, its threads get the scheduler's primitives and its time.

Names of `threading` and `time` are replaced, in those modules and where the packages have imported
them by name. A thread that is not of the world gets the real ones all the same.
"""

import concurrent.futures
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from mq import Mailbox
from tests.simulation.inprocess.primitives import (
    SimulatedLocal,
    SimulatedLock,
    SimulatedRLock,
    SimulatedSignaler,
)
from tests.simulation.inprocess.scheduler import Scheduler
from timingwheel import Timer, TimerTask

_PACKAGES: Final = ("_purgatory_cpython", "timingwheel", "mq", "purgatory")
_NOT: Final = "purgatory.testing"
# Loaded at first use, which must not be in a world.
_LOADED: Final = (concurrent.futures.ProcessPoolExecutor, concurrent.futures.ThreadPoolExecutor)


class WorldCondition(threading.Condition):
    """The packages' condition, on locks of the world."""

    def wait(self, timeout: float | None = None, is_over: Callable[[], bool] = bool) -> bool:
        """See `_purgatory_cpython.locks`."""
        return is_over() or super().wait(timeout)


class WorldClock:
    """The clock of timers: the scheduler's time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __call__(self) -> int:
        """Return milliseconds, rounded down."""
        return self._scheduler.now_ns // 1_000_000

    def now_ns(self) -> int:
        """Return nanoseconds."""
        return self._scheduler.now_ns


@contextlib.contextmanager
def substituted(scheduler: Scheduler) -> Iterator[None]:
    """Replace what threads wait by, and the time, until the block ends."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, substitute in _substitutes(scheduler):
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, substitute)
        yield
    finally:
        for owner, name, real in reversed(undo):
            setattr(owner, name, real)


def _substitutes(scheduler: Scheduler) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced: its owner, its name, and what stands in its place."""
    made = _makers(scheduler)
    by_real = {id(getattr(owner, name)): made for owner, name, made in made}
    signaler, timer = sys.modules[Mailbox.__module__], sys.modules[Timer.__module__]
    # What an earlier world has left there would spare this one some steps.
    yield sys.modules[TimerTask.__module__]._RUN_OVERRIDE_CACHE, "last", None
    yield from made
    yield from _methods(scheduler)
    yield signaler, "Signaler", _choice(scheduler, _signaler(scheduler), signaler.Signaler)
    yield timer, "clock_reader_for", _clock_reader_for(scheduler, timer)
    for module in _modules():
        for name, value in list(vars(module).items()):
            if id(value) in by_real:
                yield module, name, by_real[id(value)]


def _signaler(scheduler: Scheduler) -> Callable[[], SimulatedSignaler]:
    return lambda: SimulatedSignaler(scheduler)


def _makers(scheduler: Scheduler) -> list[tuple[Any, str, Any]]:
    def seconds() -> float:
        return scheduler.now_ns / 1e9

    real_time = sys.modules["_purgatory_cpython.real_time"]
    conditions = sys.modules["_purgatory_cpython.locks"]
    found: list[tuple[Any, str, Callable[..., Any]]] = [
        (threading, "Lock", lambda: SimulatedLock(scheduler)),
        (threading, "_allocate_lock", lambda: SimulatedLock(scheduler)),
        (threading, "RLock", lambda: SimulatedRLock(scheduler)),
        (conditions, "InterruptibleCondition", WorldCondition),
        (conditions, "HotCondition", WorldCondition),
        (threading, "local", lambda: SimulatedLocal(scheduler)),
        (threading, "get_ident", lambda: 1_000 + scheduler.current.number),
        (threading, "current_thread", lambda: scheduler.current.thread),
        (time, "monotonic", seconds),
        (time, "sleep", scheduler.sleep),
        (real_time, "real_seconds", seconds),
    ]
    return [
        (owner, name, _choice(scheduler, made, getattr(owner, name))) for owner, name, made in found
    ]


def _choice(
    scheduler: Scheduler, simulated: Callable[..., Any], real: Callable[..., Any]
) -> Callable[..., Any]:
    """Return what calls the one in threads of the world, and the other in others."""

    def call(*args: Any, **options: Any) -> Any:
        return (simulated if scheduler.is_here() else real)(*args, **options)

    return call


def _methods(scheduler: Scheduler) -> Iterator[tuple[Any, str, Any]]:
    """Yield the methods of threads."""
    thread = threading.Thread

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        scheduler.wait_for_end(self, None if timeout is None else int(timeout * 1e9))

    yield thread, "start", _choice(scheduler, scheduler.spawn, thread.start)
    yield thread, "join", _choice(scheduler, join, thread.join)
    yield thread, "is_alive", _choice(scheduler, scheduler.is_alive, thread.is_alive)


def _clock_reader_for(scheduler: Scheduler, timer: ModuleType) -> Callable[..., Any]:
    """Return what gives timers without a clock, such as purgatories', the scheduler's time."""
    real = timer.clock_reader_for

    def read(clock: Any) -> Any:
        return real(WorldClock(scheduler) if clock is None and scheduler.is_here() else clock)

    return read


def _modules() -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _PACKAGES and not name.startswith(_NOT)
    ]
