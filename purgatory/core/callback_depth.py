"""Nesting: how deep a thread is in callbacks of callbacks. For `purgatory.core.lifecycle` alone.

Compiled, for `Alone` is read and written in steps (see ``timingwheel._cpython.atomicity``).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from purgatory.core.thread_local import Here

if TYPE_CHECKING:
    from purgatory.core.operation import DelayedOperation


class Nesting:
    """How deep a thread is in callbacks of callbacks, and who waits for it to come back."""

    __slots__ = ("depth", "waiting")

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: deque[DelayedOperation] = deque()


class Alone:
    """Taken by one callback at a time, which saves it the look at how deep its thread is.

    That look costs as much as the watch lists do. The callbacks inside find it taken, and look: so
    they are counted, and nest at most one deeper than ``duties.MAX_NESTED``.
    """

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = False  # read and written in steps; not used where there are none


HERE: Final = Here(Nesting)
ALONE: Final = Alone()
