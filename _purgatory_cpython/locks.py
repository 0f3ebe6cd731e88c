"""Locks and conditions left in order by an interrupt at any place. Any thread.

An *interrupt* is an exception from outside: a signal handler's, or another thread's
(`PyThreadState_SetAsyncExc`). CPython 3.14 may raise between an `__enter__` of C and the body of
the `with`, and the lock is never left (CPython's issue 148874, mended in 3.15). So `__enter__` is a
Python function here, and leaves the lock if interrupted. `__exit__` stays a function of C: an
interrupt could come before a Python function leaves the lock.

Compiled code has no such place: modules with a compiled form use `new_hot_lock`, `new_hot_rlock`
and `new_hot_condition`.

CPython 3.13 (issue 130279) and 3.14 catch no interrupt at the end of a loop with a condition. Where
that matters, a loop is `while True`.

In `threading.Condition`, an interrupt may leave the lock taken, or inside `wait` free, or give a
notification to a gone thread. Here the condition *is* the lock, and re-entrant, so `with` calls C
functions. A notification of an interrupted thread goes to the next.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, Final

from _purgatory_cpython.atomicity import COMPILED

if sys.version_info[:2] == (3, 14) and not TYPE_CHECKING:
    # The class itself: `threading.RLock` is a function, and no base.
    class InterruptibleRLock(type(threading.RLock())):
        """A `threading.RLock` for `with`."""

        __slots__ = ()

        def __enter__(self) -> bool:
            before = self._recursion_count()
            try:
                taken = self.acquire()
            except BaseException:
                if self._recursion_count() > before:
                    self.release()
                raise
            return taken  # in the `try` a tracer would see the line outside

    # `threading.Lock` cannot be a base.
    new_lock = new_rlock = InterruptibleRLock
else:
    new_lock: Final[Callable[[], threading.Lock]] = threading.Lock
    new_rlock: Final[Callable[[], threading.RLock]] = threading.RLock


def freed_at_exit(lock: Any) -> Any:
    """Return the lock; at the interpreter's exit, free a held lock first.

    Guarded state must survive a call ended half-way, as after an interrupt: see `at_exit`.
    """
    if sys.is_finalizing() and not (hasattr(lock, "_is_owned") and lock._is_owned()):
        lock._at_fork_reinit()
    return lock


new_hot_lock: Final[Callable[[], AbstractContextManager[Any]]] = (
    threading.Lock if COMPILED else new_lock
)
new_hot_rlock: Final[Callable[[], threading.RLock]] = threading.RLock if COMPILED else new_rlock

_NO_ARGUMENTS: Final[Any] = ((),)


class _Waiting:
    """The waiters of a condition, beside the lock."""

    if not TYPE_CHECKING:
        __slots__ = ()

    _waiters: dict[threading.Lock, None]  # of waiting threads not yet notified

    if TYPE_CHECKING:  # methods of the lock

        def _is_owned(self) -> bool: ...
        def _release_save(self) -> Any: ...
        def _acquire_restore(self, state: Any) -> None: ...

    def __init__(self) -> None:
        self._waiters = {}

    def wait(self, timeout: float | None = None, is_over: Callable[[], bool] = bool) -> bool:
        """See `threading.Condition`.

        `is_over`: tells if there is nothing to wait for; asked once notifications find the waiter:
        a signal handler of this thread may notify after the caller has looked.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        if timeout is None and sys.is_finalizing():  # no thread is left to notify
            return False
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters[waiter] = None  # no call from here until the `try`
        try:
            is_notified = is_over() or self._wait_unlocked(waiter, timeout)
            # No call from here on. After a timeout the waiter is still listed.
            if waiter in self._waiters:
                del self._waiters[waiter]
            return is_notified
        except BaseException:
            if waiter in self._waiters:
                del self._waiters[waiter]
            else:
                self.notify()
            raise

    def _wait_unlocked(self, waiter: threading.Lock, timeout: float | None) -> bool:
        saved: list[Any] = []
        try:
            # In one call of C: an interrupt finds the lock held, or the state in the list.
            saved.extend(starmap(self._release_save, _NO_ARGUMENTS))
            is_notified = waiter.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if saved:
                self._acquire_restore(saved[0])
        return is_notified  # in the `try` a tracer would see the line outside

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """See `threading.Condition`."""
        return threading.Condition.wait_for(self, predicate, timeout)  # type: ignore[arg-type]

    def notify(self, n: int = 1) -> None:
        """See `threading.Condition`."""
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        for waiter in tuple(islice(self._waiters, n)):
            try:
                waiter.release()
            except RuntimeError:  # notified before, and interrupted
                pass
            self._waiters.pop(waiter, None)

    def notify_all(self) -> None:
        """See `threading.Condition`. Interrupted at the beginning, notifies none, else all."""
        try:
            self.notify(len(self._waiters))
        except BaseException:
            self.notify(len(self._waiters))
            raise


if TYPE_CHECKING:
    InterruptibleCondition = HotCondition = threading.Condition
else:

    class InterruptibleCondition(_Waiting, type(new_rlock())):
        """A `threading.Condition` and the lock in one."""

        __slots__ = ("_waiters",)

    class HotCondition(_Waiting, type(new_hot_rlock())):
        """The same for compiled code."""

        __slots__ = ("_waiters",)


def new_condition() -> threading.Condition:
    """Return a condition for interpreted code."""
    return InterruptibleCondition()


def new_hot_condition() -> threading.Condition:
    """Return a condition for code with a compiled form."""
    return HotCondition()
