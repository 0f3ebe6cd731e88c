"""CallbackDepth: how deep a thread is in callbacks of callbacks.

For `lifecycle` alone. Compiled: `OutermostCallback` is read and written in atomic sections
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from purgatory.core.thread_local import ThreadLocal

if TYPE_CHECKING:
    from purgatory.core.operation import DelayedOperation


class CallbackDepth:
    """How deep a thread is in callbacks of callbacks, and who waits for it to come back."""

    __slots__ = ("deferred", "depth")

    def __init__(self) -> None:
        self.depth = 0
        self.deferred: deque[DelayedOperation] = deque()


class OutermostCallback:
    """Taken by one callback at a time, which saves it the look at how deep its thread is.

    That look costs as much as the watch lists do. The callbacks inside find it taken, and look: so
    they are counted, and nest at most one deeper than ``lifecycle.MAX_NESTED``.
    """

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = False  # read and written in steps; not used where there are none


CALLBACK_DEPTH: Final = ThreadLocal(CallbackDepth)
OUTERMOST_CALLBACK: Final = OutermostCallback()
