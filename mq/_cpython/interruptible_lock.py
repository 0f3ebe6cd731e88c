"""new_lock: a lock for `with` that no exception from outside leaves taken.

CPython 3.14 may handle a signal, or raise what another thread sent (`PyThreadState_SetAsyncExc`),
between the `__enter__` of a lock and the body of its `with`, which then never leaves the lock (its
issue 148874, mended in 3.15).  It does so where `__enter__` is a function of C.  After one of
Python it looks at nothing before the body begins; so there the lock is taken by one of Python,
which leaves it again if it is interrupted.  `__exit__` stays a function of C: one of Python could
be interrupted before it has done anything.

Compiled code has no such place.  So `new_lock` is for modules that stay interpreted, and
`new_hot_lock` for those that may be compiled.  Any thread.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from mq._cpython.atomicity import COMPILED

if sys.version_info[:2] == (3, 14) and not TYPE_CHECKING:
    # A re-entrant one: `threading.Lock` cannot be a base.
    class InterruptibleLock(type(threading.RLock())):
        """A `threading.RLock` for `with`; see the module."""

        __slots__ = ()

        def __enter__(self) -> bool:
            before = self._recursion_count()
            try:
                taken = self.acquire()
            except BaseException:
                if self._recursion_count() > before:
                    self.release()
                raise
            return taken  # in the `try` it would be outside for a tracer

    new_lock = InterruptibleLock
else:
    new_lock: Final[Callable[[], threading.Lock]] = threading.Lock

new_hot_lock: Final[Callable[[], AbstractContextManager[Any]]] = (
    threading.Lock if COMPILED else new_lock
)
