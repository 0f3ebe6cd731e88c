"""DelayedOperation: it ends once, with its callbacks in order; what subclasses may do."""

import dataclasses
from datetime import timedelta

import pytest

from purgatory import DelayedOperation, Outcome
from tests.testing.purgatory_harness import (
    PurgatoryHarness,
    Recorder,
    all_in_threads,
)


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestTimeout:
    @pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, -0.001])
    def test_a_timeout_out_of_range_is_a_value_error(self, timeout):
        """NaN, infinity and negative timeouts are refused."""
        with pytest.raises(ValueError, match="timeout is"):
            DelayedOperation(timeout)

    @pytest.mark.parametrize("timeout", ["1", None, True, [1]])
    def test_a_timeout_that_is_no_number_is_a_type_error(self, timeout):
        """A timeout that is neither a number nor a timedelta is refused."""
        with pytest.raises(TypeError, match="timeout is"):
            DelayedOperation(timeout)

    def test_a_timedelta_is_a_timeout(self, harness):
        """Timeouts may be timedeltas."""
        op = Recorder(timedelta(milliseconds=1500))
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.advance(1.499)
        assert not op.completed
        harness.advance(0.001)
        assert op.calls == ["complete", "expiration"]

    def test_timeout_zero_expires_at_once(self, harness):
        """Timeout 0 expires at once, after both checks."""
        op = Recorder(0)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert op.tries == 2
        assert op.calls == ["complete", "expiration"]
        assert harness.purgatory.watched == 0
        harness.purgatory._check()


class TestEnds:
    def test_force_complete_is_true_for_the_first_caller_only(self):
        """An operation completes once, submitted or not."""
        op = Recorder()
        assert op.force_complete() is True
        assert op.force_complete() is False
        assert op.completed
        assert op.calls == ["complete"]

    def test_force_complete_is_true_for_one_of_many_threads(self):
        """Of several threads that force an operation, one wins."""
        ops = [Recorder() for _ in range(2000)]
        wins = [[], [], [], []]

        def force(mine):
            mine.extend(op.force_complete() for op in ops)

        all_in_threads(*[lambda mine=mine: force(mine) for mine in wins])
        assert [sum(column) for column in zip(*wins, strict=True)] == [1] * len(ops)
        assert all(op.calls == ["complete"] for op in ops)

    def test_cancel_ends_without_completing(self, harness):
        """A cancelled operation calls only on_cancel, and is off wheel and lists."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["a", "b"])
        assert op.cancel() is True
        assert op.cancel() is False
        assert op.force_complete() is False
        assert (op.cancelled(), op.completed, op.done()) == (True, False, True)
        assert op.calls == ["cancel"]
        assert (harness.purgatory.watched, harness.purgatory.delayed, len(harness.timer)) == (
            0,
            0,
            0,
        )
        harness.advance(3600)
        assert op.calls == ["cancel"]

    def test_expiry_completes_first(self, harness):
        """on_complete runs once on expiry, and on_expiration after it."""
        op = Recorder(1)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.advance(1)
        assert op.calls == ["complete", "expiration"]
        assert op.completed
        assert op.force_complete() is False
        assert op.cancel() is False

    def test_a_completed_operation_does_not_expire(self, harness):
        """on_expiration is not called for an operation that completed before its timeout."""
        op = Recorder(1)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        assert op.force_complete()
        harness.advance(2)
        assert op.calls == ["complete"]

    def test_an_operation_may_be_a_plain_timer_task(self, harness):
        """An operation added to a timer, without a purgatory, expires."""
        op = Recorder(1)
        harness.timer.add(op)
        harness.advance(1)
        assert op.calls == ["complete", "expiration"]

    def test_repr_says_how_it_stands(self):
        """The repr shows class, state and timeout."""
        op = Recorder(2)
        assert repr(op) == "<Recorder pending, timeout 2000 ms>"
        op.cancel()
        assert repr(op) == "<Recorder cancelled, timeout 2000 ms>"


class TestSubclasses:
    def test_names_of_users_do_not_meet_ours(self, harness):
        """Subclasses may use common attribute names without a clash."""

        class Own(Recorder):
            def __init__(self):
                super().__init__(1)
                for name in (
                    "keys",
                    "lock",
                    "_lock",
                    "_outcome",
                    "_keys",
                    "timeout",
                    "timer",
                    "_list",
                    "_state",
                    "_index",
                    "state",
                    "callback",
                    "name",
                    "values",
                    "_values",
                    "future",
                    "purgatory",
                    "_busy",
                    "key",
                    "value",
                    "need",
                ):
                    setattr(self, name, object())

        op = Own()
        harness.purgatory.try_complete_else_watch(op, ["a", "b"])
        harness.purgatory._check()
        harness.advance(1)
        assert op.calls == ["complete", "expiration"]

    def test_operations_may_compare_as_they_like(self, harness):
        """Operations may be unhashable, equal to everything, or falsy."""

        @dataclasses.dataclass
        class Order(DelayedOperation):
            number: int
            done_count: int = 0

            def __post_init__(self):
                super().__init__(5)

            def try_complete(self):
                return self.number < 0 and self.force_complete()

            def on_complete(self):
                self.done_count += 1

        class Odd(Recorder):
            __hash__ = None

            def __eq__(self, other):
                return True

            def __bool__(self):
                return False

            def __len__(self):
                return 0

        p = harness.purgatory
        ops = [Order(1), Order(1), Odd(5), Odd(5)]
        for op in ops:
            p.try_complete_else_watch(op, ["a", "b"])
            p._check()
        assert (p.watched, p.delayed) == (8, 4)
        ops[1].number = -1
        ops[3].ready = True
        assert p.check_and_complete("a") == 2
        p._check()
        cancelled = p.cancel_for_key("b")
        assert len(cancelled) == 2
        assert cancelled[0] is ops[0]
        assert cancelled[1] is ops[2]
        p._check()

    def test_outcomes_are_strings(self):
        """str(outcome) is the name used in metrics and tables."""
        assert [str(outcome) for outcome in Outcome] == [
            "completed",
            "failed",
            "expired",
            "cancelled",
        ]
