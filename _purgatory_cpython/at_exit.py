"""At exit: threads end before the interpreter freezes them.

When CPython exits, daemon threads stop anywhere, holding their locks: what a `__del__` calls then
would wait for such a lock for ever. So owners of threads register here, and a handler of `atexit`
asks the threads to end, and waits a moment for threads outside a callback of the program. Handlers
registered later by the program run first. (What has not ended by then counts as ended; see
`threads.InterruptibleThread`.)
"""

import atexit
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from _purgatory_cpython.real_time import real_seconds

# To wait in all for threads that are in callbacks, which hold no lock of ours.
GRACE_S = 0.2


class HasThreads(Protocol):
    """An object with threads that are to end before the interpreter does."""

    def stop_at_exit(self) -> None:
        """Ask its threads to end soon, whatever is left to do."""

    def join(self, timeout: float | None) -> None:
        """Wait for their end; raises nothing if none exists."""


_registered: "WeakSet[HasThreads]" = WeakSet()


def register(thing: HasThreads) -> None:
    """Stop the threads of `thing`, while that lives, before the interpreter exits. Any thread."""
    _registered.add(thing)


def _stop_all() -> None:
    things = list(_registered)
    for thing in things:
        with suppress(Exception):  # the rest are to end, too
            thing.stop_at_exit()
    deadline_s = real_seconds() + GRACE_S
    for thing in things:
        with suppress(Exception):
            thing.join(max(0.0, deadline_s - real_seconds()))


atexit.register(_stop_all)
