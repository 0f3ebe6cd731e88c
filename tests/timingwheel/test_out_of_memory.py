"""A timer whose allocations fail, one after the other: nothing crashes, is lost or runs twice."""

from functools import partial

import pytest

from tests.testing.out_of_memory import Scene, play_in_process
from timingwheel import InlineExecutor, ManualClock, Timer, TimerTask

HANG_S = 60
COUNT = 400
FAR_MS = 40_000


def delay_s(n):
    """Most share a few buckets, which grow; some are at each level of the wheel."""
    return (1 + n % 7) / 1000 if n % 4 else (n * n * 7 % FAR_MS + 1) / 1000


class TimerScene(Scene):
    """Tasks that count their runs, and what `on_error` is told of."""

    def __init__(self, width):
        self.clock = ManualClock()
        self.timer = Timer(
            clock=self.clock,
            tick_ms=1,
            wheel_size=8,
            executor=InlineExecutor(),
            on_error=self.on_error,
        )
        self.ran = [0] * COUNT
        self.failed = [0] * COUNT
        self.tasks = [TimerTask(delay_s(n), partial(self.run, n)) for n in range(COUNT)]
        super().__init__(self.make_steps(), width)

    def run(self, n):
        self.ran[n] += 1

    def on_error(self, error, task):
        assert isinstance(error, MemoryError)
        for n in range(COUNT):
            if self.tasks[n] is task:
                self.failed[n] += 1

    def start_all(self):
        for task in self.tasks:
            self.timer.add(task)

    def run_out(self):
        """Assert that all is consistent, before and after what is left has run."""
        # The thread that runs what the executor had no memory for would change the figures.
        self.timer._refused.close(wait=True, timeout=HANG_S)
        self.timer._check()
        pending = sum(task._tt_list is not None for task in self.tasks)
        counters = self.timer._wheel_state.counters
        assert counters.waiting + counters.backlog == pending
        self.clock.advance(FAR_MS + 1)
        self.timer.advance_clock()
        self.timer.close(cancel_pending=False, timeout=HANG_S)
        self.timer._check()
        assert (len(self.timer), counters.backlog) == (0, 0)
        assert not any(task._tt_list is not None for task in self.tasks)

    def check_ends(self, accepted):
        """Assert that what was accepted ended once, and what was refused at most once."""
        for n in range(COUNT):
            assert self.ran[n] <= 1, n
            # Told of a task that the executor had no memory for, and which runs all the same.
            assert self.failed[n] <= 2, n
            ends = self.ran[n] + self.failed[n]
            # With several failures in a row, `on_error` itself may be without memory.
            told = ends or (self.width > 1 and self.tasks[n].done())
            assert told or not accepted[n], n


class Add(TimerScene):
    """`add` of tasks that exist."""

    def make_steps(self):
        return [partial(self.timer.add, task) for task in self.tasks]

    def check(self):
        self.run_out()
        self.check_ends([not raised for raised in self.raised])


class Schedule(TimerScene):
    """`schedule`, which makes the task."""

    def make_steps(self):
        return [partial(self.timer.schedule, delay_s(n), self.run, n) for n in range(COUNT)]

    def check(self):
        self.tasks = [task for task in self.results if task is not None]
        self.run_out_refused()
        assert all(task.done() for task in self.tasks)
        self.check_ends([not raised for raised in self.raised])

    def run_out_refused(self):
        # A task that was refused may be pending all the same: it ends as any other.
        self.timer._check()
        self.clock.advance(FAR_MS + 1)
        self.timer.advance_clock()
        # Threads of the timer run what the executor had no memory for.
        self.timer.close(cancel_pending=False, timeout=HANG_S)
        self.timer._check()
        assert len(self.timer) == 0


class ScheduleMany(Schedule):
    """`schedule_many`: all or none."""

    def make_steps(self):
        tens = [[delay_s(n) for n in range(start, start + 40)] for start in range(0, COUNT, 40)]
        return [partial(self.timer.schedule_many, delays, self.run, 0) for delays in tens]

    def check(self):
        made = sum(len(tasks) for tasks in self.results if tasks is not None)
        self.tasks = [task for tasks in self.results if tasks is not None for task in tasks]
        self.run_out_refused()
        assert made <= self.ran[0], "a task was lost"
        if self.width == 1:
            assert self.ran[0] == made, "a task was left behind"


class AddDue(TimerScene):
    """`add` of tasks that are due at once, which run here."""

    def make_steps(self):
        for task in self.tasks:
            task.delay_ns = 0
        return [partial(self.timer.add, task) for task in self.tasks]

    def check(self):
        self.run_out()
        self.check_ends([not raised for raised in self.raised])


class Cancel(TimerScene):
    """`cancel` of pending tasks."""

    def make_steps(self):
        self.start_all()
        return [task.cancel for task in self.tasks]

    def check(self):
        before = [task._tt_list is not None for task in self.tasks]
        self.run_out()
        for n in range(COUNT):
            assert self.ran[n] == before[n], n
            assert self.results[n] is not True or not before[n]


class Reschedule(TimerScene):
    """`reschedule`, to later and to sooner."""

    def make_steps(self):
        self.start_all()
        return [partial(self.timer.reschedule, self.tasks[n], delay_s(n + 1)) for n in range(COUNT)]

    def check(self):
        self.run_out()
        self.check_ends([True] * COUNT)


class Advance(TimerScene):
    """`advance_clock`, which cascades and runs."""

    def make_steps(self):
        self.start_all()
        steps = []
        for _ in range(60):
            steps += [partial(self.clock.advance, 1), self.timer.advance_clock]
        for _ in range(100):
            steps += [partial(self.clock.advance, 400), self.timer.advance_clock]
        return steps

    def check(self):
        self.run_out()
        self.check_ends([True] * COUNT)


@pytest.mark.parametrize(
    "scene", [Add, Schedule, ScheduleMany, AddDue, Cancel, Reschedule, Advance]
)
def test_timer_without_memory(scene):
    """Each allocation fails in turn: what was accepted runs once, `_check` holds."""
    play_in_process(scene)
