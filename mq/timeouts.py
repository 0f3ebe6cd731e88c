"""The check of timeouts that callers pass. Any thread."""

import math


def check_timeout(timeout: float | None) -> None:
    """Raise ValueError for NaN, and TypeError for anything but a number or None.

    A wait until NaN would never be over: each comparison with NaN is false.
    """
    if timeout is not None and math.isnan(timeout):
        raise ValueError(f"timeout is {timeout!r}; expected a number or None")
