"""ClockReader: reads a timer's clock, and rounds "now" for deadlines.

The default clock offers nanoseconds behind its whole milliseconds. A deadline that is counted from
a "now" which was rounded down would come up to 1 ms early, so deadlines count from a "now" that is
rounded up. Any thread.
"""

from collections.abc import Callable
from typing import Final

from timingwheel._cpython.mypyc_types import i64, mypyc_attr
from timingwheel._freezegun import REAL_MONOTONIC_NS, TIME, is_frozen, monotonic_ns
from timingwheel.clock import Clock, ManualClock, check_reading, monotonic_ms
from timingwheel.duration import MAX_DELAY_MS

_NS_PER_MS: Final = 1_000_000

# Bound once: compiled, that saves two look-ups for each timer.
_TIME: Final = TIME
_REAL_MONOTONIC_NS: Final = REAL_MONOTONIC_NS

# Seconds between two readings of a frozen clock, which tells no timer when it is moved.
_FROZEN_TIME_POLL_S: Final = 0.01


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockReader:
    """Reads a clock that yields whole milliseconds and nothing else."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock

    def now_rounded_up_ms(self) -> i64:
        """Return what a deadline is counted from: never less than the true time."""
        now_ms = self.now_ms()
        if now_ms > MAX_DELAY_MS:
            raise ValueError(f"the clock reads {now_ms!r}; expected at most {MAX_DELAY_MS} ms")
        return now_ms

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, if the clock reports moves."""
        if isinstance(self.now_ms, ManualClock):
            self.now_ms.on_advance(listener)

    def seconds_until(self, when_ms: int) -> float:
        """Return the seconds until the clock reads `when_ms`; at least 0."""
        return max(0, when_ms - self.now_ms()) / 1000

    def real_sleep(self, delay: float | None) -> float | None:
        """Return the seconds to sleep for a delay; None: until woken."""
        # Sleeping moves no manual clock, and its next move wakes the sleeper.
        return None if delay and isinstance(self.now_ms, ManualClock) else delay


class MonotonicClockReader(ClockReader):
    """Reads the default clock to the nanosecond: deadlines round up, waits are exact."""

    def __init__(self) -> None:
        super().__init__(monotonic_ms)

    def now_rounded_up_ms(self) -> i64:
        """Return the true time, rounded up to a millisecond."""
        read = _TIME["monotonic_ns"]
        now_ns: i64 = read() if read is _REAL_MONOTONIC_NS[0] else monotonic_ns()
        return -(-now_ns // _NS_PER_MS)

    def seconds_until(self, when_ms: int) -> float:
        """Return the seconds until `monotonic_ms` reads `when_ms`, to the nanosecond."""
        return max(0, when_ms * _NS_PER_MS - monotonic_ns()) / 1e9

    def real_sleep(self, delay: float | None) -> float | None:
        """Return the delay itself, or the polling interval while time is frozen."""
        return _FROZEN_TIME_POLL_S if delay and is_frozen() else delay


def clock_reader_for(clock: Clock | None) -> ClockReader:
    """Return the most exact reader for `clock` (None: the default clock).

    Raises TypeError for what is no clock, after reading it once.
    """
    if clock is None or clock is monotonic_ms:
        return MonotonicClockReader()
    if not callable(clock):
        raise TypeError(f"clock is {clock!r}; expected a callable that returns milliseconds")
    # Typed as object: compiled code would otherwise raise an error of its own for a wrong type.
    probe: Callable[[], object] = clock
    check_reading("a reading of the clock", probe())
    return ClockReader(clock)
