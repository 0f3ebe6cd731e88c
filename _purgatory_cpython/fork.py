"""Fork: a forked child disowns the objects of the parent.

A child's mailbox would consume the parent's wake-ups, and a lock held by another thread at the fork
is held for ever. So the child first calls `after_fork()` of registered objects. Other objects
compare `FORK_COUNTER.value` with the value at their creation. Any thread may read the counter; only
the single thread of a new child writes.
"""

import os
from typing import Final, Protocol

from _purgatory_cpython.mypyc_types import i64
from _purgatory_cpython.weak_identity_set import WeakIdentitySet


class Forkable(Protocol):
    """An object able to disown itself."""

    def after_fork(self) -> None:
        """Disown the object, alone in the child; take no lock from before the fork."""


class _ForkCounter:
    """Counts forks of the process and its ancestors."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: i64 = 0


FORK_COUNTER: Final = _ForkCounter()

_registered: "WeakIdentitySet[Forkable]" = WeakIdentitySet()


def register(thing: Forkable) -> None:
    """Call `thing.after_fork()` after a fork, while `thing` lives. Any thread."""
    _registered.add(thing)


def _after_fork_in_child() -> None:
    FORK_COUNTER.value += 1  # first: `after_fork` may read the value
    for thing in _registered:
        thing.after_fork()
    _registered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
