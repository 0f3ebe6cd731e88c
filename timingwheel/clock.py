"""Clocks: the default one, and one that is moved by hand.

A *clock* is any `Callable[[], int]` that returns milliseconds. A timer reads its clock through a
`ClockReader`. Interpreted, because programs may subclass a `ManualClock` and refer to it weakly.
Any thread.
"""

import threading
import weakref
from collections.abc import Callable
from datetime import timedelta

from timingwheel._freezegun import monotonic_ns
from timingwheel.duration import to_ms

Clock = Callable[[], int]

_NS_PER_MS = 1_000_000


def monotonic_ms() -> int:
    """Return the monotonic clock's milliseconds, rounded down; the default clock."""
    return monotonic_ns() // _NS_PER_MS


class ManualClock:
    """A clock that moves only when told to: for tests, simulation and replay.

    `start_ms` is its first reading. Each move wakes the timers that wait on the clock. Any thread.
    """

    def __init__(self, start_ms: int = 0) -> None:
        check_reading("start_ms", start_ms)
        self._now_ms = start_ms
        self._lock = threading.Lock()  # guards _listeners, and _now_ms while it moves
        self._listeners: list[weakref.WeakMethod[Callable[[], None]]] = []

    def __call__(self) -> int:
        """Return the present reading in milliseconds."""
        return self._now_ms

    def advance(self, seconds: float | timedelta) -> None:
        """Move forward by `seconds`; raises what `to_ms` raises."""
        self._move(to_ms(seconds), relative=True)

    def advance_to(self, now_ms: int) -> None:
        """Move forward to a reading in milliseconds; ValueError if backwards."""
        check_reading("now_ms", now_ms)
        self._move(now_ms, relative=False)

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, while its object lives."""
        with self._lock:
            alive = [known for known in self._listeners if known() is not None]
            self._listeners = [*alive, weakref.WeakMethod(listener)]

    on_move = on_advance  # its former name

    def _move(self, amount_ms: int, *, relative: bool) -> None:
        with self._lock:
            now_ms = self._now_ms + amount_ms if relative else amount_ms
            if now_ms < self._now_ms:
                raise ValueError(f"clock is at {self._now_ms} ms; cannot go back to {now_ms} ms")
            self._now_ms = now_ms
            listeners = self._listeners
        for reference in listeners:
            if (listener := reference()) is not None:
                listener()

    def __repr__(self) -> str:
        return f"<ManualClock {self._now_ms} ms>"


def check_reading(what: str, value: object) -> None:
    """Raise TypeError for what cannot be a reading of a clock."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is {value!r}; expected whole milliseconds (int)")
