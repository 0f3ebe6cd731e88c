"""Seconds to milliseconds, with care for all that one may pass. Any thread.

Interpreted: compiled, an int beside a float becomes one, and large ones lose their last digits.
"""

import math
from datetime import timedelta
from typing import Final

# 146 million years. The bound keeps every sum of ours inside 64 bits.
MAX_DELAY_MS: Final = 2**62


def to_ms_checked(delay: object) -> int:
    """Convert any delay; raises what `timingwheel.to_ms` raises."""
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
