"""The time since boot, which goes on while the machine is suspended. Any thread."""

import time


def boot_ns() -> int:
    """Return nanoseconds since boot; time asleep counts where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)
