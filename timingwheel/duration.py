"""Convert delays: seconds outside the package, whole milliseconds inside.

This is the only place where a delay is converted. Any thread.
"""

import math
from datetime import timedelta
from typing import Any, Final, overload

from timingwheel._cpython.mypyc_types import i64

# 146 million years. The bound keeps every sum of a time and a delay within 64 bits.
MAX_DELAY_MS: Final = 2**62

# Floats from 0 up to here take the fast path; NaN and infinity do not.
FAST_PATH_MAX_S: Final = 1e9


@overload
def to_ms(delay: float) -> i64: ...
@overload
def to_ms(delay: float | timedelta) -> i64: ...
def to_ms(delay: object) -> i64:
    """Convert a delay to the fewest whole milliseconds that are not less.

    `delay`: seconds (int, float) or a timedelta. A float counts as the decimal number that it
    prints as: 16.1 is 16100 ms, although 16.1 * 1000 is a little more. Raises TypeError for what
    is no number, ValueError for NaN, infinity, a negative delay, and one of more than 2**62 ms.
    """
    if type(delay) is float and 0.0 <= delay < FAST_PATH_MAX_S:
        delay_ms: i64 = int(delay * 1000.0)
        return delay_ms if float(delay_ms) / 1000.0 >= delay else delay_ms + 1
    return to_ms_checked(delay)


def to_ms_checked(delay: object) -> int:
    """Convert any delay, with every check; raises what `to_ms` raises."""
    if isinstance(delay, timedelta):
        negative, delay_ms = delay < timedelta(), _timedelta_to_ms(delay)
    elif isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"delay is {delay!r}; expected seconds (int, float) or a timedelta")
    elif isinstance(delay, float) and not math.isfinite(delay):
        raise ValueError(f"delay is {delay!r}; expected a finite number of seconds")
    else:
        negative, delay_ms = delay < 0, _number_to_ms(delay)
    if negative:
        raise ValueError(f"delay is {delay!r}; expected 0 or more seconds")
    if delay_ms > MAX_DELAY_MS:
        raise ValueError(f"delay is {delay!r}; expected at most {MAX_DELAY_MS // 1000} seconds")
    return delay_ms


def _timedelta_to_ms(delay: timedelta) -> int:
    delay_ms, rest = divmod(delay, timedelta(milliseconds=1))
    return delay_ms + bool(rest)


def _number_to_ms(seconds: Any) -> int:
    # Any: compiled, an int that meets a typed float becomes one, and large ints lose digits.
    # Bounded before it is multiplied: the largest floats have no thousandfold.
    bounded: Any = max(0, min(seconds, MAX_DELAY_MS))
    delay_ms: Any = round(bounded * 1000)
    return int(delay_ms + (delay_ms / 1000 < bounded))
