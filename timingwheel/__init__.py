"""When: a hierarchical timing wheel, after Kafka's.

The front door of the package; everything public is named here. It answers one question, when, and
knows nothing of what runs then: standard library and sortedcontainers only.

Layout, from the inside out: ``task`` and ``tasklist`` (a timer and the bucket it waits in),
``wheel`` (levels of buckets), ``delayqueue`` (occupied buckets in order), ``rwlock``, ``buckets``
(all of these under one lock), ``runner`` and ``executor`` (who runs what came due), ``reaper``
(the thread that advances the clock), ``timer`` (all of it). docs/design.md tells the story.
"""

from timingwheel._cpython.atomicity import COMPILED, STEPS
from timingwheel._cpython.gc_tracking import HIDES, hide, show
from timingwheel.clock import ManualClock, monotonic_ms
from timingwheel.duration import to_ms
from timingwheel.errors import TimerClosed, TimerError, TimerForked, TimerFull
from timingwheel.executor import Handover, InlineExecutor
from timingwheel.reaper import ConditionWaiter, Reaper, Waiter
from timingwheel.stats import Lateness, TimerStats, WheelLevel
from timingwheel.task import TimerTask
from timingwheel.timer import Timer
from timingwheel.timer_core import add_task

__all__ = [
    "COMPILED",
    "HIDES",
    "STEPS",
    "ConditionWaiter",
    "Handover",
    "InlineExecutor",
    "Lateness",
    "ManualClock",
    "Reaper",
    "Timer",
    "TimerClosed",
    "TimerError",
    "TimerForked",
    "TimerFull",
    "TimerStats",
    "TimerTask",
    "Waiter",
    "WheelLevel",
    "add_task",
    "hide",
    "monotonic_ms",
    "show",
    "to_ms",
]
