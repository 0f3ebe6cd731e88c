"""hide and show: what the cycle collector need not look at.

A full collection looks at every object that could be part of a cycle, so with a million pending
timers it would take a quarter of a second, again and again. But what is pending is in use: its
timer says so, and there is nothing for the collector to find out. So a task is hidden while it is
pending and shown again when it has ended, when it may well be garbage: a callback often refers to
what holds the task.

Any thread. Without the compiled part both do nothing, which is merely slower.
"""

from typing import TYPE_CHECKING, Final

from timingwheel._cpython.atomicity import COMPILED

if TYPE_CHECKING:

    def gc_untrack(task: object) -> None:
        """Have the cycle collector pass over an object and what only that refers to."""

    def gc_track(task: object) -> None:
        """Have the cycle collector look at an object again."""

    UNTRACKS_FROM_GC: Final[bool] = COMPILED
else:
    try:
        from timingwheel._cpython._gc_tracking import gc_track, gc_untrack
    except ImportError:
        UNTRACKS_FROM_GC: Final[bool] = False

        def gc_untrack(task: object) -> None:
            """Do nothing."""

        gc_track = gc_untrack
    else:
        UNTRACKS_FROM_GC: Final[bool] = COMPILED
