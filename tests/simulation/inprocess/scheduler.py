"""Scheduler: runs threads one at a time, in an order that the seed decides.

The threads are real, and run real code; each goes on while it has the baton, and offers it at each
step. One that would wait says for what, and is not picked until that is so or its time has come.
Time is virtual: each change of thread takes a moment, and when no thread can go on, it jumps to the
next deadline. If there is none, the threads are deadlocked.

A world that has failed is left as it is: its threads get the baton no more, and sleep for ever.
"""

import _thread
import random
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from tests.simulation.inprocess.policy import Policy
from tests.simulation.inprocess.task import Task

# Nanoseconds of virtual time that a thread goes on for, before it is changed.
_STEP_NS: Final = 1_000
# A world in which more is decided does not end.
_MAX_DECISIONS: Final = 1_000_000
# Real seconds after which a world hangs: one of its threads waits outside of the scheduler.
_HANG_S: Final = 120.0
# Frames that are told of a thread that is stuck.
_TOLD_FRAMES: Final = 3


class Scheduler:
    """The threads and the time of one world. `trace` is set in each thread, to offer the baton."""

    def __init__(self, chance: random.Random, *, with_history: bool = False) -> None:
        self.random = chance
        self.policy: Policy = Policy(chance)
        self.now_ns: int = 10**9  # seconds of monotonic clocks are not 0 in practice
        self.decisions: int = 0
        self.failure: str = ""
        self.history: list[str] | None = [] if with_history else None
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._steps_left = self.policy.steps()
        self._is_over = False
        self._over = _thread.allocate_lock()
        self._over.acquire()
        #: Called in each thread as it begins.
        self.on_begin: Callable[[], object] = bool

    # For the thread that makes the world

    def run(self, main: threading.Thread) -> None:
        """Run threads, beginning with `main`, until all have ended or one fails."""
        self.spawn(main)
        self._current = self._tasks[0]
        self._current.baton.release()
        if not self._over.acquire(timeout=_HANG_S):
            self.failure = self.failure or f"hangs: {self._where_all_are()}"
        self._is_over = True

    # For its threads

    def is_here(self) -> bool:
        """Whether the calling thread is the one that goes on in this world."""
        task = self._current
        return task is not None and task.ident == _thread.get_ident() and not self._is_over

    @property
    def current(self) -> Task:
        """The thread that goes on."""
        assert self._current is not None
        return self._current

    def note(self, what: str) -> None:
        """Add a line to the history, with the time and the thread."""
        if self.history is not None:
            self.history.append(f"{self.now_ns / 1e9:12.6f}  {self.current.name}: {what}")

    def step(self, weight: int = 1) -> None:
        """Offer the baton; after so many steps another thread may take it."""
        self._steps_left -= weight
        if self._steps_left <= 0:
            self.policy.interrupt(self.current)
            self._go_on()

    def wait_until(self, ready: Callable[[], bool], timeout_ns: int | None = None) -> bool:
        """Wait, for so long at most; returns whether it is `ready`."""
        task = self.current
        task.ready = ready
        task.deadline_ns = None if timeout_ns is None else self.now_ns + max(0, timeout_ns)
        self._go_on()
        task.ready = task.deadline_ns = None
        return ready()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.wait_until(_never, int(seconds * 1e9))

    def spawn(self, thread: threading.Thread) -> None:
        """Start a thread; it waits for the baton."""
        task = Task(len(self._tasks), thread)
        self.policy.welcome(task)
        self._tasks.append(task)
        _thread.start_new_thread(self._run_task, (task,))
        if self._current is not None:
            self.step(3)

    def wait_for_end(self, thread: threading.Thread, timeout_ns: int | None) -> None:
        """Wait for the end of a thread."""
        task = self._task_of(thread)
        if task is None:
            raise RuntimeError("cannot join thread before it is started")
        self.step()
        self.wait_until(lambda: task.done, timeout_ns)

    def is_alive(self, thread: threading.Thread) -> bool:
        """Whether a thread was started, and has not ended."""
        task = self._task_of(thread)
        return task is not None and not task.done

    def fail(self, what: str) -> None:
        """End the world; does not return."""
        if not self._is_over:
            self.failure = what
            self._end()
        _sleep_for_ever()

    def _task_of(self, thread: threading.Thread) -> Task | None:
        return next((task for task in self._tasks if task.thread is thread), None)

    def _run_task(self, task: Task) -> None:
        task.ident = _thread.get_ident()
        task.baton.acquire()
        try:
            self.on_begin()
            task.thread.run()
        except BaseException as error:  # a thread of the library ends by none
            sys.settrace(None)
            where = "".join(traceback.format_exception(error)[-4:])
            self.fail(f"thread {task.name} ended by {error!r}: {where}")
        sys.settrace(None)
        task.locals.clear()  # what refers to the thread's storage learns that it has ended
        task.done = True
        if all(each.done for each in self._tasks):
            self._end()
        else:
            self._decide().baton.release()

    def _end(self) -> None:
        self._is_over = True
        self._over.release()

    def _go_on(self) -> None:
        """Let the thread go on that is picked, and wait until this one is."""
        me, picked = self.current, self._decide()
        if picked is not me:
            picked.baton.release()
            me.baton.acquire()

    def _decide(self) -> Task:
        """Pick a thread, and let time pass."""
        self.decisions += 1
        if self.decisions > _MAX_DECISIONS:
            self.fail(f"does not end: {self._where_all_are()}")
        self._steps_left = self.policy.steps()
        self.now_ns += _STEP_NS
        able = self._able()
        if not able or self.policy.is_slow():
            self._jump(must=not able)
            able = self._able()
        self._current = self.policy.pick(able)
        return self._current

    def _able(self) -> list[Task]:
        return [task for task in self._tasks if task.is_able(self.now_ns)]

    def _jump(self, *, must: bool) -> None:
        """Let time pass until the next deadline."""
        deadlines = [
            task.deadline_ns
            for task in self._tasks
            if task.is_waiting() and task.deadline_ns is not None
        ]
        if deadlines:
            self.now_ns = max(self.now_ns, min(deadlines))
        elif must:
            self.fail(f"deadlock: {self._where_all_are()}")

    def _where_all_are(self) -> str:
        frames = sys._current_frames()
        told = [
            f"{task.name} at {_where(traceback.extract_stack(frames[task.ident]))}"
            for task in self._tasks
            if not task.done and task.ident in frames
        ]
        return "; ".join(told)


def _where(stack: traceback.StackSummary) -> str:
    """Tell the innermost frames, without those of this room."""
    frames = [each for each in stack if "inprocess" not in each.filename]
    return " < ".join(
        f"{each.filename.rsplit('/', 1)[-1]}:{each.lineno}"
        for each in frames[: -_TOLD_FRAMES - 1 : -1]
    )


def _never() -> bool:
    return False


def _sleep_for_ever() -> None:
    sys.settrace(None)
    lock = _thread.allocate_lock()
    lock.acquire()
    lock.acquire()
