"""At exit: threads end before the interpreter freezes them.

When CPython exits, daemon threads stop anywhere, holding their locks: a call from a `__del__` would
wait for such a lock for ever. So owners of threads register here, and a handler of `atexit` asks
the threads to end, and waits a moment for threads outside a callback of the program. Handlers
registered later by the program run first. (Threads still running by then count as ended; see
`threads.InterruptibleThread`.)
"""

import atexit
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from _purgatory_cpython.real_time import real_seconds

# Seconds to wait in all for threads in callbacks, where no lock of ours is held.
GRACE_S = 0.2


class HasThreads(Protocol):
    """An object with threads to end before the interpreter."""

    def stop_at_exit(self) -> None:
        """Ask the threads to end soon, with or without work left."""

    def join(self, timeout: float | None) -> None:
        """Wait for their end; raises nothing if none exists."""


_registered: "WeakSet[HasThreads]" = WeakSet()


def register(thing: HasThreads) -> None:
    """Stop the threads of `thing`, if still alive, before the interpreter exits. Any thread."""
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
