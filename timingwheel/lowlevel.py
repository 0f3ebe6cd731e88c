"""Names for code that builds on a timer.

The second front door of the package. `purgatory` enters here and at `timingwheel`; all other
modules are private. Any thread.
"""

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track, gc_untrack
from timingwheel.clocks.duration import NS_PER_MS, to_ms, to_ns
from timingwheel.executor import TaskExecutor
from timingwheel.reaper import ConditionWaiter, Reaper, Waiter
from timingwheel.timer_core import add_task, extend_task, now_ns, sleep_to_first_bucket

__all__ = [
    "ATOMIC_SECTIONS",
    "NS_PER_MS",
    "UNTRACKS_FROM_GC",
    "ConditionWaiter",
    "Reaper",
    "TaskExecutor",
    "Waiter",
    "add_task",
    "extend_task",
    "gc_track",
    "gc_untrack",
    "now_ns",
    "sleep_to_first_bucket",
    "to_ms",
    "to_ns",
]
