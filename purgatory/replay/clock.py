"""ReplayClock: the time of a replay, virtual or at a multiple of real time.

For one thread; `stop` is for any thread and for signal handlers.
"""

import time
from collections.abc import Callable
from typing import Final

from purgatory.trace.validation import INT64_MAX, INT64_MIN
from timingwheel import InlineExecutor, Timer
from timingwheel.lowlevel import NS_PER_MS

#: Seconds between two looks at `stopped` in a sleep. No condition: a signal handler must not take a
#: lock.
STOP_POLL_S: Final = 0.05
# The clock's reading before any trace.
BEFORE_ANY_TRACE_MS: Final = INT64_MIN
# Longer than any trace. At a high speed a moment is infinite.
_END_MS: Final = 2.0**65


class _TraceClock:
    def __init__(self) -> None:
        self.now = BEFORE_ANY_TRACE_MS

    def __call__(self) -> int:
        return self.now

    def now_ns(self) -> int:
        return self.now


class _TraceTimer(Timer):
    LEAST_TICK_NS = 1

    def has_due(self) -> bool:
        first = self._wheels.next_occupied()
        return first is not None and first.expiration_ns <= self._clock_reader.now_ns()


class ReplayClock:
    """Moves the time of a trace, and the timer.

    `speed` None: time is virtual. It jumps from instant to instant, and nothing expires before
    `drain`. Otherwise time passes no faster than `speed` seconds of the trace in a second, and due
    operations expire on the way. `before_sleep` is called before each sleep.

    64 bits of nanoseconds hold 292 years, and a trace may be longer. So the timer counts a
    millisecond as a nanosecond.

    The clock reads the last instant that is *over*. While instant t is processed it reads t - 1, so
    nothing due at t has expired; moving on to t expires it.
    """

    def __init__(
        self, speed: float | None, before_sleep: Callable[[], object] = lambda: None
    ) -> None:
        if speed is not None and (not isinstance(speed, int | float) or isinstance(speed, bool)):
            raise TypeError(f"speed is {speed!r}; expected a number or None")
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"speed is {speed!r}; expected a finite number above 0")
        self.stopped: bool = False
        self._speed = speed
        self._before_sleep = before_sleep
        self._clock = _TraceClock()
        self.timer: _TraceTimer = _TraceTimer(
            "replay", tick_ms=1 / NS_PER_MS, clock=self._clock, executor=InlineExecutor()
        )
        # The first instant of the trace, and its real time.
        self._origin: tuple[int, float] | None = None

    def now_ms(self) -> int:
        """Return the last instant that is over."""
        return self._clock()

    @property
    def in_real_time(self) -> bool:
        """Whether time passes at a speed."""
        return self._speed is not None

    def advance_to(self, instant_ms: int, is_needed: Callable[[], object] = lambda: True) -> None:
        """Move on to an instant. Returns early if stopped; in real time also if not needed."""
        if self._origin is None:
            self._origin = instant_ms, time.monotonic()
            self._clock.now = instant_ms
            self.drain()  # expires nothing: brings the wheel to the time of the trace
        while not self.stopped:
            now_ms = instant_ms if self._speed is None else min(instant_ms, self._real_time_ms())
            if now_ms > self._clock.now:
                self._clock.now = now_ms
                if self._speed is not None and self.timer.has_due():
                    self.drain()
            if now_ms >= instant_ms or not is_needed():
                return
            self._sleep_towards(instant_ms)

    def drain(self) -> None:
        """Expire what is due."""
        self.timer.advance_clock()

    def lateness_ms(self, due_ms: int) -> int:
        """Return how far real time is behind an instant; 0 in virtual time."""
        if self._speed is None:
            return 0
        return min(max(0, self._real_time_ms() - due_ms), INT64_MAX)

    def stop(self) -> None:
        """Make `advance_to` return soon."""
        self.stopped = True

    def _real_time_ms(self) -> int:
        assert self._origin is not None
        assert self._speed is not None
        first_ms, began = self._origin
        passed_ms = (time.monotonic() - began) * 1000 * self._speed
        return first_ms + int(min(passed_ms, _END_MS))

    def _sleep_towards(self, instant_ms: int) -> None:
        assert self._speed is not None
        self._before_sleep()
        seconds = (instant_ms - self._real_time_ms()) / 1000
        due = self.timer.delay_to_next()
        if due is not None:
            seconds = min(seconds, due * NS_PER_MS)
        time.sleep(min(STOP_POLL_S, max(0.0, seconds) / self._speed))
