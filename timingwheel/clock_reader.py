"""ClockReader: how a timer reads its clock.

From the default clock more can be had than whole milliseconds: nanoseconds. Without them a deadline
would be counted from a truncated "now", and a task would run up to 1 ms early. Any thread.
"""

import time
from collections.abc import Callable
from typing import Final

from timingwheel._cpython.mypyc_types import i64, mypyc_attr
from timingwheel.clock import (
    Clock,
    ManualClock,
    check_reading,
    is_frozen,
    monotonic_ms,
    monotonic_ns,
)
from timingwheel.units import MAX_DELAY_MS

_NS_PER_MS: Final = 1_000_000

# While freezegun leaves the function in place, it is called from here. Which one is in place is
# asked at each reading, of the module's dict: compiled, asking the module costs thrice that.
_TIME: Final = vars(time)
_REAL: Final = time.monotonic_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockReader:
    """How a timer reads a clock that yields nothing but whole milliseconds."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock

    def now_rounded_up_ms(self) -> i64:
        """What a deadline is counted from; never less than the true time."""
        now_ms = self.now_ms()
        if now_ms > MAX_DELAY_MS:
            raise ValueError(f"the clock reads {now_ms!r}; expected at most {MAX_DELAY_MS} ms")
        return now_ms

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Have a bound method called when a `ManualClock` is moved; others tell nothing."""
        if isinstance(self.now_ms, ManualClock):
            self.now_ms.on_advance(listener)

    def seconds_until(self, when_ms: int) -> float:
        """Seconds until the clock reads ``when_ms``; 0 when it does already."""
        return max(0, when_ms - self.now_ms()) / 1000

    def real_sleep(self, delay: float | None) -> float | None:
        """How long to sleep for a delay on this clock; None: until woken."""
        # No sleep makes a manual clock move, but it tells us when it does.
        return None if delay and isinstance(self.now_ms, ManualClock) else delay


class MonotonicClockReader(ClockReader):
    """The default clock with its nanoseconds: deadlines round up, waits are exact."""

    def __init__(self) -> None:
        super().__init__(monotonic_ms)

    def now_rounded_up_ms(self) -> i64:
        """The true time, rounded up."""
        read = _TIME["monotonic_ns"]
        now_ns: i64 = read() if read is _REAL else monotonic_ns()
        return -(-now_ns // _NS_PER_MS)

    def seconds_until(self, when_ms: int) -> float:
        """Seconds until `monotonic_ms` reads ``when_ms``, to the nanosecond."""
        return max(0, when_ms * _NS_PER_MS - monotonic_ns()) / 1e9

    def real_sleep(self, delay: float | None) -> float | None:
        """The delay itself; while time is frozen, a moment: nobody tells us when it is moved."""
        return _FROZEN_TIME_POLL_S if delay and is_frozen() else delay


# Seconds between two looks. By freezegun's users only: it is the one case in which a timer polls.
_FROZEN_TIME_POLL_S = 0.01


def clock_reader_for(clock: Clock | None) -> ClockReader:
    """The source that gets the most out of ``clock`` (None: the default clock)."""
    if clock is None or clock is monotonic_ms:
        return MonotonicClockReader()
    if not callable(clock):
        raise TypeError(f"clock is {clock!r}; expected a callable that returns milliseconds")
    # Whatever it yields: compiled, the type would be taken for granted and its absence an error of
    # another kind.
    probe: Callable[[], object] = clock
    check_reading("a reading of the clock", probe())
    return ClockReader(clock)
