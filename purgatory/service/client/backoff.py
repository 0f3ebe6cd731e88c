"""Exponential backoff with jitter, for what is tried again. Any thread."""

import random
from collections.abc import Callable
from typing import Final

# So often a delay is doubled at most: beyond, it is the longest anyhow.
_MAX_DOUBLINGS: Final = 60


def backoff_s(
    attempt: int,
    first: float,
    longest: float,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds to wait after an attempt, counted from 1.

    `first` doubles with each attempt, up to `longest`; a random part of up to a half is left out,
    so what failed together is not tried again together. `uniform` is the source of chance.
    """
    delay = min(longest, first * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS))
    return delay * uniform(0.5, 1.0)
