"""Purgatory: arguments, completing keys, shared timers, journals."""

import collections
import concurrent.futures
from datetime import timedelta

import numpy as np
import pytest

import purgatory
from purgatory import (
    DelayedOperation,
    KeyedOperation,
    OperationCancelled,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
)
from purgatory.metrics import MetricsError
from tests.testing.interrupts import at_every_place, handled_at
from tests.testing.odd_numbers import LyingFloat, LyingInt
from tests.testing.purgatory_harness import (
    PurgatoryHarness,
    Recorder,
    in_thread,
)
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import COMPILED


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestArguments:
    @pytest.mark.parametrize("keys", [[], (), set(), {}, iter([])])
    def test_empty_keys_are_a_value_error(self, harness, keys):
        """Submitting without a key is refused: the operation could only expire."""
        with pytest.raises(ValueError, match="keys is empty"):
            harness.purgatory.try_complete_else_watch(Recorder(), keys)

    @pytest.mark.parametrize("keys", ["abc", b"abc", 5, None, [[]], [{}], ["a", []]])
    def test_what_is_no_collection_of_hashables_is_a_type_error(self, harness, keys):
        """A str is not taken as a collection of keys, and keys must be hashable."""
        op = Recorder()
        with pytest.raises(TypeError, match="keys is"):
            harness.purgatory.try_complete_else_watch(op, keys)
        assert harness.purgatory.watched == 0
        assert op.tries == 0
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False

    def test_what_is_no_operation_is_a_type_error(self, harness):
        """Only delayed operations may be submitted."""
        with pytest.raises(TypeError, match="DelayedOperation"):
            harness.purgatory.try_complete_else_watch(object(), ["k"])

    @pytest.mark.parametrize("kind", [DelayedOperation, KeyedOperation])
    def test_an_operation_without_its_base(self, harness, kind):
        """Its class forgot `super().__init__()`: the error says so, and nothing waits."""
        forgetful = type("Forgetful", (kind,), {"__init__": lambda self: None})
        purgatory = harness.purgatory
        for call in (
            lambda operation: purgatory.try_complete_else_watch(operation, ["k"]),
            lambda operation: purgatory.extend(operation, 1),
        ):
            with pytest.raises(TypeError, match=r"__init__ did not call super"):
                call(forgetful())
        assert (purgatory.watched, purgatory.delayed) == (0, 0)

    @pytest.mark.parametrize(
        "keys",
        [
            ["a", "b", "a"],
            ("a", "b"),
            {"a", "b"},
            {"a": 1, "b": 2},
            iter(["a", "b"]),
            collections.deque(["a", "b", "b"]),
        ],
    )
    def test_keys_are_any_collection_and_count_once(self, harness, keys):
        """Duplicates count once."""
        harness.purgatory.try_complete_else_watch(Recorder(), keys)
        assert harness.purgatory.watched == 2

    def test_unhashable_keys_cannot_be_completed(self, harness):
        """An unhashable key raises TypeError in each method."""
        for method in (
            harness.purgatory.complete,
            harness.purgatory.check_and_complete,
            harness.purgatory.cancel_for_key,
        ):
            with pytest.raises(TypeError):
                method([])

    @pytest.mark.parametrize(
        "options",
        [{"name": 5}, {"timer": 1.0}, {"on_error": "log"}, {"registry": "default"}],
    )
    def test_bad_options_are_type_errors(self, options):
        """Arguments of the constructor are checked."""
        with pytest.raises(TypeError, match=next(iter(options))):
            Purgatory(**options)

    def test_an_operation_waits_in_one_place(self, harness):
        """Submitting a waiting operation again is refused, and changes nothing."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        for other in (harness.purgatory, PurgatoryHarness().purgatory):
            with pytest.raises(ValueError, match="was submitted already"):
                other.try_complete_else_watch(op, ["x"])
        assert (harness.purgatory.watched, harness.purgatory.delayed) == (1, 1)
        op.ready = True
        assert harness.purgatory.check_and_complete("k") == 1

    def test_an_ended_operation_does_not_wait_again(self, harness):
        """Submitting an ended operation, to any purgatory, has no effect."""
        op = Recorder()
        op.force_complete()
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert op.tries == 0
        assert harness.purgatory.watched == 0
        assert harness.purgatory.stats().completed == 0

    def test_an_operation_that_ended_is_not_revived(self, harness):
        """Submitting it again is an error; a timer that is given it calls nothing."""
        op = Recorder(5)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        op.cancel()
        with pytest.raises(ValueError, match="was submitted already"):
            harness.purgatory.try_complete_else_watch(op, ["k"])
        assert harness.timer.reschedule(op, 5) is False
        harness.timer.add(op)
        harness.advance(5)
        assert op.calls == ["cancel"]
        assert len(harness.timer) == harness.purgatory.delayed == 0

    def test_resubmitting_while_it_ends_breaks_no_lists(self, harness):
        """An operation that is still being finished elsewhere is not attached."""
        other = PurgatoryHarness()

        class Resubmitting:
            def ended(self, operation, outcome):
                other.purgatory.try_complete_else_watch(operation, ["x", "y"])

        first, op = PurgatoryHarness(journal=Resubmitting()), Recorder()
        first.purgatory.try_complete_else_watch(op, ["k"])
        op.force_complete()
        assert first.purgatory.stats().completed == 1
        assert other.purgatory.stats() == PurgatoryHarness().purgatory.stats()
        first.purgatory._check()
        other.purgatory._check()

    def test_errors_have_one_base(self):
        """All errors of the package have one base, except those for bad arguments."""
        for name in (
            "PurgatoryClosed",
            "PurgatoryForked",
            "OperationExpired",
            "OperationCancelled",
        ):
            assert issubclass(getattr(purgatory, name), PurgatoryError)
        assert issubclass(MetricsError, PurgatoryError)
        assert issubclass(OperationExpired, TimeoutError)
        assert issubclass(OperationCancelled, concurrent.futures.CancelledError)


class TestCompleting:
    def test_the_count_is_of_what_this_call_completed(self, harness):
        """check_and_complete counts the operations it completed, not those it checked."""
        p = harness.purgatory
        ops = [Recorder(ready=False) for _ in range(4)]
        for op in ops:
            p.try_complete_else_watch(op, ["k"])
        ops[1].ready = ops[2].ready = True
        assert p.check_and_complete("k") == 2
        assert p.check_and_complete("k") == 0
        assert p.check_and_complete("unknown") == 0

    def test_complete_checks_operations_too(self, harness):
        """complete resolves futures and checks operations of the same key."""
        p = harness.purgatory
        op, future = Recorder(), p.defer("k")
        p.try_complete_else_watch(op, ["k"])
        op.ready = True
        assert p.complete("k", 7) == 2
        assert future.result(0) == 7

    @pytest.mark.parametrize(
        ("method", "arguments", "end"),
        [
            ("complete_later", (7,), {"completed": 1}),
            ("fail_later", (OSError,), {"failed": 1}),
            ("cancel_later", (), {"cancelled": 1}),
        ],
    )
    def test_later(self, harness, method, arguments, end):
        """What is posted ends operations in the next step; a bad key is refused at once."""
        p = harness.purgatory
        future = p.defer("k")
        post = getattr(p, method)
        with pytest.raises(TypeError, match="unhashable"):
            post([], *arguments)
        post("k", *arguments)
        assert not future.done()
        p.step()
        assert future.done()
        assert {name: getattr(p.stats(), name) for name in end} == end
        p.close()
        with pytest.raises(PurgatoryClosed):
            post("k", *arguments)

    def test_it_leaves_all_its_lists_at_once(self, harness):
        """Completing, expiring and cancelling remove an operation from every key and the wheel."""
        p = harness.purgatory
        for end in ("complete", "expire", "cancel"):
            op = Recorder(1)
            p.try_complete_else_watch(op, ["a", "b", "c"])
            assert (p.watched, p.delayed, p.stats().watched_keys) == (3, 1, 3)
            if end == "complete":
                op.ready = True
                p.check_and_complete("b")
            elif end == "expire":
                harness.advance(1)
            else:
                op.cancel()
            assert (p.watched, p.delayed, p.stats().watched_keys) == (0, 0, 0)
            assert len(harness.timer) == 0

    def test_cancel_for_key_leaves_no_other_key(self, harness):
        """Cancelled operations leave all their keys and never expire; others stay."""
        p = harness.purgatory
        ops = [Recorder(1), Recorder(1), Recorder(1)]
        p.try_complete_else_watch(ops[0], ["a", "b"])
        p.try_complete_else_watch(ops[1], ["b"])
        p.try_complete_else_watch(ops[2], ["c"])
        assert p.cancel_for_key("a") == [ops[0]]
        assert p.cancel_for_key("unknown") == []
        assert (p.watched, p.delayed) == (2, 2)
        harness.advance(5)
        assert [op.calls for op in ops] == [["cancel"]] + [["complete", "expiration"]] * 2

    def test_an_overridden_cancel_does_not_stop_the_others(self, harness):
        """The purgatory cancels operations without calling an overridden cancel()."""

        class Stubborn(Recorder):
            def cancel(self):
                raise RuntimeError

        op, other = Stubborn(), Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.purgatory.try_complete_else_watch(other, ["k"])
        harness.purgatory.close()
        assert op.calls == other.calls == ["cancel"]

    def test_stats(self, harness):
        """Each outcome is counted, once."""
        p = harness.purgatory
        for _ in range(6):
            p.defer("a", "b", timeout=1)
        p.complete("a")
        p.defer("a", timeout=1)
        harness.advance(1)
        p.defer("a", "b", "c", timeout=1)
        p.defer("a", timeout=1)
        p.cancel_for_key("c")
        stats = p.stats()
        assert (stats.completed, stats.expired, stats.cancelled) == (6, 1, 1)
        assert (stats.pending, stats.watch_entries, stats.watched_keys) == (1, 1, 1)
        assert stats.name == "bench"
        with pytest.raises(AttributeError):
            stats.pending = 0

    @pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
    def test_stats_add_up(self):
        """An operation that ends while they are read is either pending or ended."""

        def scene(at):
            p, seen = PurgatoryHarness().purgatory, []
            for key in ("a", "a", "b"):
                p.defer(key)
            trace = handled_at(at, lambda: seen.append(p.stats()), lambda: p.complete("a"))
            assert {stats.pending + stats.completed for stats in seen} == {3}
            return trace

        at_every_place(scene, 10)

    def test_repr(self, harness):
        """The repr shows the counts."""
        harness.purgatory.defer("a", "b")
        assert repr(harness.purgatory) == "<Purgatory 'bench', 1 pending, 2 watched>"


class TestSharing:
    def test_two_purgatories_share_a_timer(self):
        """Purgatories on a shared timer are independent; it is neither started nor closed."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        one, two = Purgatory("one", timer=timer), Purgatory("two", timer=timer)
        with one:
            a, b = one.defer("k", timeout=1), two.defer("k", timeout=1)
            foreign = timer.schedule(1, lambda: None)
            assert len(timer) == 3
            assert (one.delayed, two.delayed) == (1, 1)
            assert one.complete("k", 1) == 1
            assert not b.done()
            c = one.defer("k", timeout=1)
        assert a.result(0) == 1
        assert isinstance(c.exception(0), OperationCancelled)
        assert two.delayed == 1
        clock.advance(1)
        assert timer.advance_clock()
        assert foreign.done()
        assert isinstance(b.exception(0), OperationExpired)
        assert "not started" in repr(timer)

    def test_foreign_tasks_do_not_change_the_figures(self, harness):
        """delayed does not count other tasks of a shared timer."""
        for _ in range(10):
            harness.timer.schedule(1, lambda: None)
        assert harness.purgatory.delayed == 0

    def test_a_timer_with_an_add_of_its_own(self):
        """An overridden Timer.add is called for operations, too."""

        class Counting(Timer):
            def add(self, task):
                added.append(task)
                return super().add(task)

        added, op = [], Recorder()
        p = Purgatory(timer=Counting(clock=ManualClock(), executor=InlineExecutor()))
        p.try_complete_else_watch(op, ["k"])
        future = p.defer("k")
        assert added == [op, future._operation]
        assert p.complete("k") == 1
        p.close()


class TestJournal:
    def test_gets_each_outcome_once_before_the_callbacks(self):
        """The journal gets each outcome after the lists and before the callbacks."""
        seen = []

        class Journal:
            def ended(self, operation, outcome):
                seen.append(
                    (
                        operation,
                        outcome,
                        list(getattr(operation, "calls", [])),
                        harness.purgatory.watched,
                        in_thread(lambda: True),
                    )
                )

        harness = PurgatoryHarness(journal=Journal())
        p = harness.purgatory
        ops = [Recorder(1), KeyedOperation(1), Recorder(1), Recorder(1)]
        for op, outcome in zip(ops, Outcome, strict=True):
            p.try_complete_else_watch(op, ["k"])
            if outcome is Outcome.COMPLETED:
                op.force_complete()
            elif outcome is Outcome.FAILED:
                p.fail("k", OSError("gone"))
            elif outcome is Outcome.EXPIRED:
                harness.advance(1)
            else:
                op.cancel()
        assert [entry[1] for entry in seen] == list(Outcome)
        assert all(entry[0] is op for entry, op in zip(seen, ops, strict=True))
        assert all(entry[2:] == ([], 0, True) for entry in seen)

    def test_a_journal_that_raises_keeps_nothing_from_ending(self):
        """An exception of the journal goes to on_error."""

        class Journal:
            def ended(self, operation, outcome):
                raise OSError("disk full")

        harness = PurgatoryHarness(journal=Journal())
        op = Recorder(ready=True)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert op.calls == ["complete"]
        assert isinstance(harness.errors[0][0], OSError)


class TestKeyed:
    def test_need_is_checked_at_submission(self, harness):
        """A KeyedOperation that needs more keys than it watches is refused."""
        op = KeyedOperation(5, need=3)
        with pytest.raises(ValueError, match="need is 3; expected 1 to 2"):
            harness.purgatory.try_complete_else_watch(op, ["a", "b", "a"])
        assert harness.purgatory.watched == 0
        harness.purgatory.try_complete_else_watch(op, ["a", "b", "c"])
        assert harness.purgatory.watched == 3


class TestNumbers:
    """Any float or int will do, whatever its comparisons return."""

    @pytest.mark.parametrize("half", [np.float64(0.5), LyingFloat(0.5)])
    def test_durations(self, half):
        """Each public argument that is a duration takes any float."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        with Purgatory(timer=timer) as p:
            future = p.defer("a", timeout=half)
            assert future.extend(half)
            operation = KeyedOperation(half)
            p.try_complete_else_watch(operation, ["b"])
            assert p.extend(operation, half)
            p.complete("c", 1, hold=half)
            p.complete_later("d", 2, hold=half)
            clock.advance(half)
            timer.advance_clock()
            assert p.defer("c").result(0) == 1
            clock.advance(1)
            while timer.advance_clock():
                pass
            assert isinstance(future.exception(0), OperationExpired)
            assert operation.done()
            p.close(timeout=half)

    @pytest.mark.parametrize("two", [LyingInt(2)])
    def test_counts(self, two):
        """need, limit and the rest are counted by their values."""
        with Purgatory(max_held=two, executor_workers=two) as p:
            futures = [p.defer("a", "b", "c", need=two), *[p.defer("a") for _ in range(3)]]
            assert p.complete("a", 1, limit=two) == 1
            assert p.complete("b", 1) == 1
            assert [future.done() for future in futures] == [True, True, False, False]

    @pytest.mark.parametrize("value", [np.int64(1), np.float32(1), "1", None, True])
    @pytest.mark.parametrize("name", ["timeout", "hold"])
    def test_other_types(self, name, value):
        """Another type is refused by the name of its argument."""
        with Purgatory() as p, pytest.raises(TypeError, match=f"{name} is"):
            p.defer("k", timeout=value) if name == "timeout" else p.complete("k", hold=value)

    @pytest.mark.parametrize("value", [-1, float("nan"), np.float64(-1), timedelta(-1), 1e30])
    @pytest.mark.parametrize("name", ["timeout", "hold", "extend"])
    def test_other_values(self, name, value):
        """A bad value is refused by the name of its argument."""
        with Purgatory() as p:
            future = p.defer("k")
            calls = {
                "timeout": lambda: p.defer("k", timeout=value),
                "hold": lambda: p.complete("k", hold=value),
                "extend": lambda: future.extend(value),
            }
            with pytest.raises(ValueError, match=r"(timeout|hold) is"):
                calls[name]()

    @pytest.mark.parametrize("limit", [2**62, 2**63, 2**70])
    def test_a_limit_beyond_all_operations(self, limit):
        """A limit that no machine word holds limits nothing."""
        with Purgatory() as p:
            futures = [p.defer("k") for _ in range(3)]
            assert p.complete("k", 1, limit=limit) == 3
            p.complete("held", 2, limit=limit, hold=5)
            assert p.defer("held").result(1) == 2
            assert all(future.done() for future in futures)
