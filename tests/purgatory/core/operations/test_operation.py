"""DelayedOperation: it ends once, with its callbacks in order; what subclasses may do."""

import asyncio
import contextlib
import copy
import dataclasses
import pickle
from datetime import timedelta

import pytest

from purgatory import DelayedOperation, KeyedOperation, Outcome, Purgatory
from purgatory.aio import AsyncPurgatory
from purgatory.core.operations import operation as operation_module
from purgatory.core.operations import outcome_race
from purgatory.core.operations.operation import attach
from purgatory.core.operations.operation_state import OperationOwner
from purgatory.core.operations.outcome_race import MAX_ATTEMPTS
from purgatory.errors import PurgatoryForked
from tests.testing.purgatory_harness import (
    PurgatoryHarness,
    Recorder,
    all_in_threads,
)
from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer


@pytest.fixture
def harness():
    return PurgatoryHarness()


def test_an_operation_is_submitted_once(harness):
    """A second time is refused, and the first goes on."""
    op = Recorder()
    harness.purgatory.try_complete_else_watch(op, ["a"])
    with pytest.raises(ValueError, match="submitted already; expected a new operation"):
        harness.purgatory.try_complete_else_watch(op, ["b"])
    assert (harness.purgatory.watched, len(harness.timer)) == (1, 1)


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


HOOKS = ["try_complete", "on_complete", "on_expiration", "on_cancel", "on_failure", "run"]


async def coroutine(self):
    """Never run: an operation's methods are called, not awaited."""


def generator(self):
    """Never run either."""
    yield


class TestMethodsThatNeverRun:
    @pytest.mark.parametrize("base", [DelayedOperation, KeyedOperation])
    @pytest.mark.parametrize("method", [coroutine, generator])
    @pytest.mark.parametrize("hook", HOOKS)
    def test_are_refused_where_they_are_defined(self, base, method, hook):
        """A class with an async method, or a generator, cannot be defined; nor by a mixin."""
        with pytest.raises(TypeError, match=rf"Op\.{hook} is a \w+ function"):
            type("Op", (base,), {hook: method})
        mixin = type("Mixin", (), {hook: method})
        with pytest.raises(TypeError, match=rf"Op\.{hook} is a \w+ function"):
            type("Op", (mixin, base), {})

    @pytest.mark.parametrize("method", [coroutine, generator])
    def test_a_condition_that_is_none(self, method):
        """A try_complete that returns a coroutine is reported, and satisfies nothing."""
        errors = []

        class Op(DelayedOperation):
            def try_complete(self):
                return method(self)

        with Purgatory(on_error=lambda error, _: errors.append(str(error))) as p:
            operation = Op(60)
            assert p.try_complete_else_watch(operation, ["k"]) is False
            assert not operation.completed
        assert all("try_complete returned" in error for error in errors)
        assert len(errors) == 2

    @pytest.mark.parametrize("what", ["on_error", "journal", "callback"])
    def test_arguments_are_refused(self, what):
        """A purgatory takes no async function either, wherever it would call one."""

        async def function(*_):
            pass

        class Journal:
            ended = function

        p = Purgatory()
        calls = {
            "callback": lambda: p.defer("k").add_done_callback(function),
            "on_error": lambda: Purgatory(on_error=function),
            "journal": lambda: Purgatory(journal=Journal()),
        }
        with pytest.raises(TypeError, match="coroutine function"):
            calls[what]()


class TestCopies:
    @pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_are_refused(self, copy_of):
        """Operations, futures and purgatories refuse to be copied and pickled, pending or not."""

        async def main():
            async with AsyncPurgatory() as q:
                for thing in (q, q.defer("k")):
                    with pytest.raises(TypeError):
                        copy_of(thing)

        with Purgatory() as p:
            done = p.defer("done")
            p.complete("done")
            pending, operation = p.defer("k"), KeyedOperation(60)
            p.try_complete_else_watch(operation, ["k"])
            for thing in (done, pending, operation, DelayedOperation(1), p, p.timer):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    copy_of(thing)
            assert p.complete("k", 1) == 2
        asyncio.run(main())


class RunFails(Recorder):
    """Its method that the timer calls raises."""

    def run(self):
        raise ArithmeticError


def test_it_ends_although_run_raises():
    """The timer calls it once: the operation has expired all the same, and the error is told."""
    told = []
    clock = ManualClock()
    timer = Timer(clock=clock, executor=InlineExecutor(), on_error=lambda *news: told.append(news))
    p, op = Purgatory(timer=timer), RunFails(1)
    p.try_complete_else_watch(op, ["k"])
    clock.advance(1)
    timer.advance_clock()
    assert op.calls == ["complete", "expiration"]
    assert [(type(error), task) for error, task in told] == [(ArithmeticError, op)]
    assert (p.watched, p.delayed) == (0, 0)
    timer.close()


@pytest.mark.skipif(COMPILED, reason="compiled functions cannot be replaced")
@pytest.mark.parametrize("failures", [1, MAX_ATTEMPTS - 1, MAX_ATTEMPTS])
def test_it_expires_when_there_is_memory(monkeypatch, failures):
    """It tries again so often, and then raises; the operation can still end."""
    left, tries = [MemoryError()] * failures, []

    def fail_at_first(op, outcome):
        tries.append(outcome)
        if left:
            raise left.pop()
        return outcome_race.finish(op, outcome)

    monkeypatch.setattr(operation_module, "finish", fail_at_first)
    op = Recorder()
    with pytest.raises(MemoryError) if failures == MAX_ATTEMPTS else contextlib.nullcontext():
        op.run()
    assert len(tries) == min(failures + 1, MAX_ATTEMPTS)
    op.run()
    assert op.calls == ["complete", "expiration"]


@pytest.mark.parametrize("end", [DelayedOperation.force_complete, DelayedOperation.cancel])
def test_a_forked_child_ends_no_operation_of_its_parent(end):
    """Its copy of the purgatory is unusable."""
    operation, owner = DelayedOperation(5), OperationOwner("parent's")
    assert attach(operation, owner)
    owner._fork_number -= 1
    with pytest.raises(PurgatoryForked, match="parent's"):
        end(operation)
    assert not operation.done()
