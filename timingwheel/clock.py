"""Clocks: the default one, and one that is moved by hand.

A *clock* is any ``Callable[[], int]`` that returns milliseconds. The package reads it through a
`ClockReader`. Interpreted, for two reasons: a `ManualClock` may be subclassed and referenced
weakly, and freezegun asks who calls.

Everything here may be called from any thread.
"""

import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta

from timingwheel.duration import to_ms

Clock = Callable[[], int]

_NS_PER_MS = 1_000_000


def monotonic_ms() -> int:
    """Milliseconds of the monotonic clock, truncated: the default clock of a Timer."""
    return monotonic_ns() // _NS_PER_MS


def monotonic_ns(real: Callable[[], int] = time.monotonic_ns) -> int:
    """Nanoseconds of the monotonic clock; while freezegun has frozen time, of that."""
    # Looked up on the module at each call, and compared with what it was when we were imported:
    # freezegun replaces names in modules, not defaults.
    read = time.monotonic_ns
    return read() if read is real else _frozen_ns(INSPECTED_FRAMES)


# freezegun tells the real time if the module threading is among so many callers, as it is in most
# threads. We want the frozen time in all of them.
INSPECTED_FRAMES = 5


def _frozen_ns(frames: int) -> int:
    return _frozen_ns(frames - 1) if frames else time.monotonic_ns()


def is_frozen(real: Callable[[], int] = time.monotonic_ns) -> bool:
    """Whether freezegun has frozen time."""
    return time.monotonic_ns is not real


def real_seconds(read: Callable[[], float] = time.monotonic) -> float:
    """Seconds of the monotonic clock, also while freezegun has frozen time: for waits that end."""
    # The default as in monotonic_ns.
    return read()


class ManualClock:
    """A clock that moves only when told to: for tests, simulation and replay.

    ``start_ms`` is its first reading. Timers that wait on it are woken by each move. Thread-safe.
    """

    def __init__(self, start_ms: int = 0) -> None:
        check_reading("start_ms", start_ms)
        self._now_ms = start_ms
        self._lock = threading.Lock()  # guards _now_ms while it moves, and _listeners
        self._listeners: list[weakref.WeakMethod[Callable[[], None]]] = []

    def __call__(self) -> int:
        """The present reading in milliseconds."""
        return self._now_ms

    def advance(self, seconds: float | timedelta) -> None:
        """Move forward by ``seconds``; raises what `to_ms` raises."""
        self._move(to_ms(seconds), relative=True)

    def advance_to(self, now_ms: int) -> None:
        """Move forward to a reading in milliseconds; ValueError if that would be backwards."""
        check_reading("now_ms", now_ms)
        self._move(now_ms, relative=False)

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, for as long as its object lives."""
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
    """TypeError for what cannot be a reading of a clock."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is {value!r}; expected whole milliseconds (int)")
