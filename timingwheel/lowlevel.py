"""Names for code that builds on a timer. Any thread.

All modules but this and `timingwheel` are private.
"""

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS, COMPILED, LOCKED_SECTIONS
from _purgatory_cpython.locks import new_condition, new_hot_condition, new_hot_rlock, new_rlock
from _purgatory_cpython.real_time import real_seconds
from _purgatory_cpython.sections import (
    enter_section,
    keep_for_ever,
    leave_section,
    part_of,
    shared_lock,
    sixteenth_of,
    thread_dict,
)
from _purgatory_cpython.sections import new_section_lock as new_lock
from _purgatory_cpython.threads import InterruptibleEvent, InterruptibleThread, yield_gil
from timingwheel._cpython.freezegun import is_frozen
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track, gc_untrack
from timingwheel.arguments import (
    MAX_COUNT,
    check_count,
    check_flag,
    check_name,
    plain_int,
    plain_number,
)
from timingwheel.clocks.duration import NS_PER_MS, delay_to_ns, to_ms, to_ns
from timingwheel.executors.executor import TaskExecutor
from timingwheel.executors.slow_tasks import MAX_WORKERS, SLOW_TASK_S
from timingwheel.reaper import ConditionWaiter, Reaper, Waiter, reduce_timer_slack
from timingwheel.runner import is_process_exit
from timingwheel.rwlock import is_owned
from timingwheel.task import (
    check_callback,
    check_initialized,
    in_copies_of,
    prepare_task,
    was_added,
)
from timingwheel.timer import (
    DEFAULT_TICK_MS,
    DEFAULT_WHEEL_SIZE,
    JOIN_GRACE_S,
    advance_some,
    runs_on,
)
from timingwheel.timer_core import (
    TimerCore,
    add_task,
    add_task_at,
    extend_task,
    now_ns,
    sleep_to_first_bucket,
)

__all__ = [
    "ATOMIC_SECTIONS",
    "COMPILED",
    "DEFAULT_TICK_MS",
    "DEFAULT_WHEEL_SIZE",
    "JOIN_GRACE_S",
    "LOCKED_SECTIONS",
    "MAX_COUNT",
    "MAX_WORKERS",
    "NS_PER_MS",
    "SLOW_TASK_S",
    "UNTRACKS_FROM_GC",
    "ConditionWaiter",
    "InterruptibleEvent",
    "InterruptibleThread",
    "Reaper",
    "TaskExecutor",
    "TimerCore",
    "Waiter",
    "add_task",
    "add_task_at",
    "advance_some",
    "check_callback",
    "check_count",
    "check_flag",
    "check_initialized",
    "check_name",
    "delay_to_ns",
    "enter_section",
    "extend_task",
    "gc_track",
    "gc_untrack",
    "in_copies_of",
    "is_frozen",
    "is_owned",
    "is_process_exit",
    "keep_for_ever",
    "leave_section",
    "new_condition",
    "new_hot_condition",
    "new_hot_rlock",
    "new_lock",
    "new_rlock",
    "now_ns",
    "part_of",
    "plain_int",
    "plain_number",
    "prepare_task",
    "real_seconds",
    "reduce_timer_slack",
    "runs_on",
    "shared_lock",
    "sixteenth_of",
    "sleep_to_first_bucket",
    "thread_dict",
    "to_ms",
    "to_ns",
    "was_added",
    "yield_gil",
]
