"""The one clock of all records: seconds since boot, which stop for nothing."""

import time


def now() -> float:
    """Return seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
