"""Submission: check, watch, check; and what happens when the timer refuses."""

import pytest

from purgatory import (
    KeyedOperation,
    OperationCancelled,
    Purgatory,
)
from purgatory.core import submission
from purgatory.core.operations.outcome_race import MAX_ATTEMPTS
from tests.testing.purgatory_harness import (
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
)
from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer, TimerClosed, TimerFull


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestCheckWatchCheck:
    def test_completed_at_once(self, harness):
        """An operation with a satisfied condition is never watched."""
        op = Recorder(ready=True)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert (op.tries, op.calls) == (1, ["complete"])
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)

    def test_the_condition_is_asked_twice_not_once_a_key(self, harness):
        """Submission checks the condition twice, for any number of keys."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, range(100))
        assert op.tries == 2

    def test_a_completion_between_check_and_watch_is_seen(self, harness):
        """A condition that becomes true after the first check is found by the second."""

        def come_true_after_first():
            if op.tries == 0:
                op.ready = True
                op.tries += 1
                return False
            return None

        op = Hooked(try_complete=come_true_after_first)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)

    def test_an_end_between_check_and_watch_leaves_nothing(self, harness):
        """An operation that ends after the first check is taken off the lists again."""

        def end_in_first():
            if op.tries == 0:
                op.tries += 1
                op.force_complete()
                return False
            return None

        op = Hooked(try_complete=end_in_first)
        assert harness.purgatory.try_complete_else_watch(op, ["k", "l"]) is False
        assert op.calls == ["complete"]
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)
        harness.purgatory._check()

    def test_a_completion_between_second_check_and_timer_leaves_nothing(self, harness):
        """An operation completed after the second check is not left in the wheel."""

        class Completing(Timer):
            def add(self, task):
                task.force_complete()
                return super().add(task)

        timer = Completing(clock=ManualClock(), executor=InlineExecutor())
        p = Purgatory(timer=timer)
        op = Recorder()
        assert p.try_complete_else_watch(op, ["k"]) is False
        assert op.calls == ["complete"]
        assert (p.watched, len(timer)) == (0, 0)
        p._check()

    def test_no_wake_up_is_lost(self, harness):
        """A submission that races the completion of its key never misses it."""
        p = harness.purgatory
        done = [False] * 2000
        ops = []
        for number in range(len(done)):
            op = Hooked(try_complete=lambda number=number: done[number])
            ops.append(op)

        def complete():
            for number in range(len(done)):
                done[number] = True
                p.check_and_complete(number)

        def submit():
            for number, op in enumerate(ops):
                p.try_complete_else_watch(op, [number])

        all_in_threads(complete, submit)
        assert all(op.calls == ["complete"] for op in ops)
        assert p.watched == 0
        p._check()


class TestTimerErrors:
    def test_timer_full_leaves_the_operation_as_it_was(self):
        """An operation refused with TimerFull is in no list and may be submitted again."""
        harness = PurgatoryHarness(max_pending=1)
        p = harness.purgatory
        first, op = Recorder(5), Recorder(5)
        p.try_complete_else_watch(first, ["k"])
        with pytest.raises(TimerFull):
            p.try_complete_else_watch(op, ["k", "x"])
        with pytest.raises(TimerFull):
            p.defer("k")
        p._check()
        assert (p.watched, p.delayed, len(harness.timer)) == (1, 1, 1)
        assert op.calls == []
        first.cancel()
        assert p.try_complete_else_watch(op, ["k", "x"]) is False
        harness.advance(5)
        assert op.calls == ["complete", "expiration"]

    def test_timer_full_does_not_matter_to_what_has_ended(self):
        """An operation completed while the timer refuses it is completed, without an error."""

        class Full(Timer):
            def add(self, task):
                task.force_complete()
                raise TimerFull

        p = Purgatory(timer=Full(clock=ManualClock()))
        op = Recorder()
        assert p.try_complete_else_watch(op, ["k"]) is False
        assert op.calls == ["complete"]
        assert p.watched == 0

    def test_an_error_after_the_add_takes_it_off_the_wheel(self):
        """A submission that fails late leaves no task in the wheel."""

        class Failing(Timer):
            def add(self, task):
                super().add(task)
                raise KeyboardInterrupt

        timer = Failing(clock=ManualClock(), executor=InlineExecutor())
        p = Purgatory(timer=timer)
        op = Recorder()
        with pytest.raises(KeyboardInterrupt):
            p.try_complete_else_watch(op, ["k"])
        with pytest.raises(KeyboardInterrupt):
            p.defer("k")
        assert (p.watched, p.delayed, len(timer), op.done()) == (0, 0, 0, False)

    def test_an_interrupt_is_not_swallowed_when_it_has_ended(self):
        """A KeyboardInterrupt reaches the caller, although the operation has completed."""

        class Interrupted(Timer):
            def add(self, task):
                task.force_complete()
                raise KeyboardInterrupt

        p = Purgatory(timer=Interrupted(clock=ManualClock()))
        op = Recorder()
        with pytest.raises(KeyboardInterrupt):
            p.try_complete_else_watch(op, ["k"])
        assert op.calls == ["complete"]

    def test_an_interrupted_first_check_may_be_tried_again(self, harness):
        """After an interrupt in try_complete the operation does not count as submitted."""
        interrupts = [KeyboardInterrupt]

        def interrupt():
            if interrupts:
                raise interrupts.pop()

        op = Hooked(try_complete=interrupt)
        with pytest.raises(KeyboardInterrupt):
            harness.purgatory.try_complete_else_watch(op, ["k"])
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert harness.purgatory.watched == 1

    def test_closing_a_shared_timer_ends_its_operations(self, harness):
        """A timer that closes cancels what waits in it: futures fail, lists are empty."""
        op, future = Recorder(), harness.purgatory.defer("k")
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.timer.close()
        assert op.calls == ["cancel"]
        with pytest.raises(OperationCancelled):
            future.result(0)
        assert (harness.purgatory.watched, harness.purgatory.delayed) == (0, 0)
        late = Recorder()
        with pytest.raises(TimerClosed):
            harness.purgatory.try_complete_else_watch(late, ["k"])
        assert harness.purgatory.watched == 0


class TestHeldEvents:
    """A refused submission leaves held events as they were, too."""

    @pytest.fixture
    def full(self):
        """A purgatory on a timer with room for one held event and one more task, and that task."""
        timer = Timer(clock=ManualClock(), executor=InlineExecutor(), max_pending=2)
        return Purgatory(timer=timer), timer.schedule(1000, print)

    def test_units_are_returned(self, full):
        """Submissions refused with TimerFull use up none of an event's units."""
        p, other = full
        p.complete("a", "A", hold=60, limit=1)
        for _ in range(3):
            with pytest.raises(TimerFull):
                p.defer("a", "b", need=2)
        assert p.stats().held == 1
        other.cancel()
        assert p.defer("a").result(0) == "A"
        assert p.stats().held == 0
        p._check()

    @pytest.mark.parametrize("limit", [None, 5])
    def test_values_are_forgotten(self, full, limit):
        """The operation may be submitted again, when the event is no longer held."""
        p, other = full
        p.complete("a", "old", hold=60, limit=limit)
        op = KeyedOperation(30, need=2)
        with pytest.raises(TimerFull):
            p.try_complete_else_watch(op, ["a", "b"])
        assert op.values == {}
        other.cancel()
        p.complete("a", "new")
        p.try_complete_else_watch(op, ["a", "b"])
        p.complete("b", 1)
        assert not op.completed
        p.complete("a", "newer")
        assert op.values == {"b": 1, "a": "newer"}

    def test_a_submission_that_succeeds_uses_its_unit(self):
        """Also if the unit does not complete the operation."""
        p = PurgatoryHarness().purgatory
        p.complete("a", "A", hold=60, limit=1)
        first, second = p.defer("a", "b", need=2), p.defer("a")
        assert p.stats().held == 0
        p.complete("b", "B")
        assert first.result(0) == {"a": "A", "b": "B"}
        assert not second.done()

    def test_units_of_several_events_complete_it(self):
        """The last unit completes the operation; none is left over."""
        p = PurgatoryHarness().purgatory
        for key in "ab":
            p.complete(key, key, hold=60, limit=1)
        assert p.defer("a", "b", need=2).result(0) == {"a": "a", "b": "b"}
        assert p.stats().held == 0
        p._check()

    def test_a_returned_unit_goes_to_who_was_refused_one(self):
        """An operation submitted meanwhile found all units claimed."""
        others = []

        class Refusing(Timer):
            refuses = False

            def add(self, task):
                if self.refuses:
                    self.refuses = False
                    others.append(p.defer("a"))
                    raise TimerFull
                return super().add(task)

        timer = Refusing(clock=ManualClock(), executor=InlineExecutor())
        p = Purgatory(timer=timer)
        p.complete("a", "A", hold=60, limit=1)
        timer.refuses = True
        with pytest.raises(TimerFull):
            p.defer("a", "b", need=2)
        assert others[0].result(0) == "A"
        assert p.stats().held == 0
        p._check()


@pytest.mark.skipif(COMPILED, reason="a compiled function cannot be replaced")
@pytest.mark.parametrize("failures", [0, 1, MAX_ATTEMPTS - 1, MAX_ATTEMPTS])
def test_taking_back_while_memory_is_short(monkeypatch, failures):
    """It is tried again, so many times at most."""
    attempts = []

    def attempt(*_):
        attempts.append(None)
        if len(attempts) <= failures:
            raise MemoryError
        return True

    monkeypatch.setattr(submission, "_try_roll_back", attempt)
    arguments = (None, None, TimerFull(), False, None)
    if failures == MAX_ATTEMPTS:
        with pytest.raises(MemoryError):
            submission._roll_back(*arguments)
    else:
        assert submission._roll_back(*arguments)
    assert len(attempts) == min(failures + 1, MAX_ATTEMPTS)
