"""ClockReader: reads a timer's clock in nanoseconds, and says how long to sleep. Any thread."""

from collections.abc import Callable
from typing import Final

from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from _purgatory_cpython.sections import keep_for_ever
from timingwheel._cpython.freezegun import REAL_MONOTONIC_NS, TIME, is_frozen, monotonic_ns
from timingwheel.clocks.clock import Clock, ManualClock, check_reading, monotonic_ms
from timingwheel.clocks.duration import MAX_NOW_NS, NS_PER_MS

# Bound once: compiled, that saves two look-ups for each timer.
_TIME: Final = TIME
_REAL_MONOTONIC_NS: Final = REAL_MONOTONIC_NS

keep_for_ever(REAL_MONOTONIC_NS[0])

_MAX_MS: Final = MAX_NOW_NS // NS_PER_MS

# Seconds between two readings of a frozen clock, which tells no timer when it is moved.
_FROZEN_TIME_POLL_S: Final = 0.01


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockReader:
    """Reads a clock that yields whole milliseconds and nothing else."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def now_ns(self) -> i64:
        """Return the reading; raises ValueError for one of more than 109 years."""
        now_ms = self.clock()
        if not -_MAX_MS <= now_ms <= _MAX_MS:
            raise ValueError(f"the clock reads {now_ms!r} ms; expected at most {_MAX_MS}")
        return now_ms * NS_PER_MS

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, if the clock reports moves."""
        if isinstance(self.clock, ManualClock):
            self.clock.on_advance(listener)

    def seconds_until(self, when_ns: i64) -> float:
        """Return the seconds until the clock reads `when_ns`; at least 0."""
        return float(max(0, when_ns - self.now_ns())) / 1e9

    def real_sleep(self, delay: float | None) -> float | None:
        """Return the seconds to sleep for a delay; None: until woken."""
        # Sleeping moves no manual clock, and its next move wakes the sleeper.
        return None if delay and isinstance(self.clock, ManualClock) else delay


class NanosecondClockReader(ClockReader):
    """Reads a clock that has `now_ns`, such as a `ManualClock`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._read_ns: Callable[[], int] = clock.now_ns  # type: ignore[attr-defined]

    def now_ns(self) -> i64:
        """Return the reading."""
        return self._read_ns()


class MonotonicClockReader(ClockReader):
    """Reads the default clock."""

    def __init__(self) -> None:
        super().__init__(monotonic_ms)

    def now_ns(self) -> i64:
        """Return the reading of `monotonic_ms.now_ns`, without its calls."""
        read = _TIME["monotonic_ns"]
        return read() if read is _REAL_MONOTONIC_NS[0] else monotonic_ns()

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
    return NanosecondClockReader(clock) if hasattr(clock, "now_ns") else ClockReader(clock)
