"""Exponential backoff with jitter. Any thread."""

import random
from collections.abc import Callable
from typing import Final

# More would overflow a float.
_MAX_DOUBLINGS: Final = 60


def backoff_s(
    attempt: int,
    first: float,
    longest: float,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds to wait after an attempt, counted from 1.

    `first` doubles up to `longest`; then `uniform` takes off up to a half, so that clients do not
    retry together.
    """
    delay = min(longest, first * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS))
    return delay * uniform(0.5, 1.0)
