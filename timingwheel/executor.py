"""Executors: they decide in which thread due tasks run.

A timer dispatches whole buckets, never single tasks. An executor here is any object with the four
methods of `TaskExecutor`; it knows nothing of timers and only decides which thread calls
`run(bucket)`. To run a bucket twice, or from two threads, is harmless: each task is taken from it
once. `runner` runs the tasks, and handles what they raise.

The locks here are re-entrant: a finalizer in the thread that holds one may add a task.
"""

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol, runtime_checkable

from timingwheel.bucket import TimerTaskList

RunBucket = Callable[[TimerTaskList], None]
FailBucket = Callable[[TimerTaskList, BaseException], None]

# A pool gets one job for so many tasks of a bucket; the jobs share the bucket.
TASKS_PER_JOB = 1024
MAX_JOBS = 16


@runtime_checkable
class TaskExecutor(Protocol):
    """What a timer needs of an executor. Any thread may call any method."""

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Call `run(bucket)` now or soon, in any thread, once or more often."""

    def flush(self) -> None:
        """Wake the threads that run buckets; called after calls of `execute`."""

    def resume(self) -> None:
        """Continue what an exception in a caller's thread ended early."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Let dispatched buckets finish; with `wait`, wait for at most `timeout` seconds."""


class _InlineQueue(threading.local):
    """The buckets that one thread runs inline, first come first served."""

    def __init__(self) -> None:
        self.running = False
        self.waiting: deque[tuple[RunBucket, TimerTaskList]] = deque()


class InlineExecutor:
    """Runs tasks in the thread that advances the clock.

    A task that is due when it is added runs in the thread that adds it. If that happens inside
    another task, it runs after that one: a task that adds itself again does not recurse. One
    instance may serve several timers and threads.

    A KeyboardInterrupt or SystemExit that a task raises in the main thread ends the run early; the
    next thread that runs something here continues from there.
    """

    def __init__(self) -> None:
        self._inline_queue = _InlineQueue()
        self._lock = threading.RLock()  # guards _interrupted
        self._interrupted: deque[tuple[RunBucket, TimerTaskList]] = (
            deque()
        )  # by runs that ended early

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Run the bucket now, or after those that this thread runs already."""
        self._inline_queue.waiting.append((run, bucket))
        self._run_queue(self._inline_queue)

    def flush(self) -> None:
        """Do nothing: the bucket has run."""

    def resume(self) -> None:
        """See `TaskExecutor`."""
        if self._interrupted:
            self._run_queue(self._inline_queue)

    def _run_queue(self, queue: _InlineQueue) -> None:
        if queue.running:
            return
        queue.running = True
        try:
            self._resume_interrupted(queue)
            while queue.waiting:
                run, bucket = queue.waiting[0]
                run(bucket)
                queue.waiting.popleft()
        except BaseException:
            with self._lock:
                self._interrupted.extend(queue.waiting)
                queue.waiting.clear()
            raise
        finally:
            queue.running = False

    def _resume_interrupted(self, queue: _InlineQueue) -> None:
        if self._interrupted:
            with self._lock:
                queue.waiting.extendleft(reversed(self._interrupted))
                self._interrupted.clear()

    def close(self, *, wait: bool, timeout: float | None) -> None:  # noqa: ARG002  # no thread
        """See `TaskExecutor`."""
        self.resume()


class WorkerExecutor:
    """Runs tasks in one thread of its own, started with the first bucket."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[tuple[RunBucket, TimerTaskList] | None] = SimpleQueue()
        self._lock = threading.RLock()  # guards the two fields below
        self._thread: threading.Thread | None = None
        self._closed = False

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Queue the bucket; after `close`, run it in the caller's thread."""
        if self._thread is None:
            self._start()
        with self._lock:
            if not self._closed:
                self._queue.put((run, bucket))
                return
        run(bucket)

    def flush(self) -> None:
        """Do nothing: each bucket wakes the thread."""

    def resume(self) -> None:
        """Do nothing: the thread continues by itself."""

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run_loop, name=self._name, daemon=True)
                thread.start()
                if self._thread is None:  # else a finalizer started one meanwhile
                    self._thread = thread

    def _run_loop(self) -> None:
        with self._lock:
            # The start of this thread was interrupted, and another one works instead.
            if self._thread is not threading.current_thread():
                return
        while (job := self._queue.get()) is not None:
            job[0](job[1])
            del job  # or the last bucket would be kept until the next one comes

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """End the thread once its queue is empty; never waits for itself."""
        with self._lock:
            self._closed = True
            # At each call: an interrupt may have come before the first one put it.
            self._queue.put(None)
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join(timeout)


class _PoolContext(threading.local):
    """Whether this thread runs a job of the pool."""

    in_job = False


class PoolExecutor:
    """Adapts any `concurrent.futures.Executor`, and never shuts it down. Any thread.

    `fail_bucket(bucket, error)` is called for a bucket if the pool dropped its jobs.
    """

    def __init__(self, pool: concurrent.futures.Executor, fail_bucket: FailBucket) -> None:
        self._pool = pool
        self._fail_bucket = fail_bucket
        self._context = _PoolContext()
        self._lock = threading.RLock()  # guards _running
        self._running: dict[concurrent.futures.Future[None], TimerTaskList] = {}

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Submit a job for each thousand tasks or so; raises what `submit` raises."""
        more_jobs = min(MAX_JOBS - 1, len(bucket) // TASKS_PER_JOB)
        self._submit(run, bucket)
        for _ in range(more_jobs):
            try:
                self._submit(run, bucket)
            except Exception:  # noqa: BLE001  # the job that the pool accepted does it all
                return

    def flush(self) -> None:
        """Do nothing: the pool wakes its threads."""

    def resume(self) -> None:
        """Do nothing: the pool continues by itself."""

    def _submit(self, run: RunBucket, bucket: TimerTaskList) -> None:
        future = self._pool.submit(self._job, run, bucket)
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
            dropped = future.cancelled() and bucket not in self._running.values()
        if dropped:
            self._fail_bucket(bucket, concurrent.futures.CancelledError("the pool dropped its job"))

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Wait for the jobs in the pool, unless called by one.

        Two jobs that close the timer would wait for each other.
        """
        if wait and not self._context.in_job:
            with self._lock:
                running = list(self._running)
            concurrent.futures.wait(running, timeout)


def executor_for(
    executor: "concurrent.futures.Executor | TaskExecutor | None",
    name: str,
    fail_bucket: FailBucket,
) -> TaskExecutor:
    """Return the `TaskExecutor` for a user's `executor`; TypeError if unsuitable."""
    if executor is None:
        return WorkerExecutor(f"{name}-executor")
    if isinstance(executor, InlineExecutor):
        return executor
    if isinstance(executor, concurrent.futures.ProcessPoolExecutor):
        raise TypeError(
            f"executor is {executor!r}; expected one that runs tasks in this process, "
            "where they can be cancelled"
        )
    if isinstance(executor, concurrent.futures.Executor):
        return PoolExecutor(executor, fail_bucket)
    if isinstance(executor, TaskExecutor):
        return executor
    raise TypeError(
        f"executor is {executor!r}; expected None, an InlineExecutor or a "
        "concurrent.futures.Executor"
    )
