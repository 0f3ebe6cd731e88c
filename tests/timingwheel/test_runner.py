"""TaskRunner, through a timer: exceptions of tasks, and lateness."""

import itertools
import logging
import sys
import threading

import pytest

from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer, runner


def boom():
    """Raise."""
    raise LookupError("boom")


def run_due(timer, seconds=1):
    """Move the manual clock and run what is due."""
    timer._clock_reader.clock.advance(seconds)
    timer.advance_clock()


@pytest.fixture
def plain():
    """Return a timer with the default on_error."""
    timer = Timer("kettle", clock=ManualClock(), executor=InlineExecutor())
    yield timer
    timer.close()


class TestErrors:
    """Where an exception of a task goes."""

    def test_logged_with_traceback_by_default(self, plain, caplog):
        """The log names the timer and the task and shows the traceback."""
        plain.schedule(1, boom)
        with caplog.at_level(logging.ERROR, logger="timingwheel"):
            run_due(plain)
        (record,) = caplog.records
        assert "boom" in record.getMessage()
        assert "kettle" in record.getMessage()
        assert isinstance(record.exc_info[1], LookupError)
        assert record.exc_info[2] is not None

    def test_on_error_gets_exception_and_task(self):
        """on_error(exc, task) is called once for each failure."""
        seen = []
        timer = Timer(
            clock=ManualClock(),
            executor=InlineExecutor(),
            on_error=lambda *args: seen.append(args),
        )
        task = timer.schedule(1, boom)
        run_due(timer)
        ((error, failed),) = seen
        assert isinstance(error, LookupError)
        assert failed is task
        assert task.done()
        timer.close()

    def test_on_error_that_raises_is_logged(self, caplog):
        """An on_error that raises is logged, and stops nothing else."""
        ran = []
        timer = Timer(
            clock=ManualClock(), executor=InlineExecutor(), on_error=lambda error, task: 1 / 0
        )
        timer.schedule(1, boom)
        timer.schedule(1, ran.append, 1)
        with caplog.at_level(logging.ERROR, logger="timingwheel"):
            run_due(timer)
        assert ran == [1]
        assert [type(r.exc_info[1]) for r in caplog.records] == [ZeroDivisionError]
        timer.close()

    def test_a_failing_task_stops_no_other(self, plain, caplog):
        """Tasks before and after it in the same tick run."""
        ran = []
        for name in ("a", boom, "b"):
            plain.schedule(1, name) if callable(name) else plain.schedule(1, ran.append, name)
        run_due(plain)
        assert ran == ["a", "b"]
        assert len(caplog.records) == 1


class TestLateness:
    """Lateness is the clock at the start minus the due time."""

    def test_counted_in_batches(self, plain):
        """Each task that fired is counted once, in the bucket of its lateness."""
        for _ in range(600):
            plain.schedule(1, int)
        plain.schedule(1.5, int)
        run_due(plain, 1.507)
        lateness = plain.stats().lateness
        assert sum(lateness.counts) == 601
        assert lateness.sum_ms == 600 * 507 + 7
        assert lateness.counts[lateness.bounds_ms.index(10)] == 1
        assert lateness.counts[lateness.bounds_ms.index(1000)] == 600

    def test_on_time_is_zero(self, plain):
        """A task that starts in its tick is not late."""
        plain.schedule(1, int)
        run_due(plain)
        assert plain.stats().lateness.counts[0] == 1


def test_states_after_a_run_in_which_it_was_added_again(plain):
    """A task that adds itself again is pending after its run, not done."""
    states = []

    def again():
        if not states:
            plain.add(task)
        states.append(task.done())

    task = plain.schedule(1, again)
    run_due(plain)
    assert (task.done(), len(plain)) == (False, 1)
    run_due(plain)
    assert (task.done(), len(plain), states) == (True, 0, [False, False])


def test_not_done_while_another_thread_runs_it_again(plain):
    """The end of a run in which it was added again is not the end of the next run."""
    entered, go_on = threading.Event(), threading.Event()
    other = threading.Thread(target=run_due, args=(plain,))

    def run():
        if not other.ident:
            plain.add(task)
            other.start()
            assert entered.wait(30)
        else:
            entered.set()
            assert go_on.wait(30)

    task = plain.schedule(1, run)
    try:
        run_due(plain)
        assert (task.done(), repr(task).endswith("running>")) == (False, True)
    finally:
        go_on.set()
        other.join(30)
    assert task.done()


class AddsAtLine:
    """Adds a task again from another thread when the runner is at its n-th line after the run.

    Any thread may do so there: without the interpreter lock, or under a debugger.
    """

    def __init__(self, timer, lines):
        self.left = lines
        self.has_run = False
        self.task = timer.schedule(1, self._run)
        self._adding = threading.Thread(target=timer.add, args=(self.task,))

    def _run(self):
        self.has_run = True

    def trace(self, frame, event, argument):
        """See `sys.settrace`."""
        if frame.f_code.co_filename != runner.__file__:
            return None
        if event == "line" and self.has_run:
            self.left -= 1
            if self.left == 0:
                self._adding.start()
                self._adding.join()
        return self.trace


@pytest.mark.skipif(COMPILED, reason="compiled code has no lines")
def test_added_again_by_another_thread_at_any_line_after_its_run(plain):
    """It is pending, in its bucket, whatever the runner still does with it."""
    for lines in itertools.count(1):
        adding = AddsAtLine(plain, lines)
        before = sys.gettrace()
        sys.settrace(adding.trace)
        try:
            run_due(plain)
        finally:
            sys.settrace(before)
        if adding.left > 0:
            break
        plain._check()
        assert (len(plain), adding.task.done()) == (1, False)
        assert adding.task.cancel()
        plain._check()
        assert adding.task.cancelled()
    assert lines > 3
