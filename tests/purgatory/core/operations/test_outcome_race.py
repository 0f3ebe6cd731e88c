"""Lifecycle: no check is lost, no two methods overlap; nesting and exceptions of callbacks."""

import contextlib
import threading

import pytest

from purgatory import DelayedOperation, KeyedOperation
from purgatory.core.operations import deferred, keyed, operation, operation_state, outcome_race
from purgatory.core.operations.operation_state import UNAFFECTED, Claim
from purgatory.core.operations.outcome_race import MAX_ATTEMPTS, MAX_NESTED
from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)
from timingwheel import COMPILED
from timingwheel.lowlevel import ATOMIC_SECTIONS


@pytest.fixture
def harness():
    return PurgatoryHarness()


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

    def test_callbacks_after_the_check_that_it_ended_in(self, harness):
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

            def exclusively(self, action):
                if not self.lock.acquire(blocking=False):
                    self.overlaps += 1
                    return action()
                try:
                    return action()
                finally:
                    self.lock.release()

            def try_complete(self):
                return self.exclusively(lambda: sum(range(20)) < 0)

            def on_complete(self):
                self.exclusively(super().on_complete)

            def on_cancel(self):
                self.exclusively(super().on_cancel)

        harness = PurgatoryHarness()
        for _ in range(300):
            op = Exclusive()
            checks = [lambda: [harness.purgatory.check_and_complete("k") for _ in range(5)]] * 2
            harness.purgatory.try_complete_else_watch(op, ["k"])
            all_in_threads(*checks, op.force_complete, op.cancel)
            assert op.overlaps == 0
            assert op.calls in (["complete"], ["cancel"])
            harness.purgatory._check()

    def test_callbacks_after_it_has_left_its_lists(self):
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


@pytest.mark.skipif(ATOMIC_SECTIONS, reason="operations have no lock where sections are atomic")
@pytest.mark.skipif(COMPILED, reason="compiled functions cannot be replaced")
@pytest.mark.parametrize(
    ("error", "failures", "tries"),
    [
        (MemoryError, 1, 2),
        (MemoryError, MAX_ATTEMPTS - 1, MAX_ATTEMPTS),
        (MemoryError, MAX_ATTEMPTS, MAX_ATTEMPTS),
        (ValueError, 1, 2),
        (ValueError, 2, 2),
    ],
)
def test_a_release_that_fails(monkeypatch, error, failures, tries):
    """Memory may come; another error may be a signal handler's. The caller hears of that one."""
    left, release = [error()] * failures, outcome_race._release
    tried = []

    def fail_at_first(operation, outcome):
        tried.append(outcome)
        if left:
            raise left.pop()
        release(operation, outcome)

    operation = Recorder()
    monkeypatch.setattr(outcome_race, "_release", fail_at_first)
    hears = failures == tries or error is ValueError
    with pytest.raises(error) if hears else contextlib.nullcontext():
        operation.force_complete()
    assert len(tried) == tries
    assert operation.calls == ["complete"]


@pytest.mark.skipif(COMPILED, reason="compiled operations have no lock to replace")
@pytest.mark.parametrize("end", [Recorder.force_complete, Recorder.cancel, Recorder.run])
def test_an_interrupt_before_the_race(harness, end):
    """Who did not get the operation's lock has not won: the operation stays as it was."""

    class InterruptedOnce:
        def __init__(self, lock):
            self.lock, self.interrupts = lock, [KeyboardInterrupt]

        def __enter__(self):
            if self.interrupts:
                raise self.interrupts.pop()
            self.lock.__enter__()

        def __exit__(self, *error):
            self.lock.__exit__(*error)

    op = Recorder()
    harness.purgatory.try_complete_else_watch(op, ["k"])
    op._op_lock = InterruptedOnce(op._op_lock)
    with pytest.raises(KeyboardInterrupt):
        end(op)
    assert (op.calls, op.done(), harness.purgatory.watched) == ([], False, 1)


@pytest.mark.skipif(COMPILED, reason="compiled functions cannot be replaced")
@pytest.mark.parametrize("failures", [1, MAX_ATTEMPTS, MAX_ATTEMPTS + 1])
def test_no_memory_for_the_call_of_the_winner(monkeypatch, failures):
    """The winner calls again and again; the caller hears of the shortage."""
    calls, finalize = [], outcome_race.finalize

    def fail_at_first(operation, outcome):
        calls.append(outcome)
        if len(calls) <= failures:
            raise MemoryError
        finalize(operation, outcome)

    operation = Recorder()
    monkeypatch.setattr(outcome_race, "finalize", fail_at_first)
    with pytest.raises(MemoryError):
        operation.force_complete()
    assert len(calls) == min(failures, MAX_ATTEMPTS) + 1
    assert operation.calls == ["complete"] * (failures <= MAX_ATTEMPTS)


@pytest.mark.skipif(ATOMIC_SECTIONS, reason="no lock for each operation")
def test_a_finalizer_may_end_the_operation_whose_lock_its_thread_has(harness):
    """The collector may run at the call that is made under the lock; nothing deadlocks."""
    op = Recorder(30)
    harness.purgatory.try_complete_else_watch(op, ["k"])
    with op._op_lock:
        assert op.cancel()
    assert harness.purgatory.delayed == 0


@pytest.fixture
def sections(monkeypatch):
    """Go the ways of code that is compiled without the interpreter lock; return what is open."""
    opened = []

    def enter(lock):
        lock.acquire()
        opened.append(lock)

    def leave(lock):
        opened.remove(lock)
        lock.release()

    for module in (deferred, keyed, operation, outcome_race):
        monkeypatch.setattr(module, "COMPILED", True)
    depth = outcome_race.callback_depth()
    monkeypatch.setattr(outcome_race, "callback_depth", lambda: depth)
    for module in (operation_state, outcome_race):
        monkeypatch.setattr(module, "LOCKED_SECTIONS", True)
    monkeypatch.setattr(operation_state, "_enter_section", enter)
    monkeypatch.setattr(operation_state, "_leave_section", leave)
    return opened


@pytest.mark.skipif(COMPILED, reason="compiled code has bound the calls")
def test_each_section_is_left(harness, sections):
    """Another thread would wait for ever at an operation whose section is open."""
    p = harness.purgatory
    future, kept, by_hand = p.defer("a"), p.defer("a", "b", need=2), p.defer("c")
    by_hand.set_result(7)
    operations = [Recorder(), KeyedOperation(30, 1), Hooked(try_complete=lambda: True)]
    assert operations[1].force_complete()
    for op in (operations[0], operations[2]):
        p.try_complete_else_watch(op, ["k"])
        assert (sections, op._op_lock._is_owned()) == ([], False)
    assert p.complete("a", 5) == 1
    assert (future.result(0), kept.done()) == (5, False)
    assert p.complete("b", 6, limit=1) == 1
    assert kept.result(0) == {"a": 5, "b": 6}
    assert operations[0].cancel()
    assert (sections, operations[0].calls) == ([], ["cancel"])
    for op in operations:
        assert not op._op_lock._is_owned()


@pytest.mark.skipif(COMPILED, reason="compiled functions cannot be replaced")
@pytest.mark.parametrize("untracks", [True, False])
def test_an_end_gives_back_what_was_kept_from_the_collector(harness, monkeypatch, untracks):
    """Only where pending operations are kept from it."""
    tracked = []
    monkeypatch.setattr(outcome_race, "_gc_track", tracked.append)
    op = Recorder()
    harness.purgatory.try_complete_else_watch(op, ["k"])
    monkeypatch.setattr(op._op_owner, "untracks", untracks)
    op.force_complete()
    assert tracked == [op] * untracks


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

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_an_interrupt_behind_a_long_chain(self, harness, kind):
        """Callbacks that had to wait for the end of the first one are called, too."""
        p, order = harness.purgatory, []

        def link(i):
            order.append(i)
            p.check_and_complete(i + 1)
            if i == 0:
                raise kind

        count = 2 * MAX_NESTED
        ops = [Hooked(on_complete=lambda i=i: link(i)) for i in range(count)]
        for i, op in enumerate(ops):
            p.try_complete_else_watch(op, [i])
            op.ready = True
        with pytest.raises(kind):
            p.check_and_complete(0)
        assert order == list(range(count))
        assert (p.watched, p.delayed) == (0, 0)
        p._check()


def test_a_claim_is_forgotten_after_a_check(harness):
    """Nothing is left of a limited event that satisfied nobody."""
    harness.purgatory.try_complete_else_watch(Recorder(5), ["k"])
    harness.purgatory.complete("k", 1, limit=1)
    assert not outcome_race._LEFT


@pytest.mark.parametrize("comes_at", ["first check", "cancel"])
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("answer", [True, False])
def test_a_limited_event_that_comes_during_a_check(harness, comes_at, raises, answer):
    """The check that follows uses the unit, or else the next operation gets it."""
    p, checks = harness.purgatory, []

    class Checked(DelayedOperation):
        def try_complete(self):
            checks.append(self)
            if len(checks) < 4:  # two at the submission, then the one that is asked for
                if len(checks) == 3:
                    p.complete("k", 1, limit=1, hold=5)
                    _ = comes_at == "cancel" and self.cancel()
                return False
            _ = answer and self.force_complete()
            if raises:
                raise KeyboardInterrupt
            return answer

    operation = Checked(9)
    p.try_complete_else_watch(operation, ["k"])
    future = p.defer("k")
    is_checked_again = comes_at == "first check"
    with (
        pytest.raises(KeyboardInterrupt)
        if raises and is_checked_again
        else contextlib.nullcontext()
    ):
        p.check_and_complete("k")
    assert len(checks) == 3 + is_checked_again
    assert operation.completed is (answer and is_checked_again)
    assert future.done() is not operation.completed
    assert p.stats().held == 0
    assert not outcome_race._LEFT
    p._check()


@pytest.mark.skipif(COMPILED, reason="a compiled class has compiled subclasses")
def test_a_claim_that_cannot_be_settled():
    """The error of a key reaches the caller, and the claim is left to nobody."""

    class Failing(Claim):
        def settle(self, effect):
            raise ZeroDivisionError

    claim = Failing()
    outcome_race._LEFT[claim] = Recorder()
    with pytest.raises(ZeroDivisionError):
        outcome_race.settle([claim], UNAFFECTED)
    assert claim not in outcome_race._LEFT


@pytest.mark.skipif(COMPILED, reason="a compiled lock is final")
@pytest.mark.parametrize("shortages", range(3))
def test_an_operation_stays_busy_in_no_shortage(shortages):
    """A lock takes a few bytes: it is asked for until it has these."""
    op, asked = Recorder(), []

    class Lock:
        def __enter__(self):
            asked.append(self)
            if len(asked) <= shortages:
                raise MemoryError

        def __exit__(self, *error):
            """Leave it."""

    op._op_busy, op._op_lock = True, Lock()
    outcome_race._clear_busy(op)
    assert not op._op_busy
    assert len(asked) == shortages + 1
