"""Executors: in which thread expired tasks run.

A timer hands over whole buckets, never single tasks. An executor here is anything with the
four methods of `TaskExecutor`; it knows nothing of timers and only decides who calls
``run(bucket)``. To run the same bucket twice, or from two threads, is harmless: each task is taken
from it once.

The locks here are taken again by the thread that has them when a finalizer adds a task.
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
    """What a timer needs of an executor. All of it may be called from any thread."""

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Have ``run(bucket)`` called, now or soon, once or more often."""

    def flush(self) -> None:
        """Called when a run of `execute` is over: wake up whoever should know."""

    def resume(self) -> None:
        """Go on with what an exception in a caller's thread ended early."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Let what was handed over finish; with ``wait``, for at most ``timeout`` seconds."""


class _InlineQueue(threading.local):
    """What runs inline in one thread, and what waits for it to end."""

    def __init__(self) -> None:
        self.running = False
        self.waiting: deque[tuple[RunBucket, TimerTaskList]] = deque()


class InlineExecutor:
    """Runs tasks in the thread that hands them over: the one that advances the clock.

    A task that is due when it is added runs in the thread that adds it. If that happens inside
    another task, it runs after that one: a task that adds itself again does not recurse. One
    instance may serve several timers and threads.

    A KeyboardInterrupt or SystemExit that a task raises in the main thread ends the run early;
    whoever runs something next goes on from there.
    """

    def __init__(self) -> None:
        self._inline_queue = _InlineQueue()
        self._lock = threading.RLock()  # guards _interrupted
        self._interrupted: deque[tuple[RunBucket, TimerTaskList]] = (
            deque()
        )  # by turns that ended early

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Run the tasks of ``bucket`` now, or as soon as those that run in this thread are done."""
        self._inline_queue.waiting.append((run, bucket))
        self._run_queue(self._inline_queue)

    def flush(self) -> None:
        """Nothing to do: it has run."""

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
    """One thread of its own, started with the first bucket. Any thread may hand over."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[tuple[RunBucket, TimerTaskList] | None] = SimpleQueue()
        self._lock = threading.RLock()  # guards the two fields below
        self._thread: threading.Thread | None = None
        self._closed = False

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Queue the bucket. After `close` it is run by the caller: nothing due is lost."""
        if self._thread is None:
            self._start()
        with self._lock:
            if not self._closed:
                self._queue.put((run, bucket))
                return
        run(bucket)

    def flush(self) -> None:
        """Nothing to do: each bucket is announced by itself."""

    def resume(self) -> None:
        """Nothing to do: the thread goes on by itself."""

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run_loop, name=self._name, daemon=True)
                thread.start()
                if self._thread is None:  # else a finalizer has started one meanwhile
                    self._thread = thread

    def _run_loop(self) -> None:
        with self._lock:
            # Nobody knows of a thread whose start was interrupted.
            if self._thread is not threading.current_thread():
                return
        while (job := self._queue.get()) is not None:
            job[0](job[1])
            del job  # or the last bucket would be kept until the next one comes

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """End the thread once its queue is empty. Does not wait for itself."""
        with self._lock:
            self._closed = True
            # Each time anew: an interrupt may have come before the first.
            self._queue.put(None)
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join(timeout)


class _PoolContext(threading.local):
    """Whether this thread is at a job of the pool."""

    in_job = False


class PoolExecutor:
    """Adapts any ``concurrent.futures.Executor``; the pool stays its owner's to shut down.

    ``fail_bucket(bucket, error)`` is told of a bucket whose jobs the pool has dropped.
    """

    def __init__(self, pool: concurrent.futures.Executor, fail_bucket: FailBucket) -> None:
        self._pool = pool
        self._fail_bucket = fail_bucket
        self._context = _PoolContext()
        self._lock = threading.RLock()  # guards _running
        self._running: dict[concurrent.futures.Future[None], TimerTaskList] = {}

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Submit a job for each thousand tasks or so. Raises what ``submit`` raises."""
        more_jobs = min(MAX_JOBS - 1, len(bucket) // TASKS_PER_JOB)
        self._submit(run, bucket)
        for _ in range(more_jobs):
            try:
                self._submit(run, bucket)
            except Exception:  # noqa: BLE001  # one job, which the pool took, does it all
                return

    def flush(self) -> None:
        """Nothing to do: each job is announced by itself."""

    def resume(self) -> None:
        """Nothing to do: the pool goes on by itself."""

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
        """Wait for the jobs that are with the pool, unless called by one: they might by two."""
        if wait and not self._context.in_job:
            with self._lock:
                running = list(self._running)
            concurrent.futures.wait(running, timeout)


def executor_for(
    executor: "concurrent.futures.Executor | TaskExecutor | None",
    name: str,
    fail_bucket: FailBucket,
) -> TaskExecutor:
    """The `TaskExecutor` for what a user passes as ``executor``. TypeError if none can be."""
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
