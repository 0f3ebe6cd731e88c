"""gc_untrack and gc_track: what the cycle collector need not look at.

A full collection visits every tracked object. A pending task is in use, so the timer untracks it,
and tracks it again once it has ended: then it may be garbage, because a callback often refers to
the object that holds the task.

Worth it: see docs/mechanisms.md. Compiled only: setup.py builds all extensions or none. Any thread.
"""

from typing import TYPE_CHECKING, Final

from _purgatory_cpython.atomicity import COMPILED

UNTRACKS_FROM_GC: Final[bool] = COMPILED

if COMPILED and not TYPE_CHECKING:
    from timingwheel._cpython._native import gc_track, gc_untrack
else:

    def gc_untrack(task: object) -> None:
        """Hide an object, and everything only it holds, from the cycle collector."""

    def gc_track(task: object) -> None:
        """Let the cycle collector visit an object again."""
