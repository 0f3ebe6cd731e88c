"""Executors: in which thread expired tasks run.

A timer hands over whole buckets, never single tasks. An executor here is anything with `Handover`'s
two methods; it knows nothing of timers and only decides who calls ``run(bucket, catch)``. To run
the same bucket twice, or from two threads, is harmless: each task is taken from it once.

``catch`` says which exceptions of a task are reported and passed over. In threads of ours that is
all of them; inline, a KeyboardInterrupt belongs to the caller.
"""

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from timingwheel.tasklist import TimerTaskList

Run = Callable[[TimerTaskList, type[BaseException]], None]

# A pool gets one job for so many tasks of a bucket; the jobs share the bucket.
TASKS_PER_JOB = 1024
MAX_JOBS = 16


class Handover(Protocol):
    """What a timer needs of an executor."""

    def execute(self, run: Run, bucket: TimerTaskList) -> None:
        """Have ``run(bucket, catch)`` called, now or soon, once or more often."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Let what was handed over finish; with ``wait``, for at most ``timeout`` seconds."""


class _Turn(threading.local):
    """What runs inline in one thread, and what waits for it to end."""

    def __init__(self) -> None:
        self.running = False
        self.waiting: deque[tuple[Run, TimerTaskList]] = deque()


class InlineExecutor:
    """Runs tasks in the thread that hands them over: the one that advances the clock.

    A task that is due when it is added runs in the thread that adds it. If that happens inside
    another task, it runs after that one: a task that adds itself again does not recurse. One
    instance may serve several timers and threads.
    """

    def __init__(self) -> None:
        self._turn = _Turn()

    def execute(self, run: Run, bucket: TimerTaskList) -> None:
        """Run the tasks of ``bucket`` now, or as soon as those that run in this thread are done.

        A KeyboardInterrupt or SystemExit of a task ends it early; the next call goes on from there.
        """
        turn = self._turn
        turn.waiting.append((run, bucket))
        if turn.running:
            return
        turn.running = True
        try:
            while turn.waiting:
                first_run, first = turn.waiting[0]
                first_run(first, Exception)
                turn.waiting.popleft()
        finally:
            turn.running = False

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Nothing to do: nothing is left behind."""


class WorkerExecutor:
    """One thread of its own, started with the first bucket. Any thread may hand over."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[tuple[Run, TimerTaskList] | None] = SimpleQueue()
        self._lock = threading.Lock()  # guards the two fields below
        self._thread: threading.Thread | None = None
        self._closed = False

    def execute(self, run: Run, bucket: TimerTaskList) -> None:
        """Queue the bucket. After `close` it is run by the caller: nothing due is lost."""
        if self._thread is None:
            self._start()
        with self._lock:
            if not self._closed:
                self._queue.put((run, bucket))
                return
        run(bucket, Exception)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job[0](job[1], BaseException)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """End the thread once its queue is empty. Does not wait for itself."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join(timeout)


class PoolExecutor:
    """Adapts any ``concurrent.futures.Executor``; the pool stays its owner's to shut down."""

    def __init__(self, pool: concurrent.futures.Executor) -> None:
        self._pool = pool
        self._lock = threading.Lock()  # guards _running
        self._running: set[concurrent.futures.Future[None]] = set()

    def execute(self, run: Run, bucket: TimerTaskList) -> None:
        """Submit a job for each thousand tasks or so. Raises what ``submit`` raises."""
        for _ in range(min(MAX_JOBS, 1 + len(bucket) // TASKS_PER_JOB)):
            future = self._pool.submit(run, bucket, BaseException)
            with self._lock:
                self._running.add(future)
            future.add_done_callback(self._forget)

    def _forget(self, future: concurrent.futures.Future[None]) -> None:
        with self._lock:
            self._running.discard(future)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Wait for the jobs that are with the pool."""
        if wait:
            with self._lock:
                running = list(self._running)
            concurrent.futures.wait(running, timeout)


def handover_to(
    executor: "concurrent.futures.Executor | InlineExecutor | None", name: str
) -> Handover:
    """The `Handover` for what a user passes as ``executor``. TypeError for what cannot serve."""
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
        return PoolExecutor(executor)
    raise TypeError(
        f"executor is {executor!r}; expected None, an InlineExecutor or a "
        "concurrent.futures.Executor"
    )
