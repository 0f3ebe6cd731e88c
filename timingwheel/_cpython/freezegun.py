"""Read the monotonic clock where freezegun may have frozen it.

freezegun replaces the functions of the module `time`, wherever they are attributes of a module, not
in default arguments and tuples, which keep the real functions here. Interpreted, because freezegun
inspects the frames of its callers. Any thread.
"""

import time
from collections.abc import Callable
from typing import Final

# Compiled callers call TIME["monotonic_ns"] if it is REAL_MONOTONIC_NS[0]. To read the dict costs a
# third of reading the module's attribute.
TIME: Final = vars(time)
REAL_MONOTONIC_NS: Final = (time.monotonic_ns,)

# freezegun passes the real time to callers with `threading` among so many frames. A frozen clock is
# to be frozen in every thread.
_INSPECTED_FRAMES: Final = 5


def monotonic_ns(real: Callable[[], int] = time.monotonic_ns) -> int:
    """Return the monotonic clock's nanoseconds, frozen or not."""
    read = time.monotonic_ns
    return read() if read is real else _frozen_ns(_INSPECTED_FRAMES)


def _frozen_ns(frames: int) -> int:
    return _frozen_ns(frames - 1) if frames else time.monotonic_ns()


def is_frozen(real: Callable[[], int] = time.monotonic_ns) -> bool:
    """Return whether freezegun has frozen time."""
    return time.monotonic_ns is not real
