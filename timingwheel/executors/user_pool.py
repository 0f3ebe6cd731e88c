"""executor_for, PoolExecutor: where the tasks of a timer run, by its argument `executor`.

A user's pool may refuse a bucket or drop its jobs (`shutdown(cancel_futures=True)`): then
`RefusedBuckets` runs the tasks. Any thread. The lock is re-entrant, for finalizers.
"""

import concurrent.futures
import sys
import threading
from collections.abc import Callable

from _purgatory_cpython.locks import new_rlock
from timingwheel.bucket import TimerTaskList
from timingwheel.executors.executor import InlineExecutor, RunBucket, TaskExecutor
from timingwheel.executors.slow_tasks import FiredCount, WorkerExecutor
from timingwheel.runner import TaskRunner
from timingwheel.rwlock import is_owned

Refuse = Callable[[TimerTaskList, BaseException], None]

# Of a bucket, which the jobs share.
TASKS_PER_JOB = 1024
MAX_JOBS = 16
# Pools of processes, and of interpreters (Python 3.14).
_POOLS_ELSEWHERE = (
    ("concurrent.futures.process", "ProcessPoolExecutor"),
    ("concurrent.futures.interpreter", "InterpreterPoolExecutor"),
)


class _PoolContext(threading.local):
    """Whether this thread runs a job of the pool."""

    in_job = False


class PoolExecutor:
    """Adapts any `concurrent.futures.Executor`, and never shuts it down. Any thread.

    `refuse(bucket, error)` is called for a bucket whose tasks the pool dropped, or that died.
    """

    def __init__(self, pool: concurrent.futures.Executor, refuse: Refuse) -> None:
        self._pool = pool
        self._refuse = refuse
        self._context = _PoolContext()
        self._lock = new_rlock()  # guards _running
        self._running: dict[concurrent.futures.Future[None], TimerTaskList] = {}

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Submit a job for each TASKS_PER_JOB tasks; raises the errors of `submit`."""
        more_jobs = min(MAX_JOBS - 1, len(bucket) // TASKS_PER_JOB)
        self._submit(run, bucket)
        for _ in range(more_jobs):
            try:
                self._submit(run, bucket)
            except Exception:  # noqa: BLE001  # the first job does it all
                return

    def flush(self) -> None:
        """Do nothing: the pool wakes its threads."""

    def resume(self) -> None:
        """Do nothing."""

    def _submit(self, run: RunBucket, bucket: TimerTaskList) -> None:
        future = self._pool.submit(self._job, run, bucket)
        if not isinstance(future, concurrent.futures.Future):
            raise TypeError(f"{self._pool!r}.submit returned {future!r}; expected a Future")
        with self._lock:
            self._running[future] = bucket
        future.add_done_callback(self._on_job_done)

    def _job(self, run: RunBucket, bucket: TimerTaskList) -> None:
        in_job, self._context.in_job = self._context.in_job, True
        try:
            run(bucket)
        finally:
            self._context.in_job = in_job

    def _on_job_done(self, future: concurrent.futures.Future[None]) -> None:
        with self._lock:
            bucket = self._running.pop(future)
            left = len(bucket) and bucket not in self._running.values()
        if left:
            self._refuse(bucket, _error_of(future))

    def holds_lock(self) -> bool:
        """See `LockingExecutor`."""
        return is_owned(self._lock)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Wait for the jobs in the pool; not in a job: two would deadlock."""
        if wait and not self._context.in_job:
            with self._lock:
                running = list(self._running)
            concurrent.futures.wait(running, timeout)


def _error_of(future: concurrent.futures.Future[None]) -> BaseException:
    error = concurrent.futures.CancelledError("the pool dropped the task")
    if not future.cancelled():  # an exception from another thread ended it
        error.__cause__ = future.exception()
    return error


def _is_exit(error: BaseException) -> bool:
    """Tell whether a pool refuses because the interpreter exits, which shuts down all pools."""
    return isinstance(error, RuntimeError) and str(error).endswith("interpreter shutdown")


class RefusedBuckets:
    """Runs refused buckets in a worker of the timer's own."""

    def __init__(self, name: str, counts: FiredCount, runner: TaskRunner) -> None:
        self._workers = WorkerExecutor(name, counts)
        self._runner = runner

    def run(self, bucket: TimerTaskList, error: BaseException) -> None:
        """Run a bucket refused with `error`, here if no thread is left; report the error.

        Report none of the interpreter's exit: each due task would have one.
        """
        tasks = bucket.refuse()
        try:
            self._workers.execute(self._runner.run, bucket)
            self._workers.flush()
        except RuntimeError:
            self._runner.run(bucket)
        if tasks and not _is_exit(error):
            self._runner.report_refused(tasks, error)

    def holds_lock(self) -> bool:
        """See `LockingExecutor`."""
        return self._workers.holds_lock()

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """See `TaskExecutor`."""
        self._workers.close(wait=wait, timeout=timeout)


def executor_for(
    executor: "concurrent.futures.Executor | TaskExecutor | None",
    name: str,
    counts: FiredCount,
    refuse: Refuse,
) -> TaskExecutor:
    """Return the `TaskExecutor` for a user's `executor`; TypeError if unsuitable.

    `refuse`: see `PoolExecutor`.
    """
    if executor is None:
        return WorkerExecutor(name, counts)
    if isinstance(executor, type):  # has the methods of its instances
        raise _unsuitable(executor)
    if isinstance(executor, InlineExecutor):
        return executor
    # Looked up: an `atexit` handler that makes a timer can import nothing.
    elsewhere = (getattr(sys.modules.get(home), name, ()) for home, name in _POOLS_ELSEWHERE)
    if isinstance(executor, tuple(elsewhere)):
        raise TypeError(
            f"executor is {executor!r}; expected an executor that runs tasks in this "
            "process and interpreter: a task elsewhere cannot be cancelled"
        )
    if isinstance(executor, concurrent.futures.Executor):
        return PoolExecutor(executor, refuse)
    if isinstance(executor, TaskExecutor):
        return executor
    raise _unsuitable(executor)


def _unsuitable(executor: object) -> TypeError:
    return TypeError(
        f"executor is {executor!r}; expected None, an InlineExecutor or a "
        "concurrent.futures.Executor"
    )
