"""RefusedBuckets: runs what an executor refused, so that no task that came due is lost.

A pool that was shut down takes no bucket, and one that is shut down with `cancel_futures` drops
those that it has. Any thread.
"""

from timingwheel.bucket import TimerTaskList
from timingwheel.executors.worker import FiredCount, WorkerExecutor
from timingwheel.runner import TaskRunner


class RefusedBuckets:
    """Runs refused buckets in a worker of the timer's own, started with the first of them."""

    def __init__(self, name: str, counts: FiredCount, runner: TaskRunner) -> None:
        self._workers = WorkerExecutor(name, counts)
        self._runner = runner

    def run(self, bucket: TimerTaskList, error: BaseException) -> None:
        """Run a bucket that was refused with `error`, and report that for each of its tasks.

        If the system has no thread left, the tasks run here.
        """
        tasks = bucket.left()
        try:
            self._workers.execute(self._runner.run, bucket)
            self._workers.flush()
        except RuntimeError:
            self._runner.run(bucket)
        self._runner.report_refused(tasks, error)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """End the worker when it has run what it has; see `TaskExecutor`."""
        self._workers.close(wait=wait, timeout=timeout)
