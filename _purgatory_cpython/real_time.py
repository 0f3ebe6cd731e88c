"""real_seconds: the system's monotonic clock, also while freezegun has frozen time.

For waits. freezegun replaces attributes of modules, and no default arguments.
Interpreted: a simulated world replaces the function. Any thread.
"""

import time
from collections.abc import Callable


def real_seconds(read: Callable[[], float] = time.monotonic) -> float:
    """Return the real monotonic clock's seconds."""
    return read()
