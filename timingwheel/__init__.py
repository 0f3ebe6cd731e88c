"""Timers: a hierarchical timing wheel, after Kafka's.

All names for users. `timingwheel.lowlevel` has the names for code that builds on a timer.

Layout, lowest first: `duration`, `clock` and `clock_reader` (time), `task` and `bucket`, `wheel`
(levels of slots), `rwlock` and `wheel_state` (all the former under one lock), `lanes` (a wheel
state for each thread), `runner` and `executors`, `reaper`, `timer_core`, `recurring` and `timer`.
docs/design.md explains it.
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
