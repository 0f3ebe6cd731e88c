"""Timers: a hierarchical timing wheel, after Kafka's.

The front door of the package: all names for users. The timer decides *when* tasks run, not what
they do. It needs sortedcontainers and the standard library. `timingwheel.lowlevel` is the door for
code that builds on a timer.

Layout, lowest first: `duration`, `clock` and `clock_reader` (time), `task` and `bucket` (a timer
and the tasks of a slot), `wheel` (levels of slots, and the occupied buckets in order), `rwlock` and
`wheel_state` (all the former under one lock), `lanes` (a wheel state for each thread), `runner` and
`executors` (run due tasks), `reaper` (the thread that advances the clock), `timer_core`,
`recurring` and `timer`. docs/design.md explains it.
"""

from _purgatory_cpython.atomicity import COMPILED
from timingwheel.clocks.clock import ManualClock, monotonic_ms
from timingwheel.errors import TimerClosed, TimerError, TimerForked, TimerFull
from timingwheel.executors.executor import InlineExecutor
from timingwheel.recurring import Recurring
from timingwheel.stats import Lateness, TimerStats, WheelLevel
from timingwheel.task import TimerTask
from timingwheel.timer import Timer

__all__ = [
    "COMPILED",
    "InlineExecutor",
    "Lateness",
    "ManualClock",
    "Recurring",
    "Timer",
    "TimerClosed",
    "TimerError",
    "TimerForked",
    "TimerFull",
    "TimerStats",
    "TimerTask",
    "WheelLevel",
    "monotonic_ms",
]
