"""WorkerExecutor: the default executor; a standby relieves a leader that is in a slow task.

Its threads, the *workers*, differ by role alone. The *leader* sleeps until something is due or
dispatched, and runs it: one task at a time, in order of expiry. In a started timer the leader also
advances the clock, so the thread that the clock wakes starts the due task itself.

The *standby* looks at the leader `SLOW_TASK_S` after the next bucket is due, and as often while the
leader runs tasks. If one task takes longer, the standby becomes the leader. When its task has
ended, the former leader stands by, or ends if another worker stands by already.

    leader    sleep ──> drain ──> run a, b, c (c is slow) ─ ─ ─ ─ ─ ─ ─ ─> stand by
    standby   sleep ─────────────────────────────> look ──> look: lead, run d, sleep ──> ...

An idle timer has no standby yet, or one that sleeps as long as the leader.

An exception from another thread (`PyThreadState_SetAsyncExc`) is an error of the task that it hits.
Elsewhere the worker continues or is replaced, and jobs stay queued until they are done; leader and
standby check each other's life.

Lock order: a thread may take `_lock` under the timer's lock (`Timer.start`), calls no timer under
`_lock`, and may start a thread under `_lock`.

Past 400 lines: the roles change under one lock.
"""

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from _purgatory_cpython import at_exit, fork
from _purgatory_cpython.locks import new_rlock
from _purgatory_cpython.real_time import real_seconds
from _purgatory_cpython.threads import InterruptibleThread
from timingwheel.bucket import TimerTaskList
from timingwheel.errors import TimerForked
from timingwheel.executors.executor import RunBucket
from timingwheel.reaper import Advanceable, ConditionWaiter, Failure, Waiter, reduce_timer_slack
from timingwheel.rwlock import is_owned

# A leader that spends so long in one task is replaced, after up to twice as long. Shorter, ordinary
# tasks would often overlap; longer, other tasks would be late.
SLOW_TASK_S = 0.002

# A standby that wakes up late is on a busy machine, or waited for the interpreter lock. So may the
# leader, which is granted so many times as much, up to MAX_GRACE_S.
PATIENCE = 4
MAX_GRACE_S = 0.02

# When so many workers are in slow tasks, the next task waits.
MAX_WORKERS = 32

Job = tuple[RunBucket, TimerTaskList]


class FiredCount(Protocol):
    """A timer's count of started tasks."""

    @property
    def fired(self) -> int:
        """How many tasks were taken to be run."""


class Worker(InterruptibleThread):
    """A thread of a `WorkerExecutor`."""

    def __init__(self, executor: "WorkerExecutor", name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.waiter: ConditionWaiter = ConditionWaiter()  # the worker sleeps on this as standby
        self._executor = executor

    def run(self) -> None:
        """Work until no longer needed."""
        try:
            self._executor._work(self)
        finally:
            self._executor._on_worker_end(self)


class WorkerExecutor:
    """Runs tasks in its own workers, in sequence. Any thread. `counts`: of the timer."""

    def __init__(self, name: str, counts: FiredCount) -> None:
        self._name = name
        self._counts = counts
        self._lock = new_rlock()  # guards all fields below
        self._jobs: deque[Job] = deque()  # the first job stays queued while running
        self._clock: Advanceable | None = None
        self._waiter: Waiter = ConditionWaiter()  # the leader sleeps on it
        # All that may be alive. A dict: its order is a function of a simulation's seed.
        self._workers: dict[Worker, None] = {}
        self._leader: Worker | None = None
        self._standby: Worker | None = None
        self._running = False  # whether the leader runs tasks now
        self._runs = 0  # how often it began to
        # The leader's run and the count of started tasks as the standby saw them, and when.
        self._seen: tuple[int, int] | None = None
        self._seen_s = 0.0
        self._grace_s = 0.0  # what the leader is granted beyond SLOW_TASK_S
        self._next_look_s = 0.0  # of the standby
        self._closed = False
        self._is_stopping = False  # the interpreter exits
        fork.register(self)

    def execute(self, run: RunBucket, bucket: TimerTaskList) -> None:
        """Queue the bucket for the leader; after `close`, run it in the caller's thread.

        Raises RuntimeError if the system has no thread left.
        """
        with self._lock:
            over = self._closed or self._is_stopping or sys.is_finalizing()
            if self._leader is not None or not over:
                self._ensure_leader(self._name)
                self._jobs.append((run, bucket))
                return
        run(bucket)

    def flush(self) -> None:
        """Run queued jobs if this thread is the leader; else wake the leader."""
        if not self._jobs:
            return
        me = threading.current_thread()
        if self._leader is not me:
            if not self._running:  # else the leader checks the queue before sleeping
                self._waiter.wake()
        elif not self._running:  # else this is called by a task
            self._run_jobs(me)

    def resume(self) -> None:
        """Do nothing: the leader continues by itself."""

    def holds_lock(self) -> bool:
        """See `LockingExecutor`."""
        return is_owned(self._lock)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """End the workers once nothing is queued; in a worker, wait for none."""
        with self._lock:
            self._closed = True
            self._wake_all()
        if wait:
            self.join(timeout)

    def join(self, timeout: float | None) -> None:
        """Wait until all workers have ended; in a worker, do nothing."""
        deadline_s = None if timeout is None else real_seconds() + timeout
        while workers := self._living():
            if threading.current_thread() in workers:
                return
            for worker in workers:
                worker.join(None if deadline_s is None else max(0.0, deadline_s - real_seconds()))
            if deadline_s is not None and real_seconds() >= deadline_s:
                return

    def stop_at_exit(self) -> None:
        """End the workers after their present tasks."""
        if not any(worker.is_alive() for worker in tuple(self._workers)):
            return
        with self._lock:
            self._is_stopping = True
            self._running = False
            self._clock = self._leader = self._standby = None
            if self._jobs:
                self._jobs[0][1].take_over()
            self._wake_all()

    # The clock of a started timer.

    def lead_clock(self, clock: Advanceable, waiter: Waiter, name: str) -> None:
        """Let the leader advance `clock`, and sleep on `waiter`, until the clock is finished.

        `name`: of a new leader. Raises RuntimeError if the system has no thread left.
        """
        with self._lock:
            former, self._waiter, self._clock = self._waiter, waiter, clock
            self._ensure_leader(name)
        former.wake()

    def leave_clock(self, clock: Advanceable) -> None:
        """Undo an interrupted `lead_clock`."""
        with self._lock:
            if self._clock is clock:
                self._clock = None
                if not self._jobs:
                    self._leader = None
                self._wake_all()

    def leads(self, clock: Advanceable) -> bool:
        """Return whether the leader advances that clock."""
        return self._clock is clock

    # The roles.

    def _work(self, me: Worker) -> None:
        reduce_timer_slack()
        failure = Failure(me.waiter)
        while (role := self._role_of(me)) is not None:
            try:
                failure.report()
                role(me)
                failure.count = 0
            except TimerForked:  # a task forked; the child process has no leader
                pass
            except BaseException as error:  # noqa: BLE001  # it is reported
                failure.add(error)

    def _role_of(self, me: Worker) -> Callable[[Worker], None] | None:
        """Return a worker's next step; None: end."""
        with self._lock:
            if me is self._leader:
                self._running = False
                if not self._is_over():
                    return self._lead
                self._wake_all()
                self._leader = None
            # A worker whose start was interrupted is not in `_workers`.
            elif self._leader is not None and self._standby in (None, me) and me in self._workers:
                self._standby = me
                return self._stand_by
            return None

    def _lead(self, me: Worker) -> None:
        clock = self._clock
        if clock is not None and clock.finished():
            clock.shut_down()
            self._clock = None
            return
        delay = None if clock is None else clock.max_sleep()
        self._waiter.wait(0.0 if self._jobs else delay)
        self.flush()
        if clock is not None and self._leader is me:
            clock.advance_clock()

    def _run_jobs(self, me: threading.Thread) -> None:
        with self._lock:
            self._running = True
            self._runs += 1
            self._ensure_watched()
        job = self._next_job(me, None)
        while job is not None:
            run, bucket = job
            run(bucket)
            job = self._next_job(me, job)

    def _next_job(self, me: threading.Thread, done: Job | None) -> Job | None:
        """Return the next job, if this thread still leads; drop `done`."""
        with self._lock:
            if me is not self._leader:
                return None
            if self._jobs and self._jobs[0] is done:
                self._jobs.popleft()
            if self._jobs:
                return self._jobs[0]
            self._running = False
            return None

    def _stand_by(self, me: Worker) -> None:
        delay = None
        with contextlib.suppress(Exception):  # the leader reports that the clock raises
            delay = None if self._clock is None else self._clock.max_sleep()
        with self._lock:
            delay = self._look(me, delay)
        me.waiter.wait(delay)

    def _look(self, me: Worker, delay: float | None) -> float | None:
        """Take over, or return seconds to the next look. `delay`: to the next bucket. Locked."""
        leader, now_s = self._leader, real_seconds()
        if me is not self._standby or leader is None:
            return 0.0
        if self._is_slow(now_s) or not leader.is_alive():
            self._take_over(me)
            return 0.0
        if self._seen is not None:
            delay = self._seen_s + self._grace_s - now_s
        if delay is None:
            self._next_look_s = threading.TIMEOUT_MAX
            return None
        self._next_look_s = now_s + delay + SLOW_TASK_S
        return delay + SLOW_TASK_S

    def _is_slow(self, now_s: float) -> bool:
        """Return whether the leader has been in one task for long. Locked."""
        seen = (self._runs, self._counts.fired) if self._running else None
        if seen is None or seen != self._seen:
            self._seen, self._seen_s, self._grace_s = seen, now_s, 0.0
            return False
        late_s = now_s - self._next_look_s
        if late_s > SLOW_TASK_S / 2:
            self._grace_s = max(self._grace_s, min(PATIENCE * late_s, MAX_GRACE_S))
        return now_s - self._seen_s >= SLOW_TASK_S + self._grace_s

    def _take_over(self, me: Worker) -> None:
        """Make the standby the leader. Locked."""
        self._leader, self._standby, self._seen = me, None, None
        self._running = False
        if self._jobs:  # the former leader only finishes its present task
            self._jobs[0][1].take_over()

    def _is_over(self) -> bool:
        """Return whether no worker is needed any more. Locked."""
        return self._closed and self._clock is None and not self._jobs

    # The workers.

    def _ensure_leader(self, name: str) -> None:
        """Replace a dead leader. Locked."""
        if self._leader is not None and self._leader.is_alive():
            return
        self._running = False
        if self._standby is not None and self._standby.is_alive():
            self._leader, self._standby = self._standby, None
            self._wake_all()
        else:
            self._leader = self._start_worker(name)

    def _ensure_watched(self) -> None:
        """Let a living standby look within `SLOW_TASK_S`. Locked."""
        standby = self._standby
        if standby is not None and standby.is_alive():
            if self._next_look_s > real_seconds() + SLOW_TASK_S:
                standby.waiter.wake()
        elif len(self._living()) < MAX_WORKERS:
            try:
                self._standby = self._start_worker(self._name)
            except RuntimeError:  # no thread is left: tasks run all the same
                self._standby = None

    def _start_worker(self, name: str) -> Worker:
        names = [worker.name for worker in self._living()]
        number = 0
        while _numbered(name, number) in names:
            number += 1
        worker = Worker(self, _numbered(name, number))
        worker.start()
        # The worker waits for the lock. After an interrupt here it finds itself unlisted and ends.
        self._workers[worker] = None
        at_exit.register(self)
        return worker

    def _living(self) -> list[Worker]:
        with self._lock:
            living = [worker for worker in self._workers if worker.is_alive()]
            self._workers = dict.fromkeys(living)
        return living

    def _wake_all(self) -> None:
        self._waiter.wake()
        for worker in self._workers:
            worker.waiter.wake()

    def _on_worker_end(self, me: Worker) -> None:
        """Replace a worker killed between two steps."""
        with self._lock:
            if me is self._standby:
                self._standby = None
                if self._running:
                    self._ensure_watched()
            elif me is self._leader:
                self._leader = None
                if self._is_over():
                    self._wake_all()
                else:
                    self._ensure_leader(me.name)

    def after_fork(self) -> None:
        """Forget the parent's threads and jobs."""
        self._lock = new_rlock()
        self._closed = True
        self._jobs.clear()
        self._clock = self._leader = self._standby = None


class ClockLeader:
    """The leader of a `WorkerExecutor`, in the place of a timer's `Reaper`."""

    def __init__(
        self, executor: WorkerExecutor, timer: Advanceable, waiter: Waiter, name: str
    ) -> None:
        self._executor = executor
        self._timer = timer
        self._waiter = waiter
        self._name = name
        self.started: bool = False

    def start(self) -> None:
        """Let the leader advance the timer, unless interrupted."""
        try:
            self._executor.lead_clock(self._timer, self._waiter, self._name)
            self.started = True
        except BaseException:
            self._executor.leave_clock(self._timer)
            raise

    def join(self, timeout: float | None) -> None:
        """See `WorkerExecutor.join`."""
        self._executor.join(timeout)

    def ended(self) -> bool:
        """Return whether the leader no longer advances the timer."""
        return not self._executor.leads(self._timer)


def _numbered(name: str, number: int) -> str:
    return f"{name}-{number + 1}" if number else name
