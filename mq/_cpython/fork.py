"""What a forked child makes of its parent's objects: it disowns them.

A descriptor inherited through fork is shared, so a child that went on using a mailbox would eat its
parent's wake-ups; and a lock that another thread held at the fork is held for ever in the child.
Objects registered here are told once, in the child, by `after_fork()`, before any other code runs.
Those that cannot be registered, or do not want to be, compare `FORK_COUNTER.value` with what it was
when they were made: any thread may read it, and only the one thread of a new child writes it.
"""

import os
from typing import Final, Protocol
from weakref import WeakSet

from mq._cpython.mypyc_types import i64


class Forkable(Protocol):
    """An object that can disown itself."""

    def after_fork(self) -> None:
        """Disown yourself.  In the child, no other thread alive; take no lock there was before."""


class _ForkCounter:
    """How often this process and its ancestors were forked off, since this module was loaded."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: i64 = 0


FORK_COUNTER: Final = _ForkCounter()

_registered: "WeakSet[Forkable]" = WeakSet()


def register(thing: Forkable) -> None:
    """Have `thing` told after a fork, for as long as it lives.  From any thread."""
    _registered.add(thing)


def _after_fork_in_child() -> None:
    FORK_COUNTER.value += 1  # first: what is told may ask
    for thing in list(_registered):
        thing.after_fork()
    _registered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
