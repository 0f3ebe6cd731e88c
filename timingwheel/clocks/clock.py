"""Clocks: the default clock, and a clock moved by hand.

A *clock* is any `Callable[[], int]` that returns milliseconds; if it has a method `now_ns`, like
both here, a timer reads nanoseconds. Interpreted, because programs may subclass a `ManualClock` and
refer to it weakly. Any thread.
"""

import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

from _purgatory_cpython import at_exit
from _purgatory_cpython.locks import new_rlock
from timingwheel._cpython.freezegun import monotonic_ns
from timingwheel.arguments import plain_number
from timingwheel.clocks.duration import MAX_NOW_NS, NS_PER_MS, to_ns

Clock: TypeAlias = Callable[[], int]


class MonotonicClock:
    """The system's monotonic clock; frozen while freezegun freezes time."""

    def __call__(self) -> int:
        """Return milliseconds, rounded down."""
        return monotonic_ns() // NS_PER_MS

    def now_ns(self) -> int:
        """Return nanoseconds."""
        return monotonic_ns()

    def __reduce__(self) -> str:
        return "monotonic_ms"  # timers know their default clock by identity

    def __repr__(self) -> str:
        return "<MonotonicClock>"


#: The default clock: `monotonic_ms()` returns milliseconds, `monotonic_ms.now_ns()` nanoseconds.
monotonic_ms: MonotonicClock = MonotonicClock()


class ManualClock:
    """A clock that moves only when told to: for tests, simulation and replay.

    `start_ms` is its first reading. Each move wakes the timers that wait on the clock. Any thread.
    Raises ValueError for a reading of more than 109 years, either way from 0.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ns = _checked_ns("start_ms", start_ms)
        self._lock = new_rlock()  # guards _listeners, and _now_ns while it moves
        self._listeners: list[weakref.WeakMethod[Callable[[], None]]] = []
        at_exit.register_locks(self)

    def __call__(self) -> int:
        """Return the present reading in milliseconds, rounded down."""
        return self._now_ns // NS_PER_MS

    def now_ns(self) -> int:
        """Return the present reading in nanoseconds."""
        return self._now_ns

    def advance(self, seconds: float | timedelta) -> None:
        """Move forward by `seconds`, or a timedelta, exact to the nanosecond.

        Raises TypeError for other types; ValueError for a negative, infinite or NaN number.
        """
        self._move(to_ns(seconds, "seconds"), relative=True)

    def advance_to(self, now_ms: int) -> None:
        """Move forward to a reading in milliseconds; ValueError if backwards."""
        self._move(_checked_ns("now_ms", now_ms), relative=False)

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, while its object lives."""
        with self._lock:
            alive = [known for known in self._listeners if known() is not None]
            self._listeners = [*alive, weakref.WeakMethod(listener)]

    def _move(self, amount_ns: int, *, relative: bool) -> None:
        with self._lock:
            now_ns = self._now_ns + amount_ns if relative else amount_ns
            if now_ns < self._now_ns:
                raise ValueError(
                    f"clock is at {self()} ms; cannot go back to {now_ns // NS_PER_MS} ms"
                )
            if now_ns > MAX_NOW_NS:
                raise ValueError(f"clock is at {self()} ms; cannot advance by {amount_ns} ns")
            self._now_ns = now_ns
            listeners = self._listeners
        for reference in listeners:
            if (listener := reference()) is not None:
                listener()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: timers wait on it")

    def __repr__(self) -> str:
        return f"<ManualClock {self()} ms>"


def check_reading(what: str, value: object, unit: str = "milliseconds") -> int:
    """Return a reading of a clock as an int; TypeError for a value of another type."""
    reading = plain_number(value)
    if type(reading) is not int:
        raise TypeError(f"{what} is {value!r}; expected whole {unit} (int)")
    return reading


def _checked_ns(what: str, value_ms: int) -> int:
    now_ns = check_reading(what, value_ms) * NS_PER_MS
    if not -MAX_NOW_NS <= now_ns <= MAX_NOW_NS:
        raise ValueError(
            f"{what} is {value_ms!r}; expected at most {MAX_NOW_NS // NS_PER_MS} either way"
        )
    return now_ns
