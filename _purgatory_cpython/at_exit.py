"""At exit: threads end before the interpreter freezes them.

When CPython exits, daemon threads stop anywhere, holding their locks: a call from a `__del__` would
wait for such a lock for ever. So owners of threads register here, and a handler of `atexit` asks
the threads to end, and waits a moment for threads outside a callback of the program. Handlers
registered later by the program run first. (Threads still running by then count as ended; see
`threads.InterruptibleThread`.)

The program's own daemon threads freeze as well, inside any call of ours. `close` frees their locks
by `forget_frozen_threads`. A call that froze has ended half-way, without its
`finally`: each `after_freeze` mends what such a call may leave.
"""

import atexit
import gc
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import Any, Final, Protocol
from weakref import WeakSet

from _purgatory_cpython.locks import freed_at_exit
from _purgatory_cpython.real_time import real_seconds
from _purgatory_cpython.sections import new_section_lock

# Seconds to wait in all for threads in callbacks, where no lock of ours is held.
GRACE_S = 0.2


class HasThreads(Protocol):
    """An object with threads to end before the interpreter."""

    def stop_at_exit(self) -> None:
        """Ask the threads to end soon, with or without work left."""

    def join(self, timeout: float | None) -> None:
        """Wait for their end; raises nothing if none exists."""


#: Packages whose objects have locks that a call may have left taken.
_PACKAGES: Final = {"_purgatory_cpython", "timingwheel", "mq", "purgatory"}
_LOCKS: Final = tuple(type(make()) for make in (threading.Lock, threading.RLock, new_section_lock))
_CONTAINERS: Final = (dict, list, tuple, deque, set, partial, MethodType)
#: How many containers lie within each other between one of our objects and the next.
_MAX_NESTED: Final = 3

_registered: "WeakSet[HasThreads]" = WeakSet()


def register(thing: HasThreads) -> None:
    """Stop the threads of `thing`, if still alive, before the interpreter exits. Any thread."""
    _registered.add(thing)


def forget_frozen_threads(thing: object) -> None:
    """Free what frozen threads hold in `thing` and its parts, if the interpreter exits."""
    if not sys.is_finalizing():
        return
    parts = list(_parts_of(thing))
    for part in parts:
        if hasattr(type(part), "after_freeze"):
            part.after_freeze()
    for part in parts:
        if isinstance(part, _LOCKS):
            freed_at_exit(part)


def _parts_of(thing: object) -> Iterator[Any]:
    """Yield `thing` and its parts: locks, and objects of our classes and of their subclasses."""
    ours: dict[int, bool] = {}  # by the id of a class, which need not be hashable
    seen, stack = {id(thing)}, [(thing, 0)]
    while stack:
        holder, nested = stack.pop()
        if not nested:
            yield holder
        for part in gc.get_referents(holder):
            if id(part) not in seen and (depth := _depth(type(part), nested, ours)) <= _MAX_NESTED:
                seen.add(id(part))
                stack.append((part, depth))


def _depth(kind: type, nested: int, ours: dict[int, bool]) -> int:
    """Return how many containers lie around a part; too many for what has no locks of ours."""
    if id(kind) not in ours:
        ours[id(kind)] = issubclass(kind, _LOCKS) or _is_ours(kind)
    if ours[id(kind)]:
        return 0
    return nested + 1 if issubclass(kind, _CONTAINERS) else _MAX_NESTED + 1


def _is_ours(kind: type) -> bool:
    bases = {str(base.__module__).partition(".")[0] for base in kind.__mro__}
    return not (bases.isdisjoint(_PACKAGES) or issubclass(kind, threading.Thread | type))


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
