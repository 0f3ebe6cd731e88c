"""At exit: threads end before the interpreter freezes them, and what frozen threads hold is freed.

When CPython exits, daemon threads freeze anywhere, holding their locks: a call from a `__del__`
would wait for ever. So a handler of `atexit` asks registered threads to end, and waits a moment for
them.

Threads in the program's callbacks, and the program's own, freeze inside calls of ours. Then, before
finalizers run, `free_all` frees registered locks. A frozen call ends without its `finally`: each
`after_freeze` mends the rest. Tasks are too many to visit: a task's lock is freed when a call reads
it.
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

from _purgatory_cpython.locks import freed_at_exit
from _purgatory_cpython.real_time import real_seconds
from _purgatory_cpython.sections import free_shared_locks, new_section_lock
from _purgatory_cpython.weak_identity_set import WeakIdentitySet

# Seconds to wait in all for threads in callbacks.
GRACE_S = 0.2


class HasThreads(Protocol):
    """An object with threads to end before the interpreter."""

    def stop_at_exit(self) -> None:
        """Ask the threads to end soon, with or without work left."""

    def join(self, timeout: float | None) -> None:
        """Wait for their end; raises nothing if none exists."""


#: Packages whose objects have locks to free.
_PACKAGES: Final = {"_purgatory_cpython", "timingwheel", "mq", "purgatory"}
_LOCKS: Final = tuple(type(make()) for make in (threading.Lock, threading.RLock, new_section_lock))
_CONTAINERS: Final = (
    *(dict, list, tuple, deque, set, partial, MethodType),
    *(threading.Condition, threading.Event),
)
#: How many containers may lie between one of our objects and the next.
_MAX_NESTED: Final = 3

_with_threads: "WeakIdentitySet[HasThreads]" = WeakIdentitySet()
_with_locks: "WeakIdentitySet[object]" = WeakIdentitySet()
_many: dict[type, str | None] = {}


class _Once:
    """Whether `free_all` has run."""

    is_over = False


def register(thing: HasThreads) -> None:
    """Stop the threads of `thing` before the interpreter exits. Any thread."""
    _with_threads.add(thing)


def register_locks(thing: object) -> None:
    """Free the locks in `thing` once other threads are frozen. Any thread."""
    _with_locks.add(thing)


def register_many(kind: type, lock: str | None = None) -> None:
    """Visit no object of a class, nor its parts: there are many.

    `lock`: an attribute, whose lock is freed when interpreted code reads it at the exit.
    """
    _many[kind] = lock


def free_all() -> None:
    """Free what frozen threads hold, once, if the interpreter exits."""
    if _Once.is_over or not sys.is_finalizing():
        return
    _Once.is_over = True
    free_shared_locks()
    for kind, lock in _many.items():
        if lock is not None:
            setattr(kind, lock, _FreedWhenRead(kind, lock))
    for thing in _with_locks:
        with suppress(Exception):  # free the rest, too
            _free(thing)


def _free(thing: object) -> None:
    parts = list(_parts_of(thing))
    for part in parts:
        if hasattr(type(part), "after_freeze"):
            part.after_freeze()
    for part in parts:
        if isinstance(part, _LOCKS):
            freed_at_exit(part)


class _FreedWhenRead:
    """Takes the place of a class's attribute that has a lock."""

    def __init__(self, kind: type, name: str) -> None:
        self._name = name
        self._attribute: Any = vars(kind)[name]

    def __get__(self, thing: object, kind: type | None = None) -> Any:
        own = getattr(thing, "__dict__", None) or {}
        lock = own[self._name] if self._name in own else self._attribute.__get__(thing, kind)
        return None if lock is None else freed_at_exit(lock)

    def __set__(self, thing: object, lock: object) -> None:
        self._attribute.__set__(thing, lock)


def _on_collection(phase: str, info: dict[str, int]) -> None:  # noqa: ARG001
    free_all()


class _Dropped:
    """Calls `free_all` when dropped."""

    def __del__(self) -> None:
        free_all()


def _call_once_frozen() -> None:
    """Have `free_all` called once the threads are frozen, before finalizers run.

    The interpreter then collects garbage, unless the program has disabled collections. Next it
    drops the import caches of `sys`, and later modules.
    """
    gc.callbacks.append(_on_collection)
    imports: dict[str, Any] = {**sys.path_importer_cache, __file__: _Dropped()}
    sys.path_importer_cache = imports  # a new dict: no other object refers to it


def _parts_of(thing: object) -> Iterator[Any]:
    """Yield `thing` and its parts: locks, and objects of our classes."""
    depths: dict[tuple[int, int], int] = {}
    seen, stack = {id(thing)}, [(thing, 0)]
    while stack:
        holder, nested = stack.pop()
        if not nested:
            yield holder
        for part in gc.get_referents(holder):
            kind = type(part)
            key = id(kind), nested  # a class need not be hashable
            if key not in depths:
                depths[key] = _depth(kind, nested)
            if depths[key] <= _MAX_NESTED and id(part) not in seen:
                seen.add(id(part))
                stack.append((part, depths[key]))


def _depth(kind: type, nested: int) -> int:
    """Return how many containers lie around a part; too many if it has no locks of ours."""
    if issubclass(kind, _LOCKS) or _is_ours(kind):
        return 0
    return nested + 1 if issubclass(kind, _CONTAINERS) else _MAX_NESTED + 1


def _is_ours(kind: type) -> bool:
    bases = {str(base.__module__).partition(".")[0] for base in kind.__mro__}
    others = threading.Thread, type, *_many
    return not (bases.isdisjoint(_PACKAGES) or issubclass(kind, others))


def _stop_all() -> None:
    things = list(_with_threads)
    for thing in things:
        with suppress(Exception):  # end the rest, too
            thing.stop_at_exit()
    deadline_s = real_seconds() + GRACE_S
    for thing in things:
        with suppress(Exception):
            thing.join(max(0.0, deadline_s - real_seconds()))
    _call_once_frozen()


atexit.register(_stop_all)
