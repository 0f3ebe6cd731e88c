"""What stands in for the interpreter lock in compiled code: SectionLock, keep_for_ever, and so on.

A section (see `atomicity`) takes a lock there, for a few lines of compiled code. `threading.RLock`
costs more than the work under it: `with` looks up two methods, and a thread that finds it taken
goes to sleep. A `SectionLock` is taken and left by one call of a C function each, which raises
nothing, and a thread that finds it taken first looks again for a microsecond. It is re-entrant, as
finalizers need it.

Counting references costs, too: threads that count references to the same object wait in turn.
So classes mark attributes that never change as `Final`: these are read without counting. What lives
as long as the process is not counted at all (`keep_for_ever`). And what belongs to a thread is in
its own dict: a `threading.local` is itself an object that all share. What threads would share is in
lanes, chosen by their numbers (`timingwheel.lanes`).

`enter_section`, `leave_section`, `part_of`, `sixteenth_of`, `thread_dict` and `thread_number`
only where `LOCKED_SECTIONS` is True. Between two compiled calls no signal handler runs, so no
`with` is needed. Everywhere else `new_section_lock` is `new_hot_rlock`, for `with`.

Worth it: see "Without the interpreter lock" in docs/performance.md. Any thread.
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
        """Leave a lock that this thread has."""
        raise NotImplementedError

    def shared_lock(owner: object) -> Any:
        """Return a lock for an object, perhaps shared with other objects."""
        del owner
        return new_hot_rlock()

    def sixteenth_of(key: Hashable) -> int:
        """Return a number of a key, 0 to 15, by its hash."""
        raise NotImplementedError

    def part_of(parts: tuple[T, ...], key: Hashable) -> T:
        """Return the one of 16 parts that is a key's, as `sixteenth_of` says."""
        raise NotImplementedError

    def keep_for_ever(shared: object) -> None:
        """Never free an object used by many threads, so that its references need no counting."""

    def thread_dict() -> dict[str, Any]:
        """Return this thread's own dict."""
        raise NotImplementedError

    def thread_number() -> int:
        """Return the number of this thread, 0 to 255; beyond 256 threads some share one."""
        raise NotImplementedError
