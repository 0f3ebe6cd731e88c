"""Time: whole milliseconds inside, seconds outside, and the one place where they meet.

A *clock* is any ``Callable[[], int]`` that returns milliseconds. The package reads it through a
`TimeSource`, which knows what more can be had from the default clock: nanoseconds. Without them a
deadline would be counted from a truncated "now", and a task would run up to 1 ms early.

Everything here may be called from any thread.
"""

import math
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta

Clock = Callable[[], int]

# 146 million years. The bound keeps every sum of ours inside 64 bits.
MAX_DELAY_MS = 2**62

_NS_PER_MS = 1_000_000


def monotonic_ms() -> int:
    """Milliseconds of the monotonic clock, truncated: the default clock of a Timer."""
    # Looked up on the module at each call, so that freezegun's frozen time is honoured.
    return time.monotonic_ns() // _NS_PER_MS


def real_seconds(read: Callable[[], float] = time.monotonic) -> float:
    """Seconds of the monotonic clock, also while freezegun has frozen time: for waits that end."""
    # Bound when the module is imported: freezegun replaces names in modules, not defaults.
    return read()


def to_ms(delay: float | timedelta) -> int:
    """Seconds (or a timedelta) as the fewest whole milliseconds that are not less.

    A float counts as the decimal number that it prints as: 16.1 is 16100 ms, although 16.1 * 1000
    is a little more. Raises TypeError for what is no number, ValueError for NaN, infinity, a
    negative delay, and one of more than 2**62 ms.
    """
    if isinstance(delay, float) and 0.0 <= delay < _PLAIN_SECONDS:
        delay_ms = round(delay * 1000)
        return delay_ms if delay_ms / 1000 >= delay else delay_ms + 1
    return _to_ms_carefully(delay)


# Floats below are converted without further questions; NaN and infinity are not below anything.
_PLAIN_SECONDS = 1e9


def _to_ms_carefully(delay: float | timedelta) -> int:
    """Convert what is rare, and say what is wrong with the rest."""
    if isinstance(delay, timedelta):
        delay_ms, rest = divmod(delay, timedelta(milliseconds=1))
        delay_ms += bool(rest)
        negative = delay < timedelta()
    elif isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"delay is {delay!r}; expected seconds (int, float) or a timedelta")
    elif isinstance(delay, float) and not math.isfinite(delay):
        raise ValueError(f"delay is {delay!r}; expected a finite number of seconds")
    else:
        negative = delay < 0
        # Bounded before it is multiplied: the largest floats have no thousandfold.
        bounded = max(0, min(delay, MAX_DELAY_MS))
        delay_ms = round(bounded * 1000)
        delay_ms += delay_ms / 1000 < bounded
    if negative:
        raise ValueError(f"delay is {delay!r}; expected 0 or more seconds")
    if delay_ms > MAX_DELAY_MS:
        raise ValueError(f"delay is {delay!r}; expected at most {MAX_DELAY_MS // 1000} seconds")
    return delay_ms


class ManualClock:
    """A clock that moves only when told to: for tests, simulation and replay.

    ``start_ms`` is its first reading. Timers that wait on it are woken by each move. Thread-safe.
    """

    def __init__(self, start_ms: int = 0) -> None:
        _check_reading("start_ms", start_ms)
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
        _check_reading("now_ms", now_ms)
        self._move(now_ms, relative=False)

    def on_move(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, for as long as its object lives."""
        with self._lock:
            alive = [known for known in self._listeners if known() is not None]
            self._listeners = [*alive, weakref.WeakMethod(listener)]

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


def _check_reading(what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is {value!r}; expected whole milliseconds (int)")


class TimeSource:
    """How a timer reads a clock that yields nothing but whole milliseconds."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock
        # What a deadline is counted from; never less than the true time.
        self.ceiling_ms = clock

    def on_move(self, listener: Callable[[], None]) -> None:
        """Have a bound method called when a `ManualClock` is moved; others tell nothing."""
        if isinstance(self.now_ms, ManualClock):
            self.now_ms.on_move(listener)

    def seconds_until(self, when_ms: int) -> float:
        """Seconds until the clock reads ``when_ms``; 0 when it does already."""
        return max(0, when_ms - self.now_ms()) / 1000

    def sleep_for(self, delay: float | None) -> float | None:
        """How long to sleep for a delay on this clock; None: until woken."""
        # No sleep makes a manual clock move, but it tells us when it does.
        return None if delay and isinstance(self.now_ms, ManualClock) else delay


class MonotonicSource(TimeSource):
    """The default clock with its nanoseconds: deadlines round up, waits are exact."""

    def __init__(self) -> None:
        super().__init__(monotonic_ms)
        self.ceiling_ms = _monotonic_ceiling_ms

    def seconds_until(self, when_ms: int) -> float:
        """Seconds until `monotonic_ms` reads ``when_ms``, to the nanosecond."""
        return max(0, when_ms * _NS_PER_MS - time.monotonic_ns()) / 1e9

    def sleep_for(self, delay: float | None) -> float | None:
        """The delay itself; while time is frozen, a moment: nobody tells us when it is moved."""
        return _LOOK_AT_FROZEN_TIME if delay and _frozen() else delay


# Seconds between two looks. By freezegun's users only: it is the one case in which a timer polls.
_LOOK_AT_FROZEN_TIME = 0.01


def _frozen(real: Callable[[], int] = time.monotonic_ns) -> bool:
    # The default as in real_seconds.
    return time.monotonic_ns is not real


def _monotonic_ceiling_ms() -> int:
    return -(-time.monotonic_ns() // _NS_PER_MS)


def time_source(clock: Clock | None) -> TimeSource:
    """The source that gets the most out of ``clock`` (None: the default clock)."""
    if clock is None or clock is monotonic_ms:
        return MonotonicSource()
    if not callable(clock):
        raise TypeError(f"clock is {clock!r}; expected a callable that returns milliseconds")
    _check_reading("a reading of the clock", clock())
    return TimeSource(clock)
