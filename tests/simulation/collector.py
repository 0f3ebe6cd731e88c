"""How often Python's cycle collector runs while a world does."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

# Objects that are made between two looks at the young ones. Most of what a world makes it keeps.
_YOUNG: Final = 5000


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Let the collector look at young objects less often meanwhile."""
    before = gc.get_threshold()
    if before[0]:  # else it is off
        gc.set_threshold(max(_YOUNG, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
