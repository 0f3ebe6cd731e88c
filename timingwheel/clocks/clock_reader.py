"""ClockReader: reads a timer's clock in nanoseconds, and says how long to sleep. Any thread."""

from collections.abc import Callable
from typing import Final

from _purgatory_cpython.locks import new_hot_rlock
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from _purgatory_cpython.sections import keep_for_ever
from timingwheel._cpython.freezegun import REAL_MONOTONIC_NS, TIME, is_frozen, monotonic_ns
from timingwheel.clocks.clock import Clock, ManualClock, check_reading, monotonic_ms
from timingwheel.clocks.duration import MAX_NOW_NS, NS_PER_MS

# Bound once: see `timingwheel.bucket`.
_TIME: Final = TIME
_REAL_MONOTONIC_NS: Final = REAL_MONOTONIC_NS

keep_for_ever(REAL_MONOTONIC_NS[0])

_MAX_MS: Final = MAX_NOW_NS // NS_PER_MS
_MAX_OFFSET_NS: Final = 2**63 - 1 - MAX_NOW_NS  # its sum with a reading fits into 64 bits
_BEFORE_ALL_NS: Final = -(2**63)  # a replay's clock may read that

# A frozen clock reports no move.
_FROZEN_TIME_POLL_S: Final = 0.01


@mypyc_attr(allow_interpreted_subclasses=True)
class ClockReader:
    """Reads a clock that yields whole milliseconds alone.

    If the clock goes back, *time* continues from the last reading: an offset is added to all
    readings.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._last_ns: i64 = _BEFORE_ALL_NS  # the time that was read last
        self._offset_ns: i64 = 0

    def now_ns(self) -> i64:
        """Return the time; raises ValueError for a reading of more than 109 years."""
        while True:
            # Before the clock is read: another thread's later reading is not the last reading.
            last_ns, offset_ns = self._last_ns, self._offset_ns
            now_ms = self.clock()
            if type(now_ms) is not int:  # interpreted, a float would pass
                now_ms = check_reading("a reading of the clock", now_ms)
            if not -_MAX_MS <= now_ms <= _MAX_MS:
                raise ValueError(f"the clock reads {now_ms!r} ms; expected at most {_MAX_MS}")
            now_ns = now_ms * NS_PER_MS + offset_ns
            if now_ns >= last_ns:
                self._last_ns = max(now_ns, self._last_ns)
                return now_ns
            self._go_on(last_ns, now_ns, offset_ns)

    def _go_on(self, last_ns: i64, now_ns: i64, offset_ns: i64) -> None:
        """Let time continue from the last reading, unless another thread has done so."""
        if self._offset_ns != offset_ns:
            return
        new_ns = int(offset_ns) + int(last_ns) - int(now_ns)
        if new_ns > _MAX_OFFSET_NS:
            raise ValueError(
                f"the clock went back by {new_ns} ns in all; expected at most {_MAX_OFFSET_NS}"
            )
        self._offset_ns = new_ns

    def time_of_reading(self, reading_ns: int) -> int:
        """Return the time of a reading; while frozen, by the frozen clock."""
        return reading_ns + int(self._offset_ns)

    def on_advance(self, listener: Callable[[], None]) -> None:
        """Call a bound method after each move, if the clock reports moves."""
        if isinstance(self.clock, ManualClock):
            self.clock.on_advance(listener)

    def seconds_until(self, when_ns: i64) -> float:
        """Return the seconds until `when_ns`; at least 0."""
        return float(max(0, when_ns - self.now_ns())) / 1e9

    def real_sleep(self, delay: float | None) -> float | None:
        """Return the seconds to sleep for a delay; None (a manual clock): until woken."""
        return None if delay and isinstance(self.clock, ManualClock) else delay


class NanosecondClockReader(ClockReader):
    """Reads a clock that has `now_ns`, such as a `ManualClock`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._read_ns: Callable[[], int] = clock.now_ns  # type: ignore[attr-defined]

    def now_ns(self) -> i64:
        while True:  # likewise
            last_ns, offset_ns = self._last_ns, self._offset_ns
            read_ns = self._read_ns()
            if type(read_ns) is not int:
                read_ns = check_reading("now_ns of the clock", read_ns, "nanoseconds")
            now_ns = read_ns + offset_ns
            if now_ns >= last_ns:
                self._last_ns = max(now_ns, self._last_ns)
                return now_ns
            self._go_on(last_ns, now_ns, offset_ns)


class MonotonicClockReader(ClockReader):
    """Reads the default clock. Time continues where freezegun begins or ends to freeze it.

    A reader made while time is frozen begins with the frozen reading.
    """

    def __init__(self) -> None:
        super().__init__(monotonic_ms)
        self._lock = new_hot_rlock()  # guards all fields while time is frozen, and at its ends
        self._was_frozen = is_frozen()
        self._frozen_offset_ns: i64 = 0  # while the clock is frozen

    def now_ns(self) -> i64:
        """Return the time; without the calls of `monotonic_ms.now_ns`."""
        offset_ns = self._offset_ns
        read = _TIME["monotonic_ns"]
        if read is not _REAL_MONOTONIC_NS[0] or self._was_frozen:
            return self._read_frozen()
        return read() + offset_ns

    def _read_frozen(self) -> i64:
        """Return the time while frozen, and the first time after."""
        with self._lock:
            real_ns: i64 = _REAL_MONOTONIC_NS[0]() + self._offset_ns
            if not is_frozen():
                if self._was_frozen and real_ns < self._last_ns:
                    self._offset_ns += self._last_ns - real_ns
                    real_ns = self._last_ns
                self._was_frozen = False
                return real_ns
            frozen_ns: i64 = monotonic_ns()
            if not self._was_frozen:
                self._last_ns = real_ns
                self._frozen_offset_ns = real_ns - frozen_ns
                self._was_frozen = True
            now_ns = frozen_ns + self._frozen_offset_ns
            if now_ns < self._last_ns:  # the frozen time goes back, or has just ended
                self._frozen_offset_ns += self._last_ns - now_ns
                now_ns = self._last_ns
            self._last_ns = now_ns
            return now_ns

    def time_of_reading(self, reading_ns: int) -> int:
        return reading_ns + int(self._frozen_offset_ns if is_frozen() else self._offset_ns)

    def real_sleep(self, delay: float | None) -> float | None:
        """Return the delay itself, or the polling interval while time is frozen."""
        return _FROZEN_TIME_POLL_S if delay and is_frozen() else delay


def clock_reader_for(clock: Clock | None) -> ClockReader:
    """Return the most exact reader for `clock` (None: the default clock).

    Reads the clock once. Raises TypeError for an object that is not a clock.
    """
    if clock is None or clock is monotonic_ms:
        return MonotonicClockReader()
    if not callable(clock):
        raise TypeError(f"clock is {clock!r}; expected a callable that returns milliseconds")
    # Typed as object: compiled code would raise another error for a wrong type.
    probe: Callable[[], object] = clock
    check_reading("a reading of the clock", probe())
    read_ns: Callable[[], object] | None = getattr(clock, "now_ns", None)
    if read_ns is None:
        return ClockReader(clock)
    if not callable(read_ns):
        raise TypeError(f"now_ns of the clock is {read_ns!r}; expected a method")
    now_ns = check_reading("now_ns of the clock", read_ns(), "nanoseconds")
    if not _BEFORE_ALL_NS <= now_ns <= MAX_NOW_NS:
        raise ValueError(f"the clock reads {now_ns} ns; expected at most {MAX_NOW_NS}")
    return NanosecondClockReader(clock)
