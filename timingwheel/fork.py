"""Refuse a timer's copy in a forked child, which has none of its threads."""

import os
import weakref

from timingwheel.errors import TimerForked
from timingwheel.timer_core import TimerCore

_timers: "weakref.WeakSet[TimerCore]" = weakref.WeakSet()


def refuse_after_fork(timer: TimerCore) -> None:
    """Have the methods of `timer` raise TimerForked in a forked child. Any thread."""
    _timers.add(timer)


def _poison_in_child() -> None:
    for timer in list(_timers):
        timer._lanes.poison(
            TimerForked(f"timer {timer.name!r} was made before fork; make one in this process")
        )


os.register_at_fork(after_in_child=_poison_in_child)
