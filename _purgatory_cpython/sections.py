"""Stand-ins for the interpreter lock in compiled code: SectionLock, keep_for_ever, and so on.

A section (see `atomicity`) takes a lock there, for a few lines of compiled code. `threading.RLock`
costs more than the guarded work: `with` looks up two methods, and a thread goes to sleep if the
lock is taken. A `SectionLock` is taken and left by a call of a C function each, without errors, and
a thread looks again for some microseconds before sleeping. The lock is re-entrant, for finalizers.

Counting references costs, too: threads counting references to the same object wait in turn. So
classes mark constant attributes as `Final`, read without counting. Objects as old as the process
are not counted at all (`keep_for_ever`). State of a thread is in the thread's own dict: a
`threading.local` is itself an object shared by all. State that threads would share is in lanes,
chosen by the numbers of threads (`timingwheel.lanes`).

`enter_section`, `leave_section`, `part_of`, `sixteenth_of`, `thread_dict` and `thread_number`
only where `LOCKED_SECTIONS` is True. Between two compiled calls no signal handler runs, so no
`with` is needed. Everywhere else `new_section_lock` is `new_hot_rlock`, for `with`.

The gain: see "Without the interpreter lock" in docs/performance.md. Any thread.
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
    # Other threads may have been in a section when the process forked. The child's new objects
    # share locks with the parent's.
    os.register_at_fork(after_in_child=free_shared_locks)
else:
    new_section_lock: Final[Callable[[], Any]] = new_hot_rlock

    def enter_section(lock: object) -> None:
        """Take a lock, as often as the thread likes."""
        raise NotImplementedError

    def leave_section(lock: object) -> None:
        """Leave a lock held by the calling thread."""
        raise NotImplementedError

    def shared_lock(owner: object) -> Any:
        """Return a lock for an object, perhaps shared with further objects."""
        del owner
        return new_hot_rlock()

    def free_shared_locks() -> None:
        """Free each lock of `shared_lock`, whatever thread holds it."""

    def sixteenth_of(key: Hashable) -> int:
        """Return a number of a key, 0 to 15, by hash."""
        raise NotImplementedError

    def part_of(parts: tuple[T, ...], key: Hashable) -> T:
        """Return a key's part of 16, by `sixteenth_of`."""
        raise NotImplementedError

    def keep_for_ever(shared: object) -> None:
        """Never free an object used by many threads; references need no counting then."""

    def thread_dict() -> dict[str, Any]:
        """Return the calling thread's own dict."""
        raise NotImplementedError

    def thread_number() -> int:
        """Return the calling thread's number, 0 to 255; beyond 256 threads some share a number."""
        raise NotImplementedError
