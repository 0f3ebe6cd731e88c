"""Extending the timeout of operations and futures."""

from datetime import timedelta

import pytest

from purgatory import KeyedOperation, OperationExpired, Purgatory, PurgatoryClosed
from tests.testing.purgatory_harness import Hooked, PurgatoryHarness, Recorder
from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestFutures:
    def test_the_timeout_counts_anew(self, harness):
        """A heartbeat: each extension moves the deadline."""
        future = harness.purgatory.defer("a", timeout=5)
        for _ in range(4):
            harness.advance(4.999)
            assert future.extend(5) is True
        harness.advance(4.999)
        assert not future.done()
        harness.advance(0.001)
        with pytest.raises(OperationExpired):
            future.result(0)

    def test_to_an_earlier_deadline(self, harness):
        """An extension may shorten the wait."""
        future = harness.purgatory.defer("a", timeout=500)
        assert future.extend(timedelta(seconds=1))
        harness.advance(0.999)
        assert not future.done()
        harness.advance(0.001)
        assert isinstance(future.exception(0), OperationExpired)

    def test_to_now(self, harness):
        """An extension by 0 seconds lets it expire at once."""
        future = harness.purgatory.defer("a")
        assert future.extend(0)
        assert isinstance(future.exception(0), OperationExpired)

    def test_at_the_instant_of_the_deadline(self, harness):
        """What is due and has not ended can be extended."""
        future = harness.purgatory.defer("a", timeout=5)
        harness.clock.advance(5)
        assert future.extend(1)
        harness.advance(0)
        assert not future.done()
        harness.advance(1)
        assert future.done()

    def test_while_it_expires(self):
        """False from the moment at which the timer runs it; also at a reading of 0."""

        class Extended(Recorder):
            def run(self):
                extended.append(p.extend(self, 5))
                return super().run()

        extended, clock = [], ManualClock(-1000)
        p = Purgatory(timer=Timer(clock=clock, executor=InlineExecutor()))
        p.try_complete_else_watch(operation := Extended(1), ["k"])
        clock.advance(1)
        p.timer.advance_clock()
        assert extended == [False]
        assert operation.calls == ["complete", "expiration"]

    def test_not_after_its_end(self, harness):
        """One that has ended stays as it is."""
        p = harness.purgatory
        futures = [p.defer("a"), p.defer("b"), p.defer("c", timeout=1), p.defer("d")]
        p.complete("a", 1)
        futures[1].cancel()
        harness.advance(1)
        p.fail("d", OSError)
        assert [future.extend(9) for future in futures] == [False] * 4
        assert (p.delayed, len(harness.timer)) == (0, 0)
        assert futures[0].result(0) == 1

    def test_not_in_its_own_callback(self, harness):
        """By the time callbacks run, it has ended."""
        seen = []
        future = harness.purgatory.defer("a", timeout=1)
        future.add_done_callback(lambda done: seen.append(done.extend(9)))
        harness.advance(1)
        assert seen == [False]

    def test_not_after_close(self, harness):
        """A closed purgatory has ended its futures."""
        future = harness.purgatory.defer("a")
        harness.purgatory.close()
        assert future.extend(1) is False

    @pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
    def test_bad_timeouts(self, harness, timeout):
        """Values are checked as those of `defer`, of a future that has ended too."""
        future = harness.purgatory.defer("a")
        for _ in range(2):
            with pytest.raises(ValueError, match=str(timeout)):
                future.extend(timeout)
            future.cancel()
        with pytest.raises(TypeError):
            future.extend("soon")

    def test_it_keeps_its_place(self, harness):
        """Extending changes nothing in the order of those that wait."""
        p = harness.purgatory
        first, second = p.defer("a"), p.defer("a")
        first.extend(60)
        p.complete("a", limit=1)
        assert (first.done(), second.done()) == (True, False)

    def test_the_error_tells_the_whole_wait(self, harness):
        """The message counts from the submission."""
        future = harness.purgatory.defer("a", timeout=5)
        harness.advance(4)
        future.extend(3)
        harness.advance(3)
        assert "within 7000 ms" in str(future.exception(0))


class TestOperations:
    def test_with_a_condition(self, harness):
        """An operation of the user's own is extended by the purgatory."""
        op = Recorder(5)
        harness.purgatory.try_complete_else_watch(op, ["a"])
        harness.advance(4)
        assert harness.purgatory.extend(op, 5) is True
        harness.advance(4.999)
        assert not op.done()
        assert op.deadline_ms == 9000
        assert op.delay_ms == 9000
        harness.advance(0.001)
        assert op.calls == ["complete", "expiration"]
        assert harness.purgatory.extend(op, 5) is False

    def test_not_submitted(self, harness):
        """One that waits in no purgatory, or in another one, is an error."""
        other = Purgatory(timer=harness.timer)
        op = Recorder(5)
        with pytest.raises(ValueError, match="not pending in purgatory 'bench'"):
            harness.purgatory.extend(op, 5)
        other.try_complete_else_watch(op, ["a"])
        with pytest.raises(ValueError, match="not pending in purgatory 'bench'"):
            harness.purgatory.extend(op, 1)
        assert op.deadline_ms == 5000
        with pytest.raises(TypeError):
            harness.purgatory.extend("a", 1)
        other.close()

    def test_while_it_is_submitted(self, harness):
        """In the middle of its submission there is no timeout to extend yet."""

        def extend():
            with pytest.raises(ValueError, match="is being submitted"):
                harness.purgatory.extend(op, 1)

        op = Hooked(5, try_complete=extend)
        harness.purgatory.try_complete_else_watch(op, ["a"])
        assert op.deadline_ms == 5000

    def test_after_close(self, harness):
        """A purgatory that is closing extends nothing."""
        op = Recorder(5)
        harness.purgatory.try_complete_else_watch(op, ["a"])
        harness.purgatory.close(wait=False, cancel_pending=False)
        with pytest.raises(PurgatoryClosed):
            harness.purgatory.extend(op, 1)
        harness.purgatory.close()
        assert op.cancelled()

    def test_a_timer_of_its_own_that_is_closing(self):
        """The error is that of the purgatory."""
        p = Purgatory()
        op = Recorder(500)
        p.try_complete_else_watch(op, ["a"])
        p.close(wait=False, cancel_pending=False)
        with pytest.raises(PurgatoryClosed):
            p.extend(op, 1)
        p.close()

    def test_a_shared_timer_that_was_closed(self, harness):
        """It has ended the operations."""
        op = Recorder(5)
        harness.purgatory.try_complete_else_watch(op, ["a"])
        harness.timer.close()
        assert harness.purgatory.extend(op, 1) is False
        with pytest.raises(TimerClosed):
            harness.timer.add(Recorder(1))

    def test_timers_of_a_class_of_their_own(self):
        """`reschedule` of a subclass is used; `add` is not called again."""
        calls = []

        class Counting(Timer):
            def add(self, task):
                calls.append("add")
                return super().add(task)

            def reschedule(self, task, delay):
                calls.append(delay)
                return super().reschedule(task, delay)

        clock = ManualClock()
        timer = Counting(clock=clock, executor=InlineExecutor())
        p = Purgatory(timer=timer)
        op = KeyedOperation(5)
        p.try_complete_else_watch(op, ["a"])
        assert p.extend(op, 7) is True
        assert calls == ["add", 7]
        clock.advance(7)
        timer.advance_clock()
        assert p.extend(op, 7) is False
        assert p.stats().expired == 1
