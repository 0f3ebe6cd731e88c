"""How one operation ends: once, with its callbacks in order, whatever these do."""

import dataclasses
import threading
from datetime import timedelta

import pytest

from purgatory import DelayedOperation, Outcome
from purgatory.core.callbacks import MAX_NESTED
from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestTimeout:
    @pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, -0.001])
    def test_a_timeout_out_of_range_is_a_value_error(self, timeout):
        """NaN, infinity and negative timeouts are refused."""
        with pytest.raises(ValueError, match="delay is"):
            DelayedOperation(timeout)

    @pytest.mark.parametrize("timeout", ["1", None, True, [1]])
    def test_a_timeout_that_is_no_number_is_a_type_error(self, timeout):
        """A timeout that is neither a number nor a timedelta is refused."""
        with pytest.raises(TypeError, match="delay is"):
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


class TestOneAtATime:
    def test_a_check_that_comes_during_a_check_is_not_lost(self, harness):
        """A check that finds an operation busy leaves a flag: the condition is checked again."""
        inside, go_on = threading.Event(), threading.Event()

        def wait_in_first():
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                assert go_on.wait(HANG)
                return False  # decided before the condition came true
            return None

        op = Hooked(try_complete=lambda: wait_in_first() if not go_on.is_set() else None)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        checker = threading.Thread(target=harness.purgatory.check_and_complete, args=["k"])
        checker.start()
        assert inside.wait(HANG)
        op.ready = True
        assert harness.purgatory.check_and_complete("k") == 0  # it is busy; the flag is left
        assert not op.completed
        go_on.set()
        checker.join(HANG)
        assert op.completed
        assert op.calls == ["complete"]

    def test_what_ends_during_a_check_is_told_after_it(self, harness):
        """Methods of one operation never overlap, and none is left out."""
        op = Hooked(try_complete=lambda: self.force_and_look(op))
        op.seen = []
        harness.purgatory.try_complete_else_watch(op, ["k"])
        assert op.seen == [(True, [])]
        assert op.calls == ["complete"]

    @staticmethod
    def force_and_look(op):
        op.seen.append((in_thread(op.force_complete), list(op.calls)))
        return False

    def test_callbacks_of_one_operation_never_overlap(self):
        """Under concurrent checks, completions and cancels, one method runs at a time."""

        class Exclusive(Recorder):
            def __init__(self):
                super().__init__(30)
                self.lock = threading.Lock()
                self.overlaps = 0

            def alone(self, action):
                if not self.lock.acquire(blocking=False):
                    self.overlaps += 1
                    return action()
                try:
                    return action()
                finally:
                    self.lock.release()

            def try_complete(self):
                return self.alone(lambda: sum(range(20)) < 0)

            def on_complete(self):
                self.alone(super().on_complete)

            def on_cancel(self):
                self.alone(super().on_cancel)

        harness = PurgatoryHarness()
        for _ in range(300):
            op = Exclusive()
            checks = [lambda: [harness.purgatory.check_and_complete("k") for _ in range(5)]] * 2
            harness.purgatory.try_complete_else_watch(op, ["k"])
            all_in_threads(*checks, op.force_complete, op.cancel)
            assert op.overlaps == 0
            assert op.calls in (["complete"], ["cancel"])
            harness.purgatory._check()

    def test_what_is_told_has_left_its_lists(self):
        """A busy thread calls no callback before the operation is off wheel and lists."""
        ending, go_on = threading.Event(), threading.Event()
        seen = []

        class SlowJournal:
            def ended(self, operation, outcome):
                ending.set()
                assert go_on.wait(HANG)

        harness = PurgatoryHarness(journal=SlowJournal())
        p = harness.purgatory

        def end_elsewhere():
            if op.tries:
                other.start()
                assert ending.wait(HANG)
            return False

        op = Hooked(
            try_complete=end_elsewhere,
            on_complete=lambda: seen.append((p.watched, p.delayed, len(harness.timer))),
        )
        op.tries = 0
        other = threading.Thread(target=op.force_complete)
        p.try_complete_else_watch(op, ["k", "x"])
        op.tries = 1
        assert p.check_and_complete("k") == 0
        assert op.calls == []
        go_on.set()
        other.join(HANG)
        assert seen == [(0, 0, 0)]


class TestReentrance:
    def test_try_complete_may_force_itself_and_say_nothing(self, harness):
        """A try_complete without a return value completes, but is not counted."""
        op = Hooked(try_complete=lambda: op.force_complete() and None)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        assert op.calls == ["complete"]
        assert harness.purgatory.watched == 0

    def test_true_without_force_complete_completes(self, harness):
        """A try_complete that only returns True completes the operation."""
        op = Hooked(try_complete=lambda: True)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert op.calls == ["complete"]

    def test_callbacks_may_use_their_own_key(self, harness):
        """A callback may complete, cancel and watch the key of its own operation."""
        p = harness.purgatory
        other, late = Recorder(), Recorder()

        def callback():
            other.ready = True
            assert p.check_and_complete("k") == 1
            assert p.try_complete_else_watch(late, ["k"]) is False

        op = Hooked(on_complete=callback)
        p.try_complete_else_watch(op, ["k"])
        p.try_complete_else_watch(other, ["k"])
        op.ready = True
        assert p.check_and_complete("k") == 1
        assert other.calls == ["complete"]
        assert (p.watched, p.delayed) == (1, 1)
        assert p.cancel_for_key("k") == [late]
        p._check()

    @pytest.mark.parametrize("count", [MAX_NESTED - 1, MAX_NESTED, MAX_NESTED + 1, 3000])
    def test_a_chain_of_callbacks_has_no_end(self, harness, count):
        """A long chain of operations that complete each other ends without RecursionError."""
        p = harness.purgatory
        order = []

        def link(i):
            return Hooked(on_complete=lambda: (order.append(i), p.check_and_complete(i + 1)))

        ops = [link(i) for i in range(count)]
        for i, op in enumerate(ops):
            p.try_complete_else_watch(op, [i])
            op.ready = True
        assert p.check_and_complete(0) == 1
        assert harness.errors == []
        assert order == list(range(count))
        assert (p.watched, p.delayed) == (0, 0)
        p._check()

    def test_all_who_wait_for_a_key_may_complete_it_again(self, harness):
        """Each of a thousand callbacks completes the key that all of them watch."""
        p = harness.purgatory
        ops = [Hooked(on_complete=lambda: p.check_and_complete("k")) for _ in range(1000)]
        for op in ops:
            p.try_complete_else_watch(op, ["k"])
        for op in ops:
            op.ready = True
        p.check_and_complete("k")
        assert harness.errors == []
        assert all(op.calls == ["complete"] for op in ops)

    def test_deep_chains_expire_in_order_too(self, harness):
        """In a chain of expiries each operation gets on_complete, then on_expiration, once."""
        ops = []

        def expire_next(i):
            if i + 1 < len(ops):
                ops[i + 1].run()

        ops.extend(Hooked(on_complete=lambda i=i: expire_next(i)) for i in range(500))
        ops[0].run()
        assert all(op.calls == ["complete", "expiration"] for op in ops)

    def test_two_that_complete_each_other_do_not_deadlock(self):
        """Callbacks on two threads that complete each other's keys do not deadlock."""
        harness = PurgatoryHarness()
        p = harness.purgatory
        for _ in range(1000):
            a = Hooked(on_complete=lambda: p.complete("b"))
            b = Hooked(on_complete=lambda: p.complete("a"))
            p.try_complete_else_watch(a, ["a"])
            p.try_complete_else_watch(b, ["b"])
            a.ready = b.ready = True
            all_in_threads(lambda: p.complete("a"), lambda: p.complete("b"))
            assert a.calls == b.calls == ["complete"]
        p._check()

    @pytest.mark.parametrize("name", ["try_complete", "on_complete", "on_expiration", "on_cancel"])
    def test_no_lock_of_ours_is_held_in_user_code(self, harness, name):
        """While a callback runs, another thread may use the same keys and operation."""
        p = harness.purgatory
        seen = []

        def use_everything():
            other = Recorder(30)
            p.try_complete_else_watch(other, ["k"])
            p.check_and_complete("k")
            p.complete("k")
            p.defer("k", timeout=30).cancel()
            op.force_complete()
            op.cancel()
            return other in p.cancel_for_key("k")

        op = Hooked(5, **{name: lambda: seen.append(in_thread(use_everything))})
        p.try_complete_else_watch(op, ["k"])
        if name == "on_cancel":
            op.cancel()
        harness.advance(5)
        assert seen
        assert all(seen)
        assert len(op.calls) == len(set(op.calls))
        assert p.watched == 0


class Boom(Exception):
    pass


class TestErrors:
    @pytest.mark.parametrize("name", ["try_complete", "on_complete", "on_expiration", "on_cancel"])
    def test_an_exception_is_reported_and_stops_no_other(self, harness, name):
        """Exceptions of user code go to on_error with the operation; others are not affected."""
        p = harness.purgatory

        def raise_it():
            raise Boom(name)

        bad, good = Hooked(5, **{name: raise_it}), Recorder(5)
        p.try_complete_else_watch(bad, ["k"])
        p.try_complete_else_watch(good, ["k"])
        before = len(harness.errors)
        if name == "on_cancel":
            assert p.cancel_for_key("k") == [bad, good]
            assert good.calls == ["cancel"]
        elif name == "on_expiration":
            harness.advance(5)
            assert good.calls == ["complete", "expiration"]
        else:
            bad.ready = good.ready = True
            assert p.check_and_complete("k") == (1 if name == "try_complete" else 2)
            assert good.calls == ["complete"]
        assert len(harness.errors) == before + 1
        assert isinstance(harness.errors[-1][0], Boom)
        assert harness.errors[-1][1] is bad
        p._check()

    def test_on_expiration_follows_an_on_complete_that_raised(self, harness):
        """An exception in on_complete does not keep on_expiration from being called."""
        op = Hooked(1, on_complete=lambda: 1 / 0)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.advance(1)
        assert op.calls == ["complete", "expiration"]
        assert isinstance(harness.errors[0][0], ZeroDivisionError)

    def test_an_answer_without_truth_is_an_error_of_user_code(self, harness):
        """A result of try_complete that cannot be converted to bool is reported."""

        class Neither:
            def __bool__(self):
                raise Boom

        op = Hooked(try_complete=Neither)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert isinstance(harness.errors[0][0], Boom)
        assert harness.purgatory.watched == 1

    def test_an_on_error_that_raises_is_logged(self, caplog):
        """An exception in on_error is logged."""

        def bad(error, operation):
            raise Boom

        harness = PurgatoryHarness(on_error=bad)
        op = Hooked(on_complete=lambda: 1 / 0)
        op.ready = True
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert "on_error of purgatory 'bench' raised" in caplog.text

    def test_without_on_error_it_is_logged(self, caplog):
        """Without on_error exceptions are logged, with a traceback."""
        harness = PurgatoryHarness(on_error=None)
        op = Hooked(on_complete=lambda: 1 / 0)
        op.ready = True
        harness.purgatory.try_complete_else_watch(op, ["k"])
        assert "ZeroDivisionError" in caplog.text

    def test_without_a_purgatory_it_is_logged(self, caplog):
        """An exception in an operation that was never submitted is logged."""
        Hooked(on_complete=lambda: 1 / 0).force_complete()
        assert "ZeroDivisionError" in caplog.text

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_an_interrupt_goes_to_the_caller_and_loses_nothing(self, harness, kind):
        """A BaseException reaches the caller; the remaining callbacks are called."""

        def interrupt():
            raise kind

        op = Hooked(on_complete=interrupt)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        with pytest.raises(kind):
            op.run()
        assert op.calls == ["complete", "expiration"]
        assert harness.purgatory.watched == 0
        harness.purgatory._check()


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
        assert [str(outcome) for outcome in Outcome] == ["completed", "expired", "cancelled"]
