"""Workers and reapers that are killed by an exception from another thread, at any point."""

import itertools
import os
import random
import sys
import threading
from collections import Counter

import pytest

from tests.testing.interrupts import GROUND_FLOOR, TIMINGWHEEL, Interrupter
from tests.testing.killed_threads import kill, killing
from tests.timingwheel.executors.test_slow_tasks import (
    HANG,
    Slow,
    driven,
    started_or_not,
    wait_until,
    workers,
)
from timingwheel import COMPILED, ManualClock, Timer
from timingwheel.executors.slow_tasks import WorkerExecutor
from timingwheel.lowlevel import ConditionWaiter

# A thread is killed once at one point of so many; 1: at each of them.
KILL_EVERY = int(os.environ.get("KILL_EVERY", "11"))
KILLING_ROUNDS = int(os.environ.get("KILLING_ROUNDS", "200"))


class Ledger:
    """A small program on a started timer: each task must run once, or end as the victim."""

    def __init__(self, **options):
        self.clock = ManualClock()
        self.runs = Counter()
        self.errors = []
        self.victims = set()
        self.tasks = {}
        self.timer = Timer("tea", clock=self.clock, on_error=self._on_error, **options)

    def _on_error(self, error, task):
        self.errors.append(error)
        self.victims.add(task)

    def add(self, delay, count=1, action=int):
        """Schedule some tasks; return the last one."""
        for _ in range(count):
            name = len(self.tasks)
            self.tasks[name] = self.timer.schedule(delay, self._run, name, action)
        return self.tasks[name]

    def _run(self, name, action):
        self.runs[name] += 1
        action()

    def settle(self):
        """Wait until all tasks have ended, then close; each must have ended in one way."""
        wait_until(lambda: all(task.done() for task in self.tasks.values()))
        self.timer.close()
        for name, task in self.tasks.items():
            assert self.runs[name] == 1 or (self.runs[name] == 0 and task in self.victims), name
        self.timer._check()
        stats = self.timer.stats()
        assert (stats.pending, stats.executor_backlog) == (0, 0)
        assert stats.fired == len(self.tasks)
        assert self.timer._executor._living() == []
        wait_until(lambda: workers("tea") == [])  # one whose start was interrupted ends by itself


def started_timer(ledger):
    """A leader at the clock, slow tasks, tasks that are due at once."""
    slow = Slow()
    ledger.timer.start()
    ledger.add(1, 2)
    ledger.clock.advance(1)
    ledger.add(1, action=slow)
    behind = ledger.add(1, 2)
    ledger.clock.advance(1)
    wait_until(behind.done)
    ledger.add(0)
    slow.release()
    ledger.add(1)
    ledger.clock.advance(1)


def unstarted_timer(ledger):
    """The program advances the clock."""
    for _ in range(3):
        ledger.add(1, 2)
        ledger.add(0)
        ledger.clock.advance(1)
        ledger.timer.advance_clock()


def reaper_and_workers(ledger):
    """A reaper that sleeps on a waiter of the program's, and workers without a clock."""
    ledger.timer.start(ConditionWaiter())
    for _ in range(2):
        ledger.add(1, 2)
        ledger.add(0)
        ledger.clock.advance(1)


class KilledAt(Interrupter):
    """Raises in a worker or reaper at the n-th place, but not before its own first line."""

    def _place(self, frame):
        if frame.f_code.co_name not in {"run", "_run"} or frame.f_lasti > 0:
            super()._place(frame)


@killing
@pytest.mark.skipif(COMPILED, reason="compiled code cannot be traced")
# Its `sys_trace_instruction_func` calls the trace function of a thread that has none.
@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="CPython 3.12 crashes if one of several threads traces opcodes",
)
@pytest.mark.parametrize("scenario", [started_timer, unstarted_timer, reaper_and_workers])
def test_killed_at_every_point(scenario):
    """Wherever an exception from another thread ends a worker, no task is lost or runs twice."""
    for at in itertools.count(1, KILL_EVERY):
        killer, ledger = KilledAt(at, (TIMINGWHEEL, GROUND_FLOOR)), Ledger()
        threading.settrace(killer)
        try:
            scenario(ledger)
            ledger.settle()
        except BaseException as error:
            raise AssertionError((at, killer.where)) from error
        finally:
            threading.settrace(None)
        if not killer.fired:
            break
    assert at > 200


@killing
def test_killed_at_random(monkeypatch):
    """Exceptions from another thread, again and again, lose no task."""
    # pytest's own hook fails the test if it is what an exception hits.
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    chance, ledger, stop = random.Random(1), Ledger(), threading.Event()
    ledger.timer.start()

    def keep_killing():
        while not stop.wait(0.02):  # a second one must not hit the handling of the first
            threads = [thread for thread in threading.enumerate() if thread.name.startswith("tea")]
            if threads:
                kill(chance.choice(threads), chance.choice([SystemExit, ValueError]))

    killer = threading.Thread(target=keep_killing)
    killer.start()
    for _ in range(KILLING_ROUNDS):
        ledger.add(chance.choice([0, 0.001, 0.002]), chance.choice([1, 20]))
        ledger.clock.advance(0.001)
        stop.wait(0.001)
    stop.set()
    killer.join()
    ledger.clock.advance(1)
    ledger.settle()


class TestDeadWorkers:
    """Leader and standby look whether the other one lives, should it end without a word."""

    @pytest.fixture(autouse=True)
    def _silent_end(self, monkeypatch):
        """Let workers end without being replaced."""
        monkeypatch.setattr(WorkerExecutor, "_on_worker_end", lambda self, me: None)

    def end(self, timer, worker):
        """Let a worker end, and no other one.

        Meanwhile this thread has its role: without a leader the standby would end as well, and may
        still seem to live when it is looked for.
        """
        with timer._executor._lock:
            timer._executor._workers.pop(worker)
            role = "_leader" if worker is timer._executor._leader else "_standby"
            setattr(timer._executor, role, threading.current_thread())
            timer._executor._wake_all()
        worker.waiter.wake()
        worker.join(HANG)
        assert not worker.is_alive()
        with timer._executor._lock:
            setattr(timer._executor, role, worker)

    @started_or_not
    def test_dead_standby(self, started):
        """The leader starts another one before it runs a task."""
        slow, done = Slow(), threading.Event()
        with driven(started) as (timer, advance):
            timer.schedule(1, int)
            advance(1)
            wait_until(lambda: timer._executor._standby and not timer._executor._running)
            self.end(timer, timer._executor._standby)
            timer.schedule(1, slow)
            timer.schedule(1, done.set)
            advance(1)
            assert done.wait(HANG)
            slow.release()

    def test_dead_leader(self):
        """Dispatching a bucket starts another one."""
        done = threading.Event()
        with driven(False) as (timer, advance):
            timer.schedule(1, int)
            advance(1)
            wait_until(lambda: timer.stats().fired and not timer._executor._running)
            self.end(timer, timer._executor._leader)
            timer.schedule(0, done.set)
            assert done.wait(HANG)
