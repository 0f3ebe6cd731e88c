"""Threads and events left in order by an interrupt; ThreadLocal; yield_gil. Any thread.

In the Python code of `threading.Event`, an interrupt (see `locks`) becomes `RuntimeError: release
unlocked lock`; or the lock stays taken, and the setter of the event waits for ever, as in
`Thread.start`. Here an event is a lock, left once the event is set: taking and leaving are a call
of a C function each.

Never compiled: a compiled `yield_gil` would yield to none.
"""

import sys
import threading
from collections.abc import Callable
from contextvars import Context
from itertools import starmap
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from _purgatory_cpython.green_threads import refuse_green_threads

T = TypeVar("T")


class InterruptibleEvent(threading.Event):
    """A `threading.Event`. `set` can be interrupted before it has begun or when all is done."""

    def __init__(self) -> None:
        super().__init__()
        self._flag = False
        self._unset = threading.Lock()  # taken until the event is set, and by a passing thread
        self._unset.acquire()

    def set(self) -> None:
        """See `threading.Event`."""
        self._flag = True  # first: a thread with the lock then passes the lock on
        try:
            self._unset.release()
        except RuntimeError:  # set before
            pass

    def clear(self) -> None:
        """See `threading.Event`."""
        self._flag = False
        self._unset.acquire(blocking=False)
        if self._flag:  # set meanwhile by another thread
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Event`."""
        if self.is_set():
            return True
        if timeout is None and sys.is_finalizing():  # no thread is left to set the event
            return False
        try:
            self._unset.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if self._flag:
                try:
                    self._unset.release()
                except RuntimeError:  # the calling thread had not got the lock
                    pass
        return self._flag


class InterruptibleThread(threading.Thread):
    """A `threading.Thread`. `start` raises interrupts unchanged.

    Its context is empty, also without the interpreter lock, where Python would copy the starting
    thread's. Unlike in 3.11 and 3.12, an interrupt in `is_alive` or `join` marks no running thread
    as ended. At the interpreter's exit, where 3.13 waits for daemon threads for ever, none is
    alive, none can start, and `join` returns.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if sys.version_info >= (3, 14):
            options.setdefault("context", Context())
        super().__init__(*args, **options)
        self._started = InterruptibleEvent()

    def start(self) -> None:
        """See `threading.Thread`. On 3.11 an exiting thread would wait for the new thread."""
        if sys.is_finalizing():
            raise RuntimeError("can't create new thread at interpreter shutdown")
        refuse_green_threads(RuntimeError)  # may have patched since the import
        super().start()

    def is_alive(self) -> bool:
        """See `threading.Thread`."""
        return not sys.is_finalizing() and super().is_alive()

    def join(self, timeout: float | None = None) -> None:
        """See `threading.Thread`."""
        if not sys.is_finalizing():
            super().join(timeout)

    if sys.version_info < (3, 13) and not TYPE_CHECKING:

        def _wait_for_tstate_lock(self, block: bool = True, timeout: float = -1) -> None:
            """Note the thread's end. `block`: wait for the end first."""
            lock = self._tstate_lock
            if lock is None:
                return
            taken: list[bool] = []
            try:
                # In one call of C: after an interrupt the list tells if the lock was taken.
                taken.extend(starmap(lock.acquire, ((block, timeout),)))
            finally:
                if taken and taken[0]:
                    lock.release()
                    self._stop()


class ThreadLocal(Generic[T]):
    """Holds the result of `make()` in `value`, one for each thread.

    A finalizer that runs within `make` may need a value already: the thread keeps the first. A
    subclass of `threading.local` would have none until its `__init__` returns.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    @property
    def value(self) -> T:
        """The calling thread's own."""
        if not hasattr(self._local, "value"):
            made = self._make()
            if not hasattr(self._local, "value"):
                self._local.value = made
        return cast("T", self._local.value)


def yield_gil() -> None:
    """Release the GIL to threads and signal handlers waiting for it.

    A compiled loop keeps the GIL: loops over many tasks call `yield_gil` after each batch.
    """
