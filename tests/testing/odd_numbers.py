"""Numbers that compare, convert and print themselves as they like; values of BAD_DELAYS are bad."""

from datetime import timedelta
from enum import IntEnum

import numpy as np


class Lies:
    """Whose comparisons return what is no bool, and whose arithmetic is wrong."""

    def _answer(self, *_):
        return np.bool_(0)

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _answer
    __mul__ = __rmul__ = __add__ = __radd__ = __floordiv__ = __neg__ = _answer
    __hash__ = None


class LyingFloat(Lies, float):
    """A float of that kind."""

    def __float__(self):
        return -1.0

    def __repr__(self):
        return "lying"


class LyingInt(Lies, int):
    """An int of that kind."""

    def __int__(self):
        return -1

    __index__ = __int__


class LyingDelta(Lies, timedelta):
    """A duration of that kind."""


class Count(IntEnum):
    """An int of the standard library that has a class of its own."""

    TWO = 2


HALVES = [np.float64(0.5), LyingFloat(0.5), LyingDelta(seconds=0.5)]
TWOS = [LyingInt(2), Count.TWO]
BAD_DELAYS = [
    *[np.float64(value) for value in (-0.5, float("nan"), float("inf"), 1e300)],
    *[LyingFloat(value) for value in (-1, float("nan"))],
    LyingInt(-1),
    LyingDelta(seconds=-1),
]
