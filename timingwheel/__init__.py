"""When: a hierarchical timing wheel, after Kafka's.

The front door of the package; everything public is named here. It answers one question, when, and
knows nothing of what runs then: standard library and sortedcontainers only.

Layout, from the inside out: ``task`` and ``bucket`` (a timer and the bucket it waits in),
``wheel`` (levels of buckets), ``delayqueue`` (occupied buckets in order), ``rwlock``,
``wheel_state`` (all of these under one lock), ``runner`` and ``executor`` (who runs what came
due), ``reaper`` (the thread that advances the clock), ``timer`` (all of it). docs/design.md tells
the story.
"""

from timingwheel import lowlevel
from timingwheel._cpython.atomicity import COMPILED
from timingwheel.clock import ManualClock, monotonic_ms
from timingwheel.errors import TimerClosed, TimerError, TimerForked, TimerFull
from timingwheel.executor import InlineExecutor
from timingwheel.stats import Lateness, TimerStats, WheelLevel
from timingwheel.task import TimerTask
from timingwheel.timer import Timer

__all__ = [
    "COMPILED",
    "InlineExecutor",
    "Lateness",
    "ManualClock",
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

# Aliases, for programs that import from here what is now in `lowlevel`, some by a former name.
ConditionWaiter = lowlevel.ConditionWaiter
Handover = lowlevel.TaskExecutor
Reaper = lowlevel.Reaper
Waiter = lowlevel.Waiter
HIDES = lowlevel.UNTRACKS_FROM_GC
STEPS = lowlevel.ATOMIC_SECTIONS
add_task = lowlevel.add_task
hide = lowlevel.gc_untrack
show = lowlevel.gc_track
to_ms = lowlevel.to_ms
