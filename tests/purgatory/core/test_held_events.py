"""Events that reach a limited number of operations, or are held for later ones."""

import contextlib
import functools
import gc
import threading
import weakref
from datetime import timedelta

import pytest

from purgatory import HeldFull, KeyedOperation, Purgatory
from purgatory.core.operations import outcome_race
from purgatory.core.operations.operation import attach
from purgatory.core.operations.operation_state import UNAFFECTED, Claim
from tests.testing.interrupts import at_every_place, handled_at, interrupted_at
from tests.testing.keys import Key
from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)
from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerFull
from timingwheel.lowlevel import COMPILED


@pytest.fixture
def harness():
    return PurgatoryHarness()


ROUNDS = 100


def test_an_event_that_is_gone_slows_no_submission(harness):
    """Submissions look for held events only while there may be some."""
    held = harness.purgatory._parts.held
    seen = [held.holds]
    for end in (lambda: harness.purgatory.defer("k"), lambda: harness.advance(2)):
        harness.purgatory.complete("k", 5, limit=1, hold=1)
        seen.append(held.holds)
        end()
        seen.append(held.holds)
    assert seen == [False, True, False, True, False]


@pytest.mark.parametrize("part", ["lists", "held"])
def test_the_check_finds_a_broken_part(harness, part):
    """_check() of the purgatory is that of its parts, too."""
    p = harness.purgatory
    p._check()
    if part == "held":
        p.complete("k", 5, hold=1)
        p._parts.held.holds = False
    else:
        p._parts.lists.watch(Recorder(), ("k",))
        p.cancel_for_key("k")
        p._parts.lists._first.entries += 1
    with pytest.raises(AssertionError):
        p._check()


class Stopped(Recorder):
    """Once submitted, it stops in its next check; gives the answers in turn."""

    def __init__(self, answers):
        super().__init__(5)
        self.answers = [False, False, *answers]
        self.inside, self.go_on = threading.Event(), threading.Event()

    def submit(self, purgatory, *keys):
        """Submit it: two checks."""
        purgatory.try_complete_else_watch(self, keys)

    def try_complete(self):
        answer = self.answers.pop(0)
        self.tries += 1
        if self.tries == 3:
            self.inside.set()
            assert self.go_on.wait(HANG)
        return answer and self.force_complete()

    @contextlib.contextmanager
    def being_checked(self, check):
        """Stop another thread in the check meanwhile."""
        thread = threading.Thread(target=check)
        thread.start()
        assert self.inside.wait(HANG)
        try:
            yield
        finally:
            self.go_on.set()
            thread.join(HANG)
        assert not thread.is_alive()


class TestLimit:
    def test_the_longest_waiting_first(self, harness):
        """A lease: of five that wait, one at a time gets it."""
        p = harness.purgatory
        futures = [p.defer("lock") for _ in range(5)]
        for turn in range(5):
            assert p.complete("lock", turn, limit=1) == 1
            assert [future.done() for future in futures] == [n <= turn for n in range(5)]
        assert p.complete("lock", limit=1) == 0
        assert [future.result(0) for future in futures] == list(range(5))

    def test_more_than_wait(self, harness):
        """A limit is no more than that."""
        p = harness.purgatory
        futures = [p.defer("a") for _ in range(3)]
        assert p.complete("a", limit=7) == 3
        assert all(future.done() for future in futures)

    def test_a_unit_is_given_back_once_and_only_if_it_was_claimed(self, harness):
        """An interrupt can come before the claim, or have a unit settled twice."""
        p = harness.purgatory
        p.complete("a", limit=2, hold=5)
        held, event, claim = p._parts.held, p._parts.held.by_key["a"], Claim()
        held.settle(event, claim, UNAFFECTED)
        assert (event.units, event.claimed) == (2, 0)
        assert held.claim(event, claim, [], 0)
        assert (event.units, event.claimed) == (1, 1)
        for _ in range(2):
            held.settle(event, claim, UNAFFECTED)
            assert (event.units, event.claimed) == (2, 0)

    def test_what_it_brings_nearer_counts(self, harness):
        """An operation of several keys uses the event that it counts."""
        p = harness.purgatory
        both, single = p.defer("a", "b", need=2), p.defer("a")
        assert p.complete("a", 1, limit=1) == 0
        assert not single.done()
        assert p.complete("a", 2, limit=1) == 1
        assert single.result(0) == 2
        p.complete("b", 3)
        assert both.result(0) == {"a": 1, "b": 3}

    def test_what_is_not_satisfied_does_not_count(self, harness):
        """Operations with a condition of their own that stay as they are do not use it."""
        p = harness.purgatory
        ops = [Recorder(5), Recorder(5), Recorder(5)]
        for op in ops:
            p.try_complete_else_watch(op, ["a"])
        ops[1].ready = ops[2].ready = True
        assert p.complete("a", limit=1) == 1
        assert [op.calls for op in ops] == [[], ["complete"], []]

    @pytest.mark.parametrize(
        ("answers", "gets_it"),
        [
            ([False, True], "first"),
            ([False, False], "second"),
            ([True], "second"),  # of its own: that check had begun before the event
        ],
    )
    def test_one_that_another_thread_is_checking(self, harness, answers, gets_it):
        """That thread checks it again, and only then it is known who gets the event."""
        p = harness.purgatory
        first, second = Stopped(answers), Recorder(5, ready=True)
        first.submit(p, "a", "b")
        p._parts.lists.watch(second, ("a",))  # unchecked: it is ready
        with first.being_checked(lambda: p.check_and_complete("b")):
            assert p.complete("a", limit=1) == 0
            assert not second.done()
        assert (second.calls == ["complete"]) == (gets_it == "second")
        assert first.done() == (True in answers)
        assert not outcome_race._LEFT

    def test_one_that_ends_while_another_thread_is_checking_it(self, harness):
        """The next one gets the event as soon as that thread is back."""
        p = harness.purgatory
        first, second = Stopped([True]), Recorder(5, ready=True)
        first.submit(p, "a", "b")
        p._parts.lists.watch(second, ("a",))
        with first.being_checked(lambda: p.check_and_complete("b")):
            assert p.complete("a", limit=1, hold=5) == 0
            assert first.cancel()
            assert p.stats().held == 1
        assert second.calls == ["complete"]
        assert p.stats().held == 0
        assert not outcome_race._LEFT

    @pytest.mark.parametrize("error", [None, KeyboardInterrupt])
    def test_from_the_check_itself(self, harness, error):
        """An event from `try_complete` has it checked again, also after an interrupt."""

        def check():
            counts.append(len(counts))
            if len(counts) == 2:
                p.complete("a", limit=1)
                if error is not None:
                    raise error
            return len(counts) == 3

        p, counts = harness.purgatory, []
        first, second = Hooked(5, try_complete=check), Recorder(5, ready=True)
        assert attach(first, p._parts.owner)
        p._parts.lists.watch(first, ("a", "b"))
        p._parts.lists.watch(second, ("a",))
        counts.append(0)
        if error is None:
            assert p.check_and_complete("b") == 1
        else:
            with pytest.raises(error):
                p.check_and_complete("b")
        assert (first.calls, second.calls) == (["complete"], [])
        assert not outcome_race._LEFT

    @pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
    @pytest.mark.parametrize("satisfied", [True, False])
    def test_an_interrupt_of_the_thread_that_checks(self, satisfied):
        """At any place: the event reaches one operation, if it came at all."""

        def scene(at):
            def check():
                tries.append(None)
                if len(tries) == 3:
                    in_thread(lambda: p.complete("a", limit=1))
                return satisfied and len(tries) > 3

            p, tries = PurgatoryHarness().purgatory, []
            first, second = Hooked(5, try_complete=check), Recorder(5, ready=True)
            p.try_complete_else_watch(first, ["a", "b"])
            p._parts.lists.watch(second, ("a",))
            interrupter = interrupted_at(at, lambda: p.check_and_complete("b"))
            assert (first.done() + second.done()) == (len(tries) > 2), interrupter.where
            assert not outcome_race._LEFT, interrupter.where
            return interrupter

        at_every_place(scene, 20)

    def test_tokens(self):
        """Each event brings a token; threads check meanwhile: none is left while some wait."""
        p, tokens, taken = Purgatory(), [], []

        class Taker(Recorder):
            def try_complete(self):
                try:
                    taken.append(tokens.pop())
                except IndexError:
                    return False
                return self.force_complete()

        def bring():
            for number in range(ROUNDS):
                tokens.append(number)
                p.complete("a", limit=1)

        def check():
            for _ in range(ROUNDS):
                p.check_and_complete("b")

        takers = [Taker(60) for _ in range(20)]
        for taker in takers:
            p.try_complete_else_watch(taker, ["a", "b"])

        def submit():
            for _ in range(3 * ROUNDS):
                taker = Taker(60)
                takers.append(taker)
                p.try_complete_else_watch(taker, ["a", "b"])

        all_in_threads(bring, bring, check, submit)
        assert not tokens
        assert len(taken) == 2 * ROUNDS == sum(taker.completed for taker in takers)
        assert not outcome_race._LEFT
        p.close()

    @pytest.mark.parametrize(("limit", "error"), [
        (0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError), ("1", TypeError),
    ])  # fmt: skip
    def test_bad_limits(self, harness, limit, error):
        """A limit is a positive int."""
        future = harness.purgatory.defer("a")
        for method in (harness.purgatory.complete, harness.purgatory.complete_later):
            with pytest.raises(error):
                method("a", limit=limit)
        assert not future.done()


class TestHold:
    def test_an_early_event_is_not_lost(self, harness):
        """It counts for each operation that is submitted in time."""
        p = harness.purgatory
        assert p.complete("a", "early", hold=5) == 0
        assert p.defer("a").result(0) == "early"
        op = KeyedOperation(9)
        assert p.try_complete_else_watch(op, ["b", "a"]) is True
        assert (op.by_key, op.values) == ("a", {"a": "early"})
        assert (p.stats().held, p.delayed, p.watched) == (1, 0, 0)

    def test_those_that_wait_get_it_too(self, harness):
        """A held event is an event."""
        p = harness.purgatory
        waiting = p.defer("a")
        assert p.complete("a", 1, hold=timedelta(seconds=5)) == 1
        assert waiting.result(0) == p.defer("a").result(0) == 1

    @pytest.mark.parametrize("hold", [0.001, 1, 5.5, 400, 0.0003])
    def test_its_time_is_exact(self, harness, hold):
        """It counts up to the very end, drained or not, and is gone after it."""
        p = harness.purgatory
        p.complete("a", 1, hold=hold)
        harness.advance(hold)
        assert p.stats().held == 1
        assert p.defer("a").done()
        harness.clock.advance(0.000001)
        assert not p.defer("a").done()
        harness.advance(0.001)
        assert (p.stats().held, len(harness.timer)) == (0, 2 - 1)

    def test_need(self, harness):
        """It counts as a key of several; the values are those of the events."""
        p = harness.purgatory
        p.complete("a", 1, hold=5)
        future = p.defer("a", "b", need=2)
        assert not future.done()
        p.complete("a", 9)
        p.complete("b", 2)
        assert future.result(0) == {"a": 1, "b": 2}

    def test_several_in_the_order_in_which_they_came(self, harness):
        """The earliest held event of its keys completes an operation."""
        p = harness.purgatory
        p.complete("b", 2, hold=5)
        p.complete("a", 1, hold=5)
        p.complete("b", 3, hold=5)
        op = KeyedOperation(5)
        p.try_complete_else_watch(op, ["b", "a"])
        assert op.by_key == "a"

    def test_a_later_completion_replaces_it(self, harness):
        """One that is held, and one that is not."""
        p = harness.purgatory
        p.complete("a", 1, hold=500)
        p.complete("a", 2, hold=5)
        assert p.defer("a").result(0) == 2
        assert (p.stats().held, len(harness.timer)) == (1, 1)
        p.complete("a", 3)
        assert not p.defer("a").done()
        assert p.stats().held == 0
        p.complete("b", hold=5)
        p.complete("b", limit=4)
        assert p.stats().held == 0

    @pytest.mark.parametrize("meanwhile", ["close", "fill"])
    def test_a_key_that_comes_back_while_its_event_is_held(self, meanwhile):
        """A key's __eq__ may close the purgatory or take the last place: nothing is left behind."""
        harness = PurgatoryHarness(max_held=2)
        p, acts = harness.purgatory, []

        def come_back():
            if acts:
                acts.pop()()

        p.complete(Key(1), hold=5)
        if meanwhile == "close":
            acts.append(p.close)
            p.complete(Key(2, come_back), hold=5)
        else:
            acts.append(lambda: p.complete("other", hold=5))
            with pytest.raises(HeldFull, match="max_held=2"):
                p.complete(Key(2, come_back), hold=5)
        assert p.stats().held == len(harness.timer) == (0 if meanwhile == "close" else 2)
        p._check()

    def test_a_shared_timer_that_was_closed(self, harness):
        """Its error comes out, and nothing is held."""
        harness.timer.close()
        with pytest.raises(TimerClosed):
            harness.purgatory.complete("a", 1, hold=5)
        assert harness.purgatory.stats().held == 0

    def test_what_does_not_replace_it(self, harness):
        """A check and a cancellation are no completions."""
        p = harness.purgatory
        p.complete("a", 1, hold=5)
        p.check_and_complete("a")
        p.cancel_for_key("a")
        assert p.defer("a").result(0) == 1

    def test_a_limit_bounds_both(self, harness):
        """Those that wait, and those that come later."""
        p = harness.purgatory
        waiting = p.defer("a")
        assert p.complete("a", 1, limit=3, hold=5) == 1
        later = [p.defer("a") for _ in range(3)]
        assert [future.done() for future in (waiting, *later)] == [True, True, True, False]
        assert (p.stats().held, len(harness.timer)) == (0, 1)

    def test_a_limit_that_those_who_wait_use_up(self, harness):
        """Then nothing is held."""
        p = harness.purgatory
        waiting = [p.defer("a"), p.defer("a")]
        assert p.complete("a", limit=1, hold=5) == 1
        assert (waiting[0].done(), waiting[1].done()) == (True, False)
        assert p.stats().held == 0
        assert not p.defer("a").done()

    def test_a_condition_is_checked(self, harness):
        """An operation with a condition of its own is checked, and uses it if satisfied."""
        p = harness.purgatory
        p.complete("a", limit=1, hold=5)
        op = Recorder(5)
        assert p.try_complete_else_watch(op, ["a"]) is False
        assert (op.tries, p.stats().held) == (3, 1)
        late = Hooked(5)
        late.hooks["try_complete"] = lambda: late.tries == 2 and late.force_complete()
        assert p.try_complete_else_watch(late, ["a"]) is False or late.done()
        assert p.defer("a").done() is not late.done() or p.stats().held == 0

    @pytest.mark.parametrize("stays", [True, False])
    def test_a_unit_that_is_given_back_late(self, harness, stays):
        """It is for the operations that would have had it in time, not for later ones."""
        p, futures = harness.purgatory, []

        class EndsMeanwhile(KeyedOperation):
            def _op_count_key(self, key, value, claim):
                if not futures:
                    futures.append(p.defer(key))
                    harness.advance(2)
                    if not stays:
                        futures[0].cancel()
                    futures.append(p.defer(key))
                    self.cancel()
                return super()._op_count_key(key, value, claim)

        p.try_complete_else_watch(EndsMeanwhile(30), ["a"])
        p.complete("a", 1, limit=1, hold=1)
        assert [future.done() for future in futures] == [True, False]
        assert futures[0].cancelled() is not stays
        p._check()

    def test_an_operation_that_was_refused_uses_no_event(self):
        """It was on its list while a thread looked for operations to complete, and is off again."""
        watches, found, is_refused = [threading.Event() for _ in range(3)]

        class FullTimer(Timer):
            def add(self, task):
                if isinstance(task, KeyedOperation) and task.delay_ms == 7000:
                    watches.set()
                    assert found.wait(HANG)
                    raise TimerFull("full")
                return super().add(task)

        class Waits(KeyedOperation):
            def _op_count_key(self, key, value, claim):
                found.set()
                assert is_refused.wait(HANG)
                self.cancel()
                return super()._op_count_key(key, value, claim)

        p = Purgatory(timer=FullTimer(clock=ManualClock(), executor=InlineExecutor()))
        p.try_complete_else_watch(Waits(30), ["a"])

        def refuse():
            with pytest.raises(TimerFull):
                p.defer("a", timeout=7)
            is_refused.set()

        thread = threading.Thread(target=refuse)
        thread.start()
        assert watches.wait(HANG)
        assert p.complete("a", 1, limit=1, hold=5) == 0
        thread.join(HANG)
        assert p.defer("a").result(0) == 1
        p._check()

    def test_without_a_timeout(self, harness):
        """At one instant events come before expirations."""
        p = harness.purgatory
        p.complete("a", 1, hold=5)
        assert p.defer("a", timeout=0).result(0) == 1

    @pytest.mark.parametrize(("hold", "error"), [
        (-1, ValueError), (float("nan"), ValueError), (float("inf"), ValueError),
        ("1", TypeError), (None, TypeError),
    ])  # fmt: skip
    def test_bad_values(self, harness, hold, error):
        """They are those of a timeout."""
        for method in (harness.purgatory.complete, harness.purgatory.complete_later):
            with pytest.raises(error):
                method("a", hold=hold)
        assert harness.purgatory.stats().held == 0

    def test_later(self, harness):
        """Posted to the loop, with all that it takes."""
        p = harness.purgatory
        p.complete_later("a", 1, limit=1, hold=5)
        p.step()
        assert p.defer("a").result(0) == 1
        assert p.stats().held == 0


class TestBounds:
    def test_no_more_than_max_held(self):
        """The error is raised at once, and nothing was done."""
        harness = PurgatoryHarness(max_held=2)
        p = harness.purgatory
        p.complete("a", hold=5)
        p.complete("b", hold=5)
        waiting = p.defer("c")
        with pytest.raises(HeldFull, match="'bench' holds max_held=2 events"):
            p.complete("c", hold=5)
        assert (waiting.done(), p.stats().held, len(harness.timer)) == (False, 2, 3)
        p.complete("a", hold=9)  # instead of another one
        harness.advance(6)
        p.complete("c", hold=5)
        assert (waiting.done(), p.stats().held) == (True, 2)

    def test_none(self):
        """A purgatory that holds nothing still completes."""
        p = Purgatory(max_held=0)
        with pytest.raises(HeldFull):
            p.complete("a", hold=1)
        assert p.complete("a") == 0
        p.close()

    @pytest.mark.parametrize(("value", "error"), [
        (-1, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError),
    ])  # fmt: skip
    def test_bad_bounds(self, value, error):
        """It is an int, at least 0."""
        with pytest.raises(error, match="max_held"):
            Purgatory(max_held=value)

    def test_a_full_timer(self):
        """Its error leaves all as it was; an event that replaces another takes no further place."""
        harness = PurgatoryHarness(max_pending=2)
        p = harness.purgatory
        waiting = p.defer("a")
        p.complete("b", 1, hold=5)
        with pytest.raises(TimerFull):
            p.complete("a", hold=5)
        assert not waiting.done()
        p.complete("b", 2, hold=5)
        assert len(p.timer) == 2
        p.complete("a")
        assert p.defer("b").result(0) == 2
        p._check()

    def test_a_full_loop_is_logged(self, caplog):
        """What is posted has no caller to raise to."""
        p = PurgatoryHarness(max_held=0).purgatory
        p.complete_later("a", hold=5)
        p.step()
        assert "HeldFull" in caplog.text

    def test_values_are_let_go(self, harness):
        """No value outlives its event: used up, replaced, over, closed."""

        class Value:
            pass

        p, values = harness.purgatory, []
        for number, key in enumerate("abcd"):
            value = Value()
            values.append(weakref.ref(value))
            p.complete(key, value, limit=1, hold=5 + number)
        del value
        p.defer("a")
        p.complete("b")
        harness.advance(7.1)
        gc.collect()
        assert [value() is None for value in values] == [True, True, True, False]
        p.close()
        gc.collect()
        assert values[3]() is None
        assert len(harness.timer) == 0

    def test_keys_that_cannot_be_compared(self, harness):
        """The error of a key reaches the caller, and nothing is left behind."""

        class Key:
            def __hash__(self):
                return 1

            def __eq__(self, other):
                raise ArithmeticError

        p = harness.purgatory
        p.complete(1, hold=5)
        with pytest.raises(ArithmeticError):
            p.complete(Key(), hold=5)
        with pytest.raises(ArithmeticError):
            p.defer(Key())
        assert (p.stats().held, p.delayed, len(harness.timer)) == (1, 0, 1)
        with pytest.raises(TypeError):
            p.complete([], hold=5)
        p._check()


class TestClose:
    def test_nothing_held_keeps_it_waiting(self):
        """A purgatory that waits for its operations does not wait for what it holds."""
        with Purgatory() as p:
            p.complete("a", hold=3600)
            future = p.defer("b", timeout=0.01)
            in_thread(lambda: p.close(cancel_pending=False) or True)
            assert future.done()
            assert p.stats().held == 0

    def test_while_it_closes(self, harness):
        """Those that wait are completed; nothing is held any more."""
        p = harness.purgatory
        waiting = p.defer("a")
        p.complete("b", hold=5)
        p.close(wait=False, cancel_pending=False)
        assert p.stats().held == 0
        assert p.complete("a", 1, hold=5) == 1
        assert waiting.result(0) == 1
        assert (p.stats().held, len(harness.timer)) == (0, 0)

    def test_a_shared_timer_closes_first(self, harness):
        """Then nothing is held."""
        p = harness.purgatory
        p.complete("a", hold=5)
        harness.timer.close()
        assert p.stats().held == 0
        p._check()

    def test_a_dropped_purgatory(self):
        """What it holds does not keep it alive, nor its values for longer than their time."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        p = Purgatory(timer=timer)
        p.complete("a", hold=5)
        dead = weakref.ref(p)
        del p
        gc.collect()
        assert dead() is None
        clock.advance(6)
        timer.advance_clock()
        assert len(timer) == 0


class TestCallbacks:
    def test_one_that_waits_for_the_event_again(self, harness):
        """A callback submits for the key that is being completed, and has its result at once."""
        p, results = harness.purgatory, []

        def submit(done):
            results.append(p.defer("a").result(HANG))

        p.defer("a").add_done_callback(submit)
        waiting = p.defer("a")
        p.complete("a", 1, limit=3, hold=5)
        assert results == [1]
        assert waiting.done()
        assert p.stats().held == 0

    def test_those_that_wait_come_before(self, harness):
        """What a callback submits does not get ahead of what has waited longer."""
        p, late = harness.purgatory, []
        p.defer("a").add_done_callback(lambda done: late.append(p.defer("a")))
        waiting = p.defer("a")
        p.complete("a", 1, limit=2, hold=5)
        assert (waiting.done(), late[0].done()) == (True, False)

    def test_one_that_replaces_the_event(self, harness):
        """The later one counts from then on."""
        p = harness.purgatory
        first = p.defer("a")
        first.add_done_callback(lambda done: p.complete("a", 2, hold=5))
        p.complete("a", 1, limit=2, hold=5)
        assert (first.result(0), p.defer("a").result(0), p.defer("a").result(0)) == (1, 2, 2)


@pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
@pytest.mark.parametrize("makes_new", [True, False])
def test_a_signal_handler_replaces_or_drops_the_event_that_is_removed(makes_new):
    """The handler's event stays, and the removal raises nothing."""

    def scene(at):
        p = PurgatoryHarness().purgatory
        p.complete("k", "old", hold=5)
        held = p._parts.held
        remove = functools.partial(held.remove, held.by_key["k"])
        trace = handled_at(at, remove, lambda: p.complete("k", "new", hold=5 * makes_new))
        assert [event.value for event in held.by_key.values()] == ["new"] * (
            trace.fired and makes_new
        )
        p._check()
        return trace

    at_every_place(scene, 3)


@pytest.mark.skipif(COMPILED, reason="compiled functions are not traced")
def test_a_signal_handler_takes_the_last_place():
    """One of the two events is held, and the other refused."""

    def scene(at):
        p = PurgatoryHarness(max_held=1).purgatory

        def hold(key):
            with contextlib.suppress(HeldFull):
                p.complete(key, hold=5)

        trace = handled_at(at, lambda: hold("a"), lambda: hold("b"))
        assert len(p._parts.held) == 1, trace.where
        p._check()
        return trace

    at_every_place(scene, 3)
