"""Convert durations: seconds and milliseconds outside the package, whole nanoseconds inside.

Any thread.
"""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, overload

from _purgatory_cpython.mypyc_types import i64
from timingwheel.arguments import plain_number

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# 146 years, and the latest reading of a clock to which a delay is added (the year 2079 if the clock
# counts from 1970). The bounds keep each sum, rounded up to a tick, within 64 bits.
MAX_DELAY_NS: Final = 2**62
MAX_NOW_NS: Final = 2**62 - 2**60
MAX_TICK_NS: Final = 2**59

# Longest accepted delay: `timedelta.max` and the "no limit" of other libraries fit below.
MAX_DELAY_S: Final = 2**62 // 1000

# Floats from 0 up to here take the fast path. Below 2**52 ns a float tells any two neighbouring
# nanoseconds apart.
FAST_PATH_MAX_S: Final = 4e6
FAST_PATH_MAX_WHOLE_S: Final = 4_000_000  # and so do ints


@overload
def to_ns(delay: float, name: str = ...) -> i64: ...
@overload
def to_ns(delay: float | timedelta, name: str = ...) -> i64: ...
def to_ns(delay: object, name: str = "delay") -> i64:
    """Convert a delay to the fewest whole nanoseconds that are not less.

    `delay`: seconds (int, float) or a timedelta. A float counts as its printed decimal number: 16.1
    s are 16,100,000,000 ns, although the float is a little more. More than 2**62 ns count as 2**62
    ns. `name`: of `delay`, for errors. Raises TypeError for a value that is not a number,
    ValueError for NaN, infinity, a negative delay and more than 146 million years.
    """
    if type(delay) is float and 0.0 <= delay < FAST_PATH_MAX_S:
        delay_ns: i64 = int(delay * 1e9)
        return delay_ns if float(delay_ns) / 1e9 >= delay else delay_ns + 1
    if type(delay) is int and 0 <= delay < FAST_PATH_MAX_WHOLE_S:
        whole_s: i64 = delay
        return whole_s * NS_PER_S
    return delay_to_ns(name, delay)


def delay_to_ns(name: str, delay: object) -> int:
    """Convert a delay as `to_ns`, without a fast path."""
    delay_ns = seconds_to_ns(name, delay)
    # Less than a nanosecond below 0 is 0, rounded up.
    if delay_ns < 0 or (delay_ns == 0 and (number := plain_number(delay)) and number < 0):
        raise ValueError(f"{name} is {delay!r}; expected 0 or more seconds")
    return delay_ns


def moment_to_ns(when: object, now_ns: int, wall_ns: int) -> int:
    """Convert a moment to a reading of a clock that reads `now_ns`.

    `when`: seconds on that clock, or an aware datetime, whose distance from `wall_ns` counts.
    Raises TypeError for another type, ValueError for NaN, infinity and a naive datetime.
    """
    if not isinstance(when, datetime):
        if plain_number(when) is None:
            raise TypeError(f"when is {when!r}; expected seconds or an aware datetime")
        return seconds_to_ns("when", when)
    if when.utcoffset() is None:
        raise ValueError(f"when is {when!r}; expected a datetime with a time zone")
    return _limited(now_ns + _timedelta_to_ns(when - _EPOCH) - wall_ns)


def to_ms(delay: float | timedelta, name: str = "delay") -> int:
    """Convert a delay to the fewest whole milliseconds that are not less; raises as `to_ns`."""
    return -(-to_ns(delay, name) // NS_PER_MS)


def seconds_to_ns(name: str, value: object) -> int:
    """Convert seconds, negative ones too; limited to 2**62 ns either way; see `to_ns`."""
    if isinstance(value, timedelta):
        return _limited(_timedelta_to_ns(value))
    number = plain_number(value)
    if number is None:
        raise TypeError(f"{name} is {value!r}; expected seconds (int, float) or a timedelta")
    if type(number) is float and not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; expected a finite number of seconds")
    if number > MAX_DELAY_S:
        raise ValueError(f"{name} is {value!r}; expected at most {MAX_DELAY_S} seconds")
    if type(number) is not float:
        return _limited(number * NS_PER_S)
    return _limited(math.ceil(Decimal(float.__repr__(number)) * NS_PER_S))


def _timedelta_to_ns(value: timedelta) -> Any:
    # Of the base class: a subclass may divide as it likes. pandas' has nanoseconds beside.
    microseconds: Any = timedelta.__floordiv__(value, _MICROSECOND)
    return microseconds * 1000 + (plain_number(getattr(value, "nanoseconds", 0)) or 0) % 1000


def _limited(ns: Any) -> int:
    # Any: compiled, a large int must not become an i64 before it is limited.
    return int(max(-MAX_DELAY_NS, min(ns, MAX_DELAY_NS)))


def tick_to_ns(tick_ms: object, least_ns: int) -> int:
    """Convert a tick in milliseconds (int, float) to whole nanoseconds.

    Raises TypeError for another type, ValueError for less than `least_ns` or more than 18 years.
    """
    number = plain_number(tick_ms)
    if number is None:
        raise TypeError(f"tick_ms is {tick_ms!r}; expected milliseconds (int, float)")
    most_ms = MAX_TICK_NS // NS_PER_MS
    if not least_ns / NS_PER_MS <= number <= most_ms:  # NaN, too
        raise ValueError(
            f"tick_ms is {tick_ms!r}; expected {least_ns / NS_PER_MS:g} to {most_ms} ms"
        )
    ticks: int = round(number * NS_PER_MS)
    return ticks
