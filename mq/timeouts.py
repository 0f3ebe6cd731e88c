"""The check of timeouts that callers pass. Any thread."""

import math


def check_timeout(timeout: float | None) -> None:
    """Raise ValueError for NaN, an endless wait; TypeError unless a number or None."""
    if timeout is not None and math.isnan(timeout):
        raise ValueError(f"timeout is {timeout!r}; expected a number or None")
