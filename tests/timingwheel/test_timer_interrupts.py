"""A KeyboardInterrupt at every point where CPython can deliver one.

CPython lets signal handlers in when a Python function is entered, when a C function returns to one,
and when a loop jumps back. A profile and a trace function see just these points, so a small
scenario is run again and again, interrupted at the first of them, the second, and so on to the
last. The program goes on after the interrupt, and at the end every task must be accounted for.
"""

import _weakrefset
import contextlib
import gc
import sys
from collections import Counter
from functools import partial

import pytest

from tests.testing.interrupts import (
    GROUND_FLOOR,
    TIMINGWHEEL,
    at_every_place,
    handled_at,
    interrupted_at,
    is_entering_with,
)
from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer, TimerClosed, TimerTask

# The points are seen through tracing, which compiled code does not do; nor does it have them.
pytestmark = pytest.mark.skipif(COMPILED, reason="compiled code cannot be traced")


@pytest.fixture(autouse=True)
def _no_collection():
    """Remove the collector's callbacks (hypothesis has one): interrupts are to hit the timer."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Finalizers run anywhere, and swallow exceptions.
NOT_OURS = (__file__, _weakrefset.__file__)


class Interrupter:
    """Raises KeyboardInterrupt at the n-th point of one step, in no task's own code.

    Tracing is slow, so the other steps are not traced.
    """

    def __init__(self, step, n):
        self._steps_left = step
        self._countdown = n
        self._tasks = 0  # running tasks: those are user code

    @property
    def fired(self):
        """Return whether the n-th point was reached."""
        return self._countdown <= 0

    @property
    def began(self):
        """Return whether there was such a step."""
        return self._steps_left <= 0

    def __enter__(self):
        gc.disable()  # finalizers are not to be interrupted
        self._steps_left -= 1
        if self._steps_left == 0:
            sys.setprofile(self._profile)
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)
        sys.setprofile(None)
        gc.enable()

    def _point(self, frame):
        if self._tasks or frame.f_code.co_filename in NOT_OURS:
            return
        self._countdown -= 1
        if self._countdown == 0:
            raise KeyboardInterrupt

    def _profile(self, frame, event, arg):
        if frame.f_code is TimerTask.run.__code__ and event in ("call", "return"):
            self._tasks += 1 if event == "call" else -1
        elif event == "call" or (event == "c_return" and not is_entering_with(frame)):
            self._point(frame)

    def _trace(self, frame, event, arg):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        at = -1

        def local(frame, event, arg):
            nonlocal at
            if event == "opcode":
                back, at = frame.f_lasti < at, frame.f_lasti
                if back:
                    self._point(frame)
            return local

        return local


def play_at_every_point(play):
    """Play with an interrupt at each point of each step; return how many points there are."""
    points, step, n, goes_on = 0, 1, 1, True
    while goes_on:
        interrupter = Interrupter(step, n)
        play(interrupter)
        points += interrupter.fired
        step, n = (step, n + 1) if interrupter.fired else (step + 1, 1)
        goes_on = interrupter.began
    return points


class Ledger:
    """A small program on a timer, with the outcomes that each task may have."""

    def __init__(self, wheel_size=3):
        self.clock = ManualClock()
        self.errors = []
        self.timer = Timer(
            clock=self.clock,
            wheel_size=wheel_size,
            executor=InlineExecutor(),
            on_error=lambda error, task: self.errors.append(error),
        )
        self.runs = Counter()
        self.expected = {}  # name -> allowed numbers of runs
        self.due = {}
        self.tasks = {}
        self.interrupts = 0

    def _step(self, interrupter, action):
        """Call a function under the interrupter; return False if it was interrupted."""
        try:
            with interrupter:
                action()
        except KeyboardInterrupt:
            self.interrupts += 1
            return False
        return True

    def add(self, interrupter, name, delay, then=None):
        """Add a task; when interrupted it may have been added or not."""

        def run():
            assert self.clock() >= self.due[name], (name, self.clock(), self.due)
            self.runs[name] += 1
            if then is not None:
                then()

        self.due[name] = self.clock() + round(delay * 1000)
        task = self.tasks[name] = TimerTask(delay, run)
        done = self._step(interrupter, lambda: self.timer.add(task))
        self.expected[name] = {1} if done else {0, 1}

    def rearm(self, interrupter, name):
        """Add a task again: it runs once, interrupted or not."""
        if not self.runs[name]:
            before, after = self.due[name], self.clock() + self.tasks[name].delay_ms
            self.due[name] = min(before, after)
            if self._step(interrupter, lambda: self.timer.add(self.tasks[name])):
                self.due[name] = after
                self.expected[name] = {1}
            elif self.expected[name] == {0}:  # it had been cancelled before
                self.expected[name] = {0, 1}

    def cancel(self, interrupter, name):
        """Cancel a task; when interrupted it may have been cancelled or not."""
        result = []
        done = self._step(interrupter, lambda: result.append(self.tasks[name].cancel()))
        if not done:
            self.expected[name] = {0, 1}
        elif result[0]:
            assert self.runs[name] == 0
            self.expected[name] = {0}

    def advance(self, interrupter, seconds):
        """Move the clock and run what is due."""
        self.clock.advance(seconds)
        self._step(interrupter, self.timer.advance_clock)
        self.timer._check()

    def settle(self):
        """Let everything fire; every task must have an allowed outcome, and none is left."""
        for _ in range(4):
            self.clock.advance(1000)
            self.timer.advance_clock()
        self.timer._check()
        for name, allowed in self.expected.items():
            assert self.runs[name] in allowed, (name, self.runs, self.expected)
            assert self.tasks[name].done() or 0 in allowed, name
        stats = self.timer.stats()
        assert (stats.pending, stats.executor_backlog) == (0, 0)
        assert stats.fired == sum(self.runs.values())
        assert self.timer.delay_to_next() is None
        assert self.errors == []


def add_cancel_advance(ledger, interrupter):
    """Levels, a cascade of several tasks, cancels on each of them."""
    ledger.add(interrupter, "near", 0.002)
    ledger.add(interrupter, "same bucket", 0.012)
    ledger.add(interrupter, "its neighbour", 0.013)
    ledger.add(interrupter, "its second neighbour", 0.014)
    ledger.add(interrupter, "far", 1.0)
    ledger.cancel(interrupter, "its neighbour")
    ledger.advance(interrupter, 0.002)
    ledger.advance(interrupter, 0.007)
    ledger.add(interrupter, "late comer", 0.004)
    ledger.cancel(interrupter, "far")
    ledger.advance(interrupter, 0.003)
    ledger.advance(interrupter, 0.02)


def rearm(ledger, interrupter):
    """Tasks that move, within and between levels, and one that was cancelled before."""
    ledger.add(interrupter, "beat", 0.005)
    ledger.add(interrupter, "other", 0.005)
    ledger.advance(interrupter, 0.003)
    ledger.rearm(interrupter, "beat")
    ledger.advance(interrupter, 0.003)
    ledger.rearm(interrupter, "beat")
    ledger.cancel(interrupter, "beat")
    ledger.rearm(interrupter, "beat")
    ledger.advance(interrupter, 0.005)


def at_once(ledger, interrupter):
    """Delay 0, also inside a task: such a task runs after that one."""
    timer, clock = ledger.timer, ledger.clock

    def inner():
        assert clock() == 0
        ledger.runs["inner"] += 1

    tasks = ledger.tasks
    tasks["inner"] = TimerTask(0, inner)
    ledger.due["inner"] = 0

    def add_inner():
        ledger.expected["inner"] = {1}
        timer.add(tasks["inner"])

    ledger.add(interrupter, "outer", 0, then=add_inner)
    ledger.add(interrupter, "another", 0)
    ledger._step(interrupter, timer.advance_clock)
    # An interrupted add returns nothing; the next call must run what it had accepted.
    timer.advance_clock()


def overdue(ledger, interrupter):
    """A long pause: many buckets and levels at one drain."""
    for delay in (0.001, 0.004, 0.02, 0.021, 0.1, 0.3):
        ledger.add(interrupter, str(delay), delay)
    ledger.advance(interrupter, 0.25)
    ledger.advance(interrupter, 0.25)


def looked_at(ledger, interrupter):
    """delay_to_next drops empty buckets, and may be interrupted meanwhile."""
    for delay in (0.002, 0.005, 0.05, 0.2):
        ledger.add(interrupter, str(delay), delay)
    for delay in (0.002, 0.005):
        ledger.cancel(interrupter, str(delay))
    ledger._step(interrupter, ledger.timer.delay_to_next)
    ledger._step(interrupter, ledger.timer.stats)
    ledger.timer._check()
    ledger.advance(interrupter, 0.05)


def crowded(ledger, interrupter):
    """More in one bucket than it has room for at first, more that cascades into another."""
    for number in range(6):
        ledger.add(interrupter, f"crowd {number}", 0.02)
    ledger.cancel(interrupter, "crowd 2")
    ledger.advance(interrupter, 0.02)


@pytest.mark.parametrize(
    "scenario", [add_cancel_advance, rearm, at_once, overdue, looked_at, crowded]
)
def test_interrupted_at_every_point(scenario):
    """Wherever the interrupt comes, no task is lost and none runs twice."""

    def play(interrupter):
        ledger = Ledger()
        scenario(ledger, interrupter)
        ledger.settle()
        assert ledger.interrupts == interrupter.fired

    assert play_at_every_point(play) > 50


def test_interrupted_close_can_be_repeated():
    """A second close finishes an interrupted one: each task ran or was cancelled."""

    def play(interrupter):
        ledger = Ledger()
        for delay in (0.001, 0.002, 0.05, 0.2, 3):
            ledger.timer.schedule(delay, print)
        tasks = [ledger.timer.schedule(0.05, print) for _ in range(3)]
        ledger.clock.advance(0.002)
        ledger._step(interrupter, ledger.timer.close)
        ledger.timer.close()
        ledger.timer._check()
        assert len(ledger.timer) == 0
        assert all(task.cancelled() for task in tasks)
        stats = ledger.timer.stats()
        assert stats.fired + stats.cancelled == 8

    assert play_at_every_point(play) > 50


class Woken:
    """A waiter that counts."""

    def __init__(self):
        self.wakes = 0

    def wait(self, timeout):
        """Do not."""

    def wake(self):
        """Count."""
        self.wakes += 1


def started_timer():
    """Return a timer and what its reaper would sleep on."""
    timer, waiter = Timer(clock=ManualClock(), executor=InlineExecutor()), Woken()
    timer.change_waiters(add=waiter)
    timer.advance_clock()
    return timer, waiter


def add_first(timer):
    """Add what will be due first."""
    timer.schedule(0.5, print)


def move_first(timer):
    """Let what is due last be due first."""
    timer.reschedule(timer.first_tasks()[-1], 0.5)


def add_at_once(timer):
    """Add what is due now, with an executor that does not run it here."""
    timer.schedule(0, list)


@pytest.mark.parametrize("call", [add_first, move_first, add_at_once])
def test_an_interrupted_add_wakes_the_reaper(call):
    """If there is more to do than it knows of, it does not sleep on."""

    def scene(at):
        timer, waiter = started_timer()
        timer.schedule(5, print)
        waiter.wakes = 0
        delay = timer.delay_to_next()
        interrupter = interrupted_at(at, lambda: call(timer), (TIMINGWHEEL, GROUND_FLOOR))
        first = timer.first_tasks(1)
        if timer.delay_to_next() != delay or first[0].delay_ms == 500:
            assert waiter.wakes, interrupter.where
        return interrupter

    at_every_place(scene, 15)


@pytest.mark.parametrize("call", [add_first, move_first])
def test_an_add_after_an_interrupted_one_wakes_the_reaper(call):
    """Also if the interrupted one has left an empty bucket for the same moment."""

    def scene(at):
        timer, waiter = started_timer()
        timer.schedule(5, print)
        waiter.wakes = 0
        interrupter = interrupted_at(at, lambda: call(timer), (TIMINGWHEEL, GROUND_FLOOR))
        if waiter.wakes:  # the reaper looks, and sleeps again
            timer.delay_to_next()
        waiter.wakes = 0
        before = timer.first_tasks(1)[0].delay_ms
        add_first(timer)
        assert waiter.wakes or before == 500, interrupter.where
        timer._check()
        return interrupter

    at_every_place(scene, 15)


def test_stats_add_up():
    """A task that is cancelled while they are read is either pending or cancelled."""

    def scene(at):
        timer, seen = Timer(clock=ManualClock(), executor=InlineExecutor()), []
        tasks = [timer.schedule(5, print) for _ in range(3)]
        trace = handled_at(at, lambda: seen.append(timer.stats()), tasks[0].cancel, (TIMINGWHEEL,))
        assert {stats.pending + stats.cancelled for stats in seen} == {3}
        return trace

    at_every_place(scene, 3)


def test_a_handler_that_makes_the_same_level():
    """Two tasks for a level that is being made: both run, and no level is lost."""

    def scene(at):
        clock, ran = ManualClock(), []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())

        def handler():
            timer.schedule(0.1, ran.append, "handler's")

        add = partial(timer.schedule, 0.02, ran.append, "own")
        trace = handled_at(at, add, handler, (TIMINGWHEEL,))
        timer._check()
        clock.advance(1)
        timer.advance_clock()
        assert ran == (["own", "handler's"] if trace.fired else ["own"]), trace.where
        return trace

    at_every_place(scene, 15)


def test_a_handler_that_cancels_what_comes_due():
    """A task that is cancelled while its bucket is dispatched counts as cancelled, and once."""

    def scene(at):
        clock, ran = ManualClock(), []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())
        task = timer.schedule(0.001, ran.append, 1)
        timer.schedule(0.001, ran.append, 2)
        clock.advance(0.001)
        trace = handled_at(at, timer.advance_clock, task.cancel, (TIMINGWHEEL,))
        timer._check()
        assert ran == ([2] if task.cancelled() else [1, 2]), trace.where
        stats = timer.stats()
        assert (stats.pending, stats.fired, stats.cancelled) == (0, len(ran), 2 - len(ran))
        return trace

    at_every_place(scene, 15)


@pytest.mark.parametrize("handler", ["cancel", "run", "close", "advance"])
@pytest.mark.parametrize("delay", [0, 0.002, 0.02, 0.2])
def test_a_handler_in_the_middle_of_a_reschedule(delay, handler):
    """A task runs once, and not if its cancel has said so; none is left in a closed timer."""

    def scene(at):
        clock, ran, said = ManualClock(), [], []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())
        task = timer.schedule(0.1, ran.append, 1)
        handlers = {
            "cancel": lambda: said.append(task.cancel()),
            "run": lambda: timer.reschedule(task, 0),
            "close": lambda: timer.close(wait=False),
            "advance": lambda: said.append(0) or timer.advance_clock(),
        }

        def handle():
            with contextlib.suppress(RuntimeError):
                handlers[handler]()

        def reschedule():
            with contextlib.suppress(TimerClosed):
                timer.reschedule(task, delay)

        trace = handled_at(at, reschedule, handle, (TIMINGWHEEL,))
        timer._check()
        clock.advance(1)
        timer.advance_clock()
        timer._check()
        assert ran == ([] if task.cancelled() or said == [True] else [1]), trace.where
        assert (task.done(), len(timer)) == (True, 0), trace.where
        return trace

    at_every_place(scene, 2)


def test_a_handler_that_closes_in_the_middle_of_an_add():
    """The task is refused, or has its place: no bucket is dropped that is about to get it."""

    def scene(at):
        clock, ran, tasks = ManualClock(), [], []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())
        timer.schedule(0.02, ran.append, 0).cancel()  # leaves an empty bucket

        def add():
            with contextlib.suppress(TimerClosed):
                tasks.append(timer.schedule(0.02, ran.append, 1))

        trace = handled_at(at, add, lambda: timer.close(wait=False), (TIMINGWHEEL,))
        timer._check()
        clock.advance(1)
        timer.advance_clock()
        assert len(timer) == 0, trace.where
        assert all(task.done() for task in tasks), trace.where
        return trace

    at_every_place(scene, 15)


@pytest.mark.parametrize("delay", [0.001, 0.02])
def test_a_handler_that_reschedules_what_comes_due(delay):
    """A task that was rescheduled in time does not run before its new deadline."""

    def scene(at):
        clock, ran = ManualClock(), []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())
        task = timer.schedule(delay, lambda: ran.append(clock.now_ns()))
        clock.advance(delay)
        moved = partial(timer.reschedule, task, 5)
        trace = handled_at(at, timer.advance_clock, moved, (TIMINGWHEEL,))
        clock.advance(6)
        timer.advance_clock()
        timer._check()
        assert len(ran) == 1
        assert ran[0] >= task.deadline_ns, trace.where
        return trace

    at_every_place(scene, 15)


def test_a_handler_that_advances_in_the_middle_of_a_drain():
    """The second drain is refused, and the first keeps its lock."""

    def scene(at):
        clock, ran, refused = ManualClock(), [], []
        timer = Timer(tick_ms=1, wheel_size=4, clock=clock, executor=InlineExecutor())
        timer.schedule(0.02, ran.append, 1)
        clock.advance(0.02)

        def handler():
            is_inside = timer._lock.is_inside()
            try:
                timer.advance_clock()
            except RuntimeError:
                refused.append(True)
                assert timer._lock.is_inside() == is_inside

        trace = handled_at(at, timer.advance_clock, handler, (TIMINGWHEEL,))
        timer._check()
        assert not timer._lock.is_inside()
        timer.advance_clock()
        assert ran == [1]
        return trace

    at_every_place(scene, 15)
