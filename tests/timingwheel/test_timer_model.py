"""A hypothesis state machine: Timer against a sorted list, checked after every step."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerFull, TimerTask

# Microseconds: milliseconds, hours and what lies around the edges of slots and levels.
delays_us = st.one_of(
    st.integers(0, 50),
    st.integers(0, 50_000),
    st.sampled_from([0, 1, 99, 100, 101, 400, 512, 8000, 51_200, 262_144, 3_600_000, 10**10]).map(
        lambda ms: ms * 1000
    ),
    st.integers(0, 40_000_000_000),
)
advances_us = st.one_of(
    st.integers(0, 30_000),
    st.sampled_from([1, 19, 20, 21, 100, 512, 5000]).map(lambda ms: ms * 1000),
    st.integers(0, 20_000_000_000),
)


class Task(TimerTask):
    """A task that reports its run to the machine, then applies an action to another task."""

    def __init__(self, machine, delay_us, then, other):
        super().__init__(timedelta(microseconds=delay_us))
        self.machine, self.then, self.other = machine, then, other

    def run(self):
        """See the class."""
        self.machine.task_ran(self)


class TimerMachine(RuleBasedStateMachine):
    """The model: a dict of pending tasks with deadlines, and what has run."""

    tick_ms = 1
    wheel_size = 20
    max_pending = 12
    tasks = Bundle("tasks")

    def __init__(self):
        super().__init__()
        self.clock = ManualClock(-12_345)
        self.errors = []
        self.timer = Timer(
            clock=self.clock,
            executor=InlineExecutor(),
            tick_ms=self.tick_ms,
            wheel_size=self.wheel_size,
            max_pending=self.max_pending,
            on_error=lambda error, task: self.errors.append(error),
        )
        self.pending = {}  # task -> due time, by the model
        self.due = {}  # task that came due in the present drain and has not run -> due time
        self.fired = self.cancelled = 0
        self.last_due = None
        self.closed = False

    def due_ns(self, deadline_ns):
        """Return the first tick that is not before a deadline."""
        tick_ns = round(self.tick_ms * 1_000_000)
        while deadline_ns % tick_ns:
            deadline_ns += tick_ns - deadline_ns % tick_ns
        return deadline_ns

    # What may be done to a timer, by a rule or by a task.

    def do_add(self, task):
        """Add, or add again."""
        waits = task in self.pending or task in self.due
        at_once = task.delay_ns == 0
        if self.closed:
            with pytest.raises(TimerClosed):
                self.timer.add(task)
            return
        left = len(self.pending) + len(self.due)
        if not waits and self.max_pending is not None and left >= self.max_pending:
            with pytest.raises(TimerFull):
                self.timer.add(task)
            return
        self.pending.pop(task, None)
        self.due.pop(task, None)
        if at_once:
            self.due[task] = None  # runs now, or after the task that adds it
        else:
            self.pending[task] = self.due_ns(self.clock.now_ns() + task.delay_ns)
        self.timer.add(task)

    def do_cancel(self, task):
        """Cancel a task that is pending, or due and not started."""
        prevented = task in self.pending or task in self.due
        self.pending.pop(task, None)
        self.due.pop(task, None)
        assert task.cancel() is prevented
        if prevented:
            self.cancelled += 1
            assert task.cancelled()

    def task_ran(self, task):
        """Check that the task is due, and that none of an earlier tick is left."""
        due_ns = self.due.pop(task)
        self.fired += 1
        assert not task.done()
        if due_ns is not None:
            assert task.deadline_ns <= due_ns <= self.clock.now_ns()
            assert self.last_due is None or self.last_due <= due_ns, "out of order"
            self.last_due = due_ns
        if task.then == "cancel":
            self.do_cancel(task.other)
        elif task.then == "add" and not (task.other.delay_ns == 0 and task.other.then == "add"):
            self.do_add(task.other)

    # Rules.

    @rule(
        target=tasks,
        delay_us=delays_us,
        then=st.sampled_from(["nothing", "cancel", "add"]),
        other=st.one_of(st.none(), tasks),
    )
    def make(self, delay_us, then, other):
        """Make a task, not added yet; without a target it acts on itself."""
        task = Task(self, delay_us, then, other)
        task.other = other or task
        return task

    @rule(target=tasks, delay_us=delays_us, count=st.integers(1, 5))
    def add_some(self, delay_us, count):
        """Add several plain tasks with one delay."""
        added = [Task(self, delay_us, "nothing", None) for _ in range(count)]
        for task in added:
            self.do_add(task)
        return multiple(*added)

    @rule(task=tasks)
    def add(self, task):
        """Add, or reschedule."""
        self.do_add(task)

    @rule(task=tasks, delay_us=delays_us)
    def rearm_with_another_delay(self, task, delay_us):
        """Re-arm with another delay, as a heartbeat that changes its interval."""
        task.delay_ns = delay_us * 1000
        self.do_add(task)

    @rule(task=tasks, delay_us=delays_us)
    def reschedule(self, task, delay_us):
        """Re-arm what is pending, and nothing else."""
        pending = task in self.pending
        if pending and self.closed:
            with pytest.raises(TimerClosed):
                self.timer.reschedule(task, timedelta(microseconds=delay_us))
            return
        if pending:
            del self.pending[task]
            if delay_us:
                self.pending[task] = self.due_ns(self.clock.now_ns() + delay_us * 1000)
            else:
                self.due[task] = None  # runs now
        assert self.timer.reschedule(task, timedelta(microseconds=delay_us)) is pending
        if task in self.pending:
            assert task.when() == pytest.approx(self.clock.now_ns() / 1e9 + delay_us / 1e6)

    @rule(task=tasks)
    def cancel(self, task):
        """Cancel, in whatever state."""
        self.do_cancel(task)

    @rule(task=consumes(tasks))
    def cancel_and_forget(self, task):
        """Cancel a task and drop it."""
        self.do_cancel(task)

    @rule(amount_us=advances_us)
    def advance(self, amount_us):
        """Move the clock: exactly what is due by then runs now."""
        self.clock.advance(timedelta(microseconds=amount_us))
        self.drain()

    @rule()
    def advance_to_next(self):
        """Sleep as long as the timer says: never beyond a due time."""
        delay = self.timer.delay_to_next()
        assert (delay is None) == (not self.pending)
        if delay is not None:
            first, now_ns = min(self.pending.values()), self.clock.now_ns()
            # To a float's precision: the longest delays are months.
            assert round(delay * 1e6) <= max(0, first - now_ns) / 1000 + 1
            self.clock.advance(delay + 1e-6)
            assert self.timer.delay_to_next() == 0
            self.drain()

    def drain(self):
        """Advance the timer, and the model with it."""
        now_ns = self.clock.now_ns()
        for task, due_ns in list(self.pending.items()):
            if due_ns <= now_ns:
                self.due[task] = self.pending.pop(task)
        any_due = bool(self.due)
        self.last_due = None
        assert self.timer.advance_clock() or not any_due
        assert self.due == {}, "late"
        assert self.timer.advance_clock() is False

    @precondition(lambda self: self.pending)
    @rule(cancel_pending=st.booleans())
    def close(self, cancel_pending):
        """Close: adds are refused; pending tasks are cancelled, or fire later."""
        self.closed = True
        if cancel_pending:
            self.cancelled += len(self.pending)
            self.pending.clear()
        self.timer.close(cancel_pending=cancel_pending)

    @invariant()
    def same_as_model(self):
        """Check that statistics and structure agree with the model."""
        self.timer._check()
        stats = self.timer.stats()
        assert len(self.timer) == stats.pending == len(self.pending)
        assert (stats.fired, stats.cancelled) == (self.fired, self.cancelled)
        assert stats.executor_backlog == 0
        assert sum(stats.lateness.counts) == self.fired
        assert self.errors == []

    def teardown(self):
        """Let the rest fire."""
        self.clock.advance(10**8)
        self.drain()
        self.same_as_model()
        self.timer.close()
        self.timer._check()


@pytest.mark.parametrize("tick_ms", [0.01, 1, 100])
@pytest.mark.parametrize("wheel_size", [3, 20, 512])
def test_timer_against_model(tick_ms, wheel_size):
    """Over thousands of steps the timer fires what the model fires, when it does."""

    class Machine(TimerMachine):
        pass

    Machine.tick_ms, Machine.wheel_size = tick_ms, wheel_size
    run_model(Machine)


def run_model(machine):
    """Check a kind of `TimerMachine` over thousands of steps."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
