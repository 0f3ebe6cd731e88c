"""callers_hold_lock: whether a signal handler or a finalizer has interrupted a locked section.

A function that has locked an object has the object in a local variable. So the frames of the
calling thread show it, and taking a lock costs nothing more. Compiled functions have no frames, and
are interrupted only where they call interpreted code.
"""

import gc
import sys
import threading
from types import FrameType
from typing import Any, Final

from _purgatory_cpython.locks import new_rlock
from _purgatory_cpython.sections import new_section_lock

_LOCKS: Final[Any] = tuple(type(make()) for make in (threading.RLock, new_rlock, new_section_lock))
# Elsewhere, a thread with a lock may wait for threads, which do not need that lock.
_PACKAGES: Final = ("timingwheel.", "purgatory.core.")


def callers_hold_lock() -> bool:
    """Return whether a function under way in this thread has locked an object of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_PACKAGES):
            for held in list(frame.f_locals.values()):
                if _is_ours(type(held)) and _has_locked(held):
                    return True
        frame = frame.f_back
    return False


# Lists: an interrupt at the end of a generator that was left early would be swallowed.


def _is_ours(kind: type) -> bool:
    return bool([base for base in kind.__mro__ if str(base.__module__).startswith(_PACKAGES)])


def _has_locked(thing: object) -> bool:
    parts = gc.get_referents(thing)
    for fields in [part for part in parts if isinstance(part, dict)]:
        parts += list(fields.values())
    return bool([part for part in parts if isinstance(part, _LOCKS) and part._is_owned()])
