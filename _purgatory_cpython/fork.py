"""Fork: a forked child disowns the objects of its parent.

A descriptor inherited through fork is shared, so a child that used a mailbox would consume its
parent's wake-ups; and a lock that another thread held at the fork is held for ever in the child.
`after_fork()` of objects registered here is called once in the child, before any other code runs.
Objects that cannot or do not register compare `FORK_COUNTER.value` with its value at their
creation: any thread may read it, and only the one thread of a new child writes it.
"""

import os
from typing import Final, Protocol
from weakref import WeakSet

from _purgatory_cpython.mypyc_types import i64


class Forkable(Protocol):
    """An object that can disown itself."""

    def after_fork(self) -> None:
        """Disown the object.  Runs alone in the child; must take no lock from before the fork."""


class _ForkCounter:
    """How often this process and its ancestors were forked, since this module was loaded."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: i64 = 0


FORK_COUNTER: Final = _ForkCounter()

_registered: "WeakSet[Forkable]" = WeakSet()


def register(thing: Forkable) -> None:
    """Call `thing.after_fork()` after a fork, while `thing` lives.  From any thread."""
    _registered.add(thing)


def _after_fork_in_child() -> None:
    FORK_COUNTER.value += 1  # first: `after_fork` may read it
    for thing in list(_registered):
        thing.after_fork()
    _registered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
