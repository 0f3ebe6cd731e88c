"""Delays: seconds outside, whole milliseconds inside; here they meet. Any thread."""

from datetime import timedelta
from typing import Final, overload

from timingwheel._cpython.mypyc_types import i64
from timingwheel.units import to_ms_checked

# Floats below are converted without further questions; NaN and infinity are not below anything.
FAST_PATH_MAX_S: Final = 1e9


@overload
def to_ms(delay: float) -> i64: ...
@overload
def to_ms(delay: float | timedelta) -> i64: ...
def to_ms(delay: object) -> i64:
    """Seconds (or a timedelta) as the fewest whole milliseconds that are not less.

    A float counts as the decimal number that it prints as: 16.1 is 16100 ms, although 16.1 * 1000
    is a little more. Raises TypeError for what is no number, ValueError for NaN, infinity, a
    negative delay, and one of more than 2**62 ms.
    """
    if type(delay) is float and 0.0 <= delay < FAST_PATH_MAX_S:
        delay_ms: i64 = int(delay * 1000)
        return delay_ms if delay_ms / 1000 >= delay else delay_ms + 1
    return to_ms_checked(delay)
