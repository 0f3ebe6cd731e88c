"""callers_hold_lock: whether a signal handler or a finalizer has interrupted a locked section.

A function that has locked an object has the object in a local variable. So the frames of the
calling thread tell, and no count of locks burdens those who take one. Compiled functions have no
frames, and are interrupted only where they call interpreted code.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from _purgatory_cpython.locks import new_rlock
from _purgatory_cpython.sections import new_section_lock

_LOCKS: Final = tuple(type(make()) for make in (threading.RLock, new_rlock, new_section_lock))
# Elsewhere, a thread with a lock may wait for threads, which do not need that lock.
_PACKAGES: Final = ("timingwheel.", "purgatory.core.")


def callers_hold_lock() -> bool:
    """Return whether a function under way in this thread has locked an object of ours."""
    return any(
        isinstance(part, _LOCKS) and part._is_owned()
        for held in _locals_of_callers()
        for part in _parts_of(held)
    )


def _locals_of_callers() -> Iterator[object]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_PACKAGES):
            yield from [each for each in frame.f_locals.values() if _is_ours(type(each))]
        frame = frame.f_back


def _is_ours(kind: type) -> bool:
    return any(str(base.__module__).startswith(_PACKAGES) for base in kind.__mro__)


def _parts_of(thing: object) -> Iterator[Any]:
    for part in gc.get_referents(thing):
        if isinstance(part, dict):
            yield from list(part.values())
        else:
            yield part
