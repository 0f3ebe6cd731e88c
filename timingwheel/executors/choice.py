"""executor_for: the executor of a timer, chosen by what its user passed as `executor`."""

import concurrent.futures

from timingwheel.executor import InlineExecutor, TaskExecutor
from timingwheel.executors.pool import PoolExecutor, Refuse
from timingwheel.executors.worker import FiredCount, WorkerExecutor


def executor_for(
    executor: "concurrent.futures.Executor | TaskExecutor | None",
    name: str,
    counts: FiredCount,
    refuse: Refuse,
) -> TaskExecutor:
    """Return the `TaskExecutor` for a user's `executor`; TypeError if unsuitable.

    `refuse(bucket, error)` is called for a bucket that a pool dropped.
    """
    if executor is None:
        return WorkerExecutor(name, counts)
    if isinstance(executor, InlineExecutor):
        return executor
    if isinstance(executor, concurrent.futures.ProcessPoolExecutor):
        raise TypeError(
            f"executor is {executor!r}; expected one that runs tasks in this process, "
            "where they can be cancelled"
        )
    if isinstance(executor, concurrent.futures.Executor):
        return PoolExecutor(executor, refuse)
    if isinstance(executor, TaskExecutor):
        return executor
    raise TypeError(
        f"executor is {executor!r}; expected None, an InlineExecutor or a "
        "concurrent.futures.Executor"
    )
