"""WorkerPool: each expired task runs once, in several threads; Term and TermAck at the end."""

import threading
from collections import Counter
from functools import partialmethod

import pytest

from mq import Mailbox
from purgatory import DelayedOperation, Purgatory
from purgatory.bus.commands import Activate, ExpiredBatch
from purgatory.bus.worker_pool import PoolWorker, WorkerPool
from tests.testing.eventually import eventually
from tests.testing.killed_threads import kill, killing
from timingwheel import ManualClock, Timer

PATIENCE = 60


def timer_with(count):
    """Make a clock moved by hand, and a timer with `count` workers."""
    clock = ManualClock()
    return clock, Timer("w", clock=clock, executor=WorkerPool("w", count))


@pytest.mark.parametrize("count", [1, 3])
def test_each_task_runs_once(count):
    """All tasks run once, in buckets of one and of thousands."""
    clock, timer = timer_with(count)
    runs, last = Counter(), threading.Event()
    for number in range(20_000):
        timer.schedule(0.001 + number % 10 / 1000, runs.update, [number])
    timer.schedule(0.02, last.set)
    clock.advance(0.02)
    timer.advance_clock()
    assert last.wait(PATIENCE)
    timer.close()
    assert len(runs) == 20_000
    assert set(runs.values()) == {1}


def test_fewer_threads_than_workers(monkeypatch):
    """The workers that could be started run all tasks; without any the error is reported."""
    start, errors, runs = PoolWorker.start, [], []

    def start_some(worker, least):
        if worker.name >= least:
            raise RuntimeError("can't start new thread")
        start(worker)

    clock = ManualClock()
    pool = WorkerPool("w", 3)
    timer = Timer("w", clock=clock, executor=pool, on_error=lambda error, _: errors.append(error))
    for least in ("w-executor-0", "w-executor-2"):
        monkeypatch.setattr(PoolWorker, "start", partialmethod(start_some, least))
        timer.schedule(0.001, runs.append, least)
        clock.advance(0.001)
        timer.advance_clock()
    timer.close()
    assert sorted(runs) == ["w-executor-0", "w-executor-2"]
    assert [str(error) for error in errors] == ["can't start new thread"]


def test_a_blocked_worker_holds_up_no_other():
    """A later bucket goes to the least loaded worker."""
    clock, timer = timer_with(2)
    blocked, release, free = threading.Event(), threading.Event(), threading.Event()

    def block():
        blocked.set()
        release.wait(PATIENCE)

    timer.schedule(0.001, block)
    timer.schedule(0.002, free.set)
    clock.advance(0.001)
    timer.advance_clock()
    assert blocked.wait(PATIENCE)
    clock.advance(0.001)
    timer.advance_clock()
    assert free.wait(PATIENCE)
    release.set()
    timer.close()


def test_a_large_bucket_is_shared():
    """Two workers share a large bucket: a task may wait for another one of it."""
    clock, timer = timer_with(2)
    meet = threading.Barrier(2)
    for _ in range(2):
        timer.schedule(0.001, meet.wait, PATIENCE)
    for _ in range(3000):
        timer.schedule(0.001, int)
    clock.advance(0.001)
    timer.advance_clock()
    timer.close()
    assert not meet.broken
    assert timer.stats().fired == 3002


def test_exceptions_stop_no_worker():
    """No exception of a task ends a worker, not even SystemExit."""
    clock, timer = timer_with(1)
    done = threading.Event()

    def leave():
        raise SystemExit

    errors = []
    timer = Timer(
        "w", clock=clock, executor=WorkerPool("w", 1), on_error=lambda e, t: errors.append(e)
    )
    timer.schedule(0.001, leave)
    timer.schedule(0.002, done.set)
    clock.advance(0.002)
    timer.advance_clock()
    assert done.wait(PATIENCE)
    timer.close()
    assert [type(error) for error in errors] == [SystemExit]


@killing
@pytest.mark.parametrize("count", [1, 2])
def test_a_killed_worker_goes_on(count):
    """Exceptions from another thread, between tasks and in them, lose none; and close returns."""
    clock, runs, told = ManualClock(), Counter(), []
    timer = Timer(
        "w", clock=clock, executor=WorkerPool("w", count), on_error=lambda e, t: told.append(e)
    )
    tasks, pause = [], threading.Event()

    def run(number, letters):
        tasks.extend(timer.schedule(0.001, runs.update, [(number, one)]) for one in letters)
        clock.advance(0.001)
        timer.advance_clock()

    for number in range(100):
        run(number, "abc")
        kill(timer._executor._workers[0])
        # A second exception must not hit the handling of the first. A worker that has run
        # further tasks is done with it. Of two, the other one may run them: hence the pause.
        for letters in ("def", "ghi"):
            run(number, letters)
            eventually(lambda: all(task.done() for task in tasks[-6:]))
        pause.wait(0.01)
    timer.close()
    assert all(task.done() for task in tasks)
    assert len(runs) + len(told) >= len(tasks)
    assert set(runs.values()) == {1}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("w-exec")]


class KillsInTheHandler:
    """A tracer that kills a worker in the line after an exception has come to `run`."""

    def __init__(self):
        self.is_next = self.has_killed = False

    def __call__(self, frame, event, argument):
        if frame.f_code is not PoolWorker.run.__code__:
            return None
        if event == "exception":
            self.is_next = True
        elif event == "line" and self.is_next and not self.has_killed:
            self.has_killed = True
            raise SystemExit
        return self


def test_a_worker_that_is_killed_as_it_handles_that():
    """Two exceptions in quick succession do not end it either."""
    killer, acks = KillsInTheHandler(), Mailbox()
    worker = PoolWorker("w")
    batch = ExpiredBatch(_exit_once([]), [])
    worker.write(batch)
    worker._pipe.flush()
    threading.settrace(killer)
    try:
        worker.start()
        worker.term(acks)
        assert acks.recv(PATIENCE).worker == "w"
    finally:
        threading.settrace(None)
    assert killer.has_killed
    acks.close()


def _exit_once(calls):
    """Return what runs a bucket; the first time it is as if the worker was killed there."""

    def run(bucket):
        del bucket
        calls.append(1)
        if len(calls) == 1:
            raise SystemExit

    return run


def test_a_worker_that_starts_late_counts_a_batch_once():
    """What is written before its thread looks is done twice, harmlessly; then it is idle.

    The loop would look after a worker for ever that it takes for a busy one.
    """
    worker, runs, acks = PoolWorker("w"), [], Mailbox()
    worker.write(ExpiredBatch(runs.append, ()))
    worker.flush()
    worker.term(acks)
    worker.start()
    assert acks.recv(PATIENCE).worker == "w"
    worker.join(PATIENCE)
    assert len(runs) == 2
    assert worker.load == 0


def test_close_finishes_what_was_handed_over():
    """Batches written before Term are run before TermAck."""
    clock, timer = timer_with(3)
    runs = []
    for number in range(5000):
        timer.schedule(0.001 + number % 7 / 1000, runs.append, number)
    clock.advance(0.01)
    timer.advance_clock()
    timer.close()
    assert sorted(runs) == list(range(5000))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("w-exec")]


class LockWithAVisit:
    """A lock before which, once, something else takes place, as another thread might be quicker."""

    def __init__(self, lock, visit):
        self._lock = lock
        self._visits = [visit]

    def __enter__(self):
        if self._visits:
            self._visits.pop()()
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()


def test_a_bucket_that_comes_as_close_begins_is_run():
    """What was handed over before the pool is closed comes before the Term, flushed or not."""
    pool = WorkerPool("w", 1)
    ran = []
    pool.execute(ran.append, ["first"])
    pool.flush()
    pool._lock = LockWithAVisit(pool._lock, lambda: pool.execute(ran.append, ["last"]))
    pool.close(wait=True, timeout=PATIENCE)
    pool.flush()  # as the thread does that handed it over
    assert ran == [["first"], ["last"]]


class MailboxOfAnEndedWorker:
    """Delivers a command when the worker, which just was awake, has ended."""

    def __init__(self, worker):
        self._worker = worker
        self._mailbox = worker._mailbox

    def send(self, command):
        self._mailbox.send(Activate())
        self._worker.join(PATIENCE)
        self._mailbox.send(command)

    def __getattr__(self, name):
        return getattr(self._mailbox, name)


def test_a_worker_that_ends_before_its_term_comes():
    """It looks whether it is to end whenever it is awake."""
    worker, acks = PoolWorker("w"), Mailbox()
    worker.start()
    worker._mailbox = MailboxOfAnEndedWorker(worker)
    worker.term(acks)
    assert acks.recv(PATIENCE).worker == "w"
    assert not worker.is_alive()
    acks.close()


def test_close_gives_up_on_a_worker_that_hangs():
    """close returns after its timeout; the worker ends when its task does."""
    clock, timer = timer_with(2)
    release, hangs = threading.Event(), threading.Event()

    def hang():
        hangs.set()
        release.wait(PATIENCE)

    timer.schedule(0.001, hang)
    clock.advance(0.001)
    timer.advance_clock()
    assert hangs.wait(PATIENCE)
    timer.close(timeout=0.05)
    release.set()
    timer.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("w-exec")]


def test_two_workers_may_close_at_once():
    """Tasks on two workers that close the timer do not wait for each other."""
    p = Purgatory(executor_workers=2)
    meet, closed = threading.Barrier(2), threading.Semaphore(0)

    class Op(DelayedOperation):
        def on_expiration(self):
            meet.wait(PATIENCE)
            p.close()
            closed.release()

    p.start()
    p.try_complete_else_watch(Op(0.01), ["a"])
    p.try_complete_else_watch(Op(0.03), ["b"])
    assert closed.acquire(timeout=PATIENCE)
    assert closed.acquire(timeout=PATIENCE)
    p.close()


def test_a_slow_callback_holds_up_no_other():
    """By default a worker that is in one task for long is relieved, of what is due with it too."""
    expired = threading.Semaphore(0)

    class Op(DelayedOperation):
        def on_expiration(self):
            expired.release()

    class Slow(DelayedOperation):
        def on_expiration(self):
            self.others_expired = all(expired.acquire(timeout=PATIENCE) for _ in range(20))

    with Purgatory() as p:
        slow = [Slow(0.001), Slow(0.001)]
        for op in slow:
            p.try_complete_else_watch(op, ["a"])
        for number in range(40):
            p.try_complete_else_watch(Op(0.001 + number / 1000), ["b"])
        p.close(cancel_pending=False)
    assert all(op.others_expired for op in slow)


@pytest.mark.parametrize("closed_before", [False, True])
def test_slow_workers_are_relieved_while_they_end(closed_before):
    """What is due with a slow task does not wait for it: the closing thread looks after that."""
    pool = WorkerPool("w", 1, most=4)
    timer = Timer("w", clock=ManualClock(), executor=pool)
    done, results = threading.Event(), []
    for _ in range(2):
        timer.schedule(0, lambda: results.append(done.wait(PATIENCE)))
    timer.schedule(0, done.set)
    if closed_before:  # as a loop does that ends by itself
        pool.close(wait=False, timeout=0)
    timer.close()
    assert results == [True, True]
    assert not [worker for worker in pool._workers if worker.is_alive()]


def test_idle_workers_are_not_looked_after():
    """The loop sleeps as long as it can: workers that are idle, or relieved, need no look."""
    clock, timer = ManualClock(), None
    pool = WorkerPool("w", 1, most=2)
    timer = Timer("w", clock=clock, executor=pool)
    started, release = threading.Event(), threading.Event()
    assert pool.relieve() is None
    timer.schedule(0, started.set)
    timer.schedule(0, release.wait, PATIENCE)
    assert started.wait(PATIENCE)
    while pool.relieve() is not None:  # the two looks that it takes
        pass
    assert len(pool._workers) == 2
    timer.schedule(0, release.set)
    timer.close()


@pytest.mark.parametrize(
    ("workers", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)]
)
def test_bad_count(workers, error):
    """executor_workers must be an int of at least 1."""
    with pytest.raises(error, match="executor_workers"):
        Purgatory(executor_workers=workers)


def test_not_with_a_timer_of_somebody_else():
    """executor_workers is refused together with a timer."""
    with pytest.raises(ValueError, match="executor_workers"):
        Purgatory(timer=Timer(), executor_workers=2)


class Bucket(list):
    """A bucket without tasks."""

    def take_over(self):
        """Do nothing: there is no task to take over."""


def test_a_worker_that_has_ended_at_the_exit():
    """What was written to a worker before the exit ended it is flushed without an error."""
    pool = WorkerPool("w", 1)
    pool.execute(len, Bucket())
    pool.flush()
    [worker] = pool._workers
    eventually(lambda: not worker.load and worker._mailbox.waiting)
    pool.execute(len, Bucket())
    pool.stop_at_exit()
    pool.join(PATIENCE)
    assert worker._mailbox.closed
    pool.flush()
    pool.close(wait=True, timeout=PATIENCE)
