"""Waiting for descriptors. Any thread."""

import math
import select
from collections.abc import Callable
from typing import Final

# select(2) takes descriptors below that.
_FD_SETSIZE: Final = 1024

#: Waits until a descriptor is readable, so many seconds at most; returns those that are.
Sleep = Callable[[list[int], float], list[int]]


def sleep_for(*descriptors: int) -> Sleep:
    """Return the most precise way to sleep on these descriptors, or some of them."""
    return _precise_sleep if max(descriptors) < _FD_SETSIZE else _rounded_sleep


def _precise_sleep(descriptors: list[int], seconds: float) -> list[int]:
    return select.select(descriptors, [], [], seconds)[0]


def _rounded_sleep(descriptors: list[int], seconds: float) -> list[int]:
    """Sleep up to a millisecond longer than told."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll(math.ceil(1000 * seconds))]
