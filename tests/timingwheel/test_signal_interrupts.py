"""KeyboardInterrupts by a timer's signals, at random times: no task is lost, none runs twice.

In compiled code too, which is interrupted where it calls interpreted functions, and in system
calls. `TIMER_INTERRUPTS` is how many.
"""

import os
import random

import pytest

from tests.testing.mq_interrupts import TimerInterrupter
from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer, TimerTask
from timingwheel.recurring import Recurring

INTERRUPTS = int(os.environ.get("TIMER_INTERRUPTS", "300"))
# What runs the callback is a part of the task; compiled, it is not interrupted.
SPARED = () if COMPILED else (TimerTask.run.__code__, Recurring.run.__code__)
TASKS = 30
FAR_S = 5.0


class Play:
    """A timer, and calls in a random order; a call that was interrupted may have been done or not.

    The callbacks are functions in C, which cannot be interrupted in the middle.
    """

    def __init__(self, choice):
        self.choice = choice
        self.clock = ManualClock()
        self.errors = []
        self.timer = Timer(
            clock=self.clock,
            tick_ms=1,
            wheel_size=4,
            executor=InlineExecutor(),
            on_error=lambda *error: self.errors.append(error),
        )
        self.runs = []
        self.others = []
        self.ticks = []
        self.recurring = []
        self.tasks = [TimerTask(self.delay(), self.runs.append, n) for n in range(TASKS)]
        self.added = set()
        self.cancelled = set()
        self.doubtful = set()  # the call that was interrupted was made for this one

    def delay(self):
        """Return seconds: at once, or on any level."""
        return self.choice.choice((0, 0.001, 0.003, 0.01, 0.07, 0.3, 3))

    def call(self):
        """Make the calls, in turn."""
        for n, task in enumerate(self.tasks):
            self.doubtful = {n}
            self.timer.add(task)
            self.added.add(n)
            self.call_for(self.choice.randrange(n + 1))
        self.doubtful = set()

    def call_for(self, n):
        """Do something with a task, or move the clock."""
        task = self.tasks[n]
        self.doubtful = {n}
        kind = self.choice.randrange(7)
        if kind == 0:
            if task.cancel():
                self.cancelled.add(n)
        elif kind == 1:
            self.timer.reschedule(task, self.delay())
        elif kind == 2 and not task.done():
            self.timer.add(task)
        elif kind == 3:
            self.recur()
        elif kind == 4:
            self.doubtful = set()
            self.timer.schedule_at(self.clock() / 1000 + self.delay(), self.others.append, n)
        else:
            self.doubtful = set()
            self.clock.advance(self.choice.random() / 50)
            self.timer.advance_clock()

    def recur(self):
        """Make a task that recurs, or end one."""
        self.doubtful = set()
        if len(self.recurring) < 3:
            tick = len(self.recurring)
            self.recurring.append(self.timer.every(0.01, self.ticks.append, tick))
        else:
            self.choice.choice(self.recurring).cancel()

    def check_recurring(self):
        """Assert that each that was not ended goes on, and end them."""
        timer, clock = self.timer, self.clock
        for task in self.recurring:
            if task.done():  # perhaps by a cancel that was interrupted: its timer may still have it
                task.cancel()
        live = [tick for tick, task in enumerate(self.recurring) if not task.done()]
        timer.advance_clock()  # what an interrupted call has left
        before = len(self.ticks)
        clock.advance(0.02)
        timer.advance_clock()
        assert set(live) <= set(self.ticks[before:]), "one recurs no more"
        for task in timer.first_tasks(1000):
            if isinstance(task, Recurring):  # also one that an interrupted call has made
                task.cancel()

    def check(self):
        """Let the rest fire; assert that each accepted task ended once."""
        self.timer._check()
        self.check_recurring()
        for _ in range(3):
            self.clock.advance(FAR_S)
            self.timer.advance_clock()
        self.timer._check()
        stats = self.timer.stats()
        assert (stats.pending, stats.executor_backlog) == (0, 0)
        assert self.timer.delay_to_next() is None
        assert not self.errors
        assert len(set(self.runs)) == len(self.runs), "a task ran twice"
        assert stats.fired == len(self.runs) + len(self.others) + len(self.ticks)
        ends = {n: (n in self.runs) + (n in self.cancelled) for n in range(TASKS)}
        wrong = [n for n in self.added - self.doubtful if ends[n] != 1]
        assert not wrong, wrong
        assert all(ends[n] <= 1 for n in ends)
        assert all(self.tasks[n].done() for n in self.added)


@pytest.mark.timeout(60 + INTERRUPTS // 20)
def test_interrupts_at_random_times():
    """Whatever the call was in the middle of, the next calls find a timer that is in order."""
    choice = random.Random(0)
    interrupts = plays = 0
    with TimerInterrupter(0, SPARED) as interrupter:
        while interrupts < INTERRUPTS:
            play = Play(choice)
            interrupts += interrupter.run(play.call)
            interrupter.check(play)
            plays += 1
    assert plays < 20 * INTERRUPTS
