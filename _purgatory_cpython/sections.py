"""Stand-ins for the interpreter lock in compiled code: SectionLock, keep_for_ever, and so on.

A section (see `atomicity`) takes a lock there, for a few lines of compiled code. `threading.RLock`
costs more than the guarded work. A `SectionLock` is taken and left by a call of a C function each,
and a thread looks again for some microseconds before sleeping. The lock is re-entrant, for
finalizers.

Threads counting references to one object wait in turn. So classes mark constant attributes as
`Final`, read without counting; objects as old as the process are not counted (`keep_for_ever`);
state of a thread is in the thread's own dict (a `threading.local` is shared). Other state is in
lanes, by the numbers of threads (`timingwheel.lanes`).

Functions that raise NotImplementedError here exist only where `LOCKED_SECTIONS` is True. Between
two compiled calls no signal handler runs, so no `with` is needed. Worth it: see docs/mechanisms.md.
Any thread.
"""

import os
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from _purgatory_cpython.atomicity import LOCKED_SECTIONS
from _purgatory_cpython.locks import new_hot_rlock

T = TypeVar("T")

if LOCKED_SECTIONS and not TYPE_CHECKING:
    from _purgatory_cpython._sections import (
        SectionLock,
        enter_section,
        free_shared_locks,
        keep_for_ever,
        leave_section,
        part_of,
        shared_lock,
        sixteenth_of,
        thread_dict,
        thread_number,
    )

    new_section_lock = SectionLock
    # No thread leaves its section in a forked child.
    os.register_at_fork(after_in_child=free_shared_locks)
else:
    new_section_lock: Final[Callable[[], Any]] = new_hot_rlock

    def enter_section(lock: object) -> None:
        """Take a lock, re-entrantly."""
        raise NotImplementedError

    def leave_section(lock: object) -> None:
        """Leave a lock held by the calling thread."""
        raise NotImplementedError

    def shared_lock(owner: object) -> Any:
        """Return a lock for an object, perhaps shared with further objects."""
        del owner
        return new_hot_rlock()

    def free_shared_locks() -> None:
        """Free each lock of `shared_lock`, held or not."""

    def sixteenth_of(key: Hashable) -> int:
        """Return a number of a key, 0 to 15, by hash."""
        raise NotImplementedError

    def part_of(parts: tuple[T, ...], key: Hashable) -> T:
        """Return a key's part of 16, by `sixteenth_of`."""
        raise NotImplementedError

    def keep_for_ever(shared: object) -> None:
        """Never free an object used by many threads: its references are not counted."""

    def thread_dict() -> dict[str, Any]:
        """Return the calling thread's own dict."""
        raise NotImplementedError

    def thread_number() -> int:
        """Return the thread's number, 0 to 255; beyond 256 threads some share one."""
        raise NotImplementedError
