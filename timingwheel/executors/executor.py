"""Executors: decide in which thread due tasks run.

A timer dispatches whole buckets. A bucket may run twice, or in two threads: each task is taken from
it once. Locks are re-entrant: a finalizer in the thread holding one may add a task.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from _purgatory_cpython.locks import new_rlock
from _purgatory_cpython.threads import ThreadLocal
from timingwheel.bucket import TimerTaskList
from timingwheel.rwlock import is_owned

RunBucket = Callable[[TimerTaskList], None]


@runtime_checkable
class TaskExecutor(Protocol):
    """What a timer needs of an executor. Any thread may call any method."""

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Call `run(bucket)` now or soon, in any thread, once or more often.

        If this raises, the timer reports the error and runs the bucket itself.
        """

    def flush(self) -> None:
        """Wake the threads that run buckets; called after calls of `execute`."""

    def resume(self) -> None:
        """Continue what an exception ended early."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Finish dispatched buckets; with `wait`, wait for at most `timeout` seconds."""


@runtime_checkable
class LockingExecutor(Protocol):
    """An executor whose threads need a lock."""

    def holds_lock(self) -> bool:
        """Return whether the calling thread has the lock, and so must not wait."""


class _InlineQueue:
    """The buckets that one thread runs inline, first in, first out."""

    def __init__(self) -> None:
        self.running = False
        self.waiting: deque[tuple[RunBucket, TimerTaskList]] = deque()


class InlineExecutor:
    """Runs tasks in the thread that advances the clock, or adds a task that is already due.

    A task added from inside another task runs after it. Any thread; several timers may share it.

    A KeyboardInterrupt or SystemExit of a task in the main thread ends the run early; the next
    thread using the executor continues.
    """

    def __init__(self) -> None:
        self._inline_queue = ThreadLocal(_InlineQueue)
        self._lock = new_rlock()  # guards _interrupted
        self._interrupted: deque[tuple[RunBucket, TimerTaskList]] = deque()  # by runs ended early

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Run the bucket now, or after the thread's present buckets."""
        queue = self._inline_queue.value
        queue.waiting.append((run, bucket))
        self._run_queue(queue)

    def flush(self) -> None:
        """Do nothing: the bucket has run."""

    def resume(self) -> None:
        """See `TaskExecutor`."""
        # Buckets are also left where memory was short.
        queue = self._inline_queue.value
        if self._interrupted or queue.waiting:
            self._run_queue(queue)

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

    def holds_lock(self) -> bool:
        """See `LockingExecutor`."""
        return is_owned(self._lock)

    def close(self, *, wait: bool, timeout: float | None) -> None:  # noqa: ARG002  # no thread
        """See `TaskExecutor`."""
        self.resume()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has tasks of its threads")
