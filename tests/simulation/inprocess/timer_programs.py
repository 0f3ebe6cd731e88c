"""TimerPrograms: threads that schedule, cancel and move the tasks of one timer, at random."""

from collections.abc import Callable
from typing import Any, Final

from purgatory.testing.world.world import spread
from tests.simulation.inprocess.operations import CallbackError
from tests.simulation.inprocess.oracle import ThreadOracle
from tests.simulation.inprocess.records import Call, TaskRecord
from tests.simulation.inprocess.scheduler import Scheduler
from tests.simulation.inprocess.substitutes import WorldClock
from timingwheel import InlineExecutor, Timer, TimerClosed, TimerFull

_ACTIONS: Final = {
    "schedule": 6.0,
    "schedule_now": 1.0,
    "cancel": 3.0,
    "add_again": 2.0,
    "move": 3.0,
    "repeat": 0.5,
    "look": 0.5,
    "sleep": 3.0,
    "close": 0.1,
}
# Seconds that nothing in such a world is planned for.
_ALL_IS_DUE_S: Final = 30.0
_LONGEST_S: Final = 2.0


class TimerPrograms:
    """One timer, and what threads do to it; the scheduler's random numbers decide."""

    def __init__(self, scheduler: Scheduler, oracle: ThreadOracle) -> None:
        self._scheduler = scheduler
        self._oracle = oracle
        self._chance = scheduler.random
        self._is_driven = self._chance.random() < 0.2  # by a thread of the program's
        self._count = 0
        self.timer: Timer
        names = [name for name in _ACTIONS if name == "schedule" or self._chance.random() < 0.7]
        self._actions: list[Callable[[], None]] = [getattr(self, f"_{name}") for name in names]
        self._weights = [_ACTIONS[name] * self._chance.random() for name in names]

    # The life of the timer

    def start(self) -> list[Callable[[], None]]:
        """Make it; returns what further threads are to do."""
        self.timer = Timer(
            tick_ms=self._chance.choice((0.2, 1.0, 20.0)),
            wheel_size=self._chance.choice((2, 4, 64)),
            clock=WorldClock(self._scheduler),
            executor=InlineExecutor() if self._chance.random() < 0.2 else None,
            max_pending=self._chance.choice((None, None, 5)),
            on_error=_forgive,
        )
        if self._is_driven:
            return [self._drive]
        self.timer.start()
        return []

    def _drive(self) -> None:
        while not self.timer.finished():
            self.timer.advance_clock(self._draw_delay())

    def act(self) -> None:
        """Do one thing."""
        [action] = self._chance.choices(self._actions, self._weights)
        action()

    def finish(self) -> None:
        """See `Programs`."""
        self._scheduler.policy.slowness = 0.0
        if not self._oracle.is_closing and self._chance.random() < 0.2:
            self._close_it(cancel_pending=False, timeout=self._chance.choice((None, 0.0, 0.1)))
        if self._chance.random() < 0.7:
            self._scheduler.sleep(_ALL_IS_DUE_S)
            # A callback may have closed it meanwhile.
            self._oracle.tasks_rest(cancelled_by_close=self._oracle.is_closing)
            self._check_figures()
        self._close_it(cancel_pending=True)
        if self._is_driven:
            self._scheduler.sleep(_ALL_IS_DUE_S)
        self._oracle.closed_ns = self._scheduler.now_ns

    def check(self) -> None:
        """See `Programs`."""
        self._scheduler.sleep(_ALL_IS_DUE_S)
        self._oracle.tasks_rest(cancelled_by_close=True)
        self._check_figures()

    def _check_figures(self) -> None:
        self.timer._check()
        stats = self.timer.stats()
        if stats.pending:
            self._scheduler.fail(f"says that something is pending: {stats}")

    def _close_it(self, *, cancel_pending: bool, timeout: float | None = None) -> None:
        self._oracle.is_closing = True
        self._scheduler.note(f"closes, cancel_pending={cancel_pending}, timeout={timeout}")
        self.timer.close(cancel_pending=cancel_pending, timeout=timeout)

    # Actions

    def _schedule(self) -> None:
        self._add_new(self._draw_delay())

    def _schedule_now(self) -> None:
        self._add_new(0.0)

    def _add_new(self, delay_s: float) -> None:
        self._count += 1
        record = TaskRecord(f"task-{self._count}")
        call = self._begin(delay_s)
        record.adds.append(call)
        was_closed = self._oracle.closed_ns > 0
        try:
            self._scheduler.note(f"schedules {record.name} in {delay_s} s")
            record.task = self.timer.schedule(delay_s, self._draw_callback(), record)
        except (TimerClosed, TimerFull):
            return
        self._end(call, True)
        self._oracle.tasks.append(record)
        if was_closed:
            self._scheduler.fail(f"was added to a closed timer: {record}")

    def _add_again(self) -> None:
        record = self._some_task()
        if record is None:
            return
        delay_s = self._draw_delay()
        call = self._begin(delay_s)
        call.delay_ns = min(call.delay_ns, record.task.delay_ns)  # other threads set it, too
        record.adds.append(call)
        try:
            record.task.delay_ns = int(delay_s * 1e9)
            self._scheduler.note(f"adds {record.name} again, in {delay_s} s")
            self.timer.add(record.task)
            self._end(call, True)
        except (TimerClosed, TimerFull):
            self._end(call, False)

    def _move(self) -> None:
        record = self._some_task()
        if record is not None:
            delay_s = self._draw_delay()
            call = self._begin(delay_s)
            record.moves.append(call)
            try:
                moved = self.timer.reschedule(record.task, delay_s)
                self._scheduler.note(f"moves {record.name} to {delay_s} s from now: {moved}")
                self._end(call, moved)
            except TimerClosed:
                self._end(call, False)

    def _cancel(self) -> None:
        record = self._some_task()
        if record is not None:
            call = self._begin(0.0)
            record.cancels.append(call)
            self._end(call, record.task.cancel())
            self._scheduler.note(f"cancels {record.name}: {call.answer}")
            self._oracle.cancelled(record)

    def _repeat(self) -> None:
        try:
            recurring = self.timer.every(self._draw_delay() + 0.1, self._scheduler.step)
            self._scheduler.sleep(self._draw_delay())
            recurring.cancel()
        except (TimerClosed, TimerFull):
            return

    def _look(self) -> None:
        self.timer.stats()
        self.timer.levels()
        self.timer.first_tasks()
        self.timer.delay_to_next()

    def _sleep(self) -> None:
        self._scheduler.sleep(self._draw_delay())

    def _close(self) -> None:
        self._oracle.is_closing = True
        timeout = self._chance.choice((None, 0.0, 0.1))
        self._scheduler.note(f"closes within {timeout} s")
        self.timer.close(
            wait=self._chance.random() < 0.5,
            cancel_pending=self._chance.random() < 0.5,
            timeout=timeout,
        )

    # Chance

    def _begin(self, delay_s: float) -> Call:
        return Call(self._scheduler.now_ns, delay_ns=int(delay_s * 1e9))

    def _end(self, call: Call, answer: Any) -> None:
        call.returned_ns, call.answer = self._scheduler.now_ns, answer

    def _some_task(self) -> TaskRecord | None:
        tasks = self._oracle.tasks[-8:]
        return self._chance.choice(tasks) if tasks else None

    def _draw_delay(self) -> float:
        return round(spread(self._chance, 0.0001, _LONGEST_S), 5)

    def _draw_callback(self) -> Callable[[TaskRecord], None]:
        draw = self._chance.random()
        if draw < 0.05:
            return self._run_and_raise
        if draw < 0.12:
            self._oracle.is_prompt = False
            return self._run_slowly
        if draw < 0.2:
            return self._run_and_act
        return self._run

    def _run(self, record: TaskRecord) -> None:
        self._scheduler.note(f"{record.name} runs")
        self._oracle.task_runs(record)

    def _run_and_raise(self, record: TaskRecord) -> None:
        self._run(record)
        raise CallbackError

    def _run_slowly(self, record: TaskRecord) -> None:
        self._run(record)
        self._scheduler.sleep(self._draw_delay() / 10)

    def _run_and_act(self, record: TaskRecord) -> None:
        self._run(record)
        if self._oracle.closed_ns < 0:
            self._oracle.note_slowness(self.act)


def _forgive(error: BaseException, task: Any) -> None:
    """Raise what no callback has raised."""
    del task
    if not isinstance(error, CallbackError):
        raise error
