"""Completion: failing a key, ending a future by hand, the context of callbacks."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import random
import traceback
import types

import pytest

from purgatory import DelayedOperation, KeyedOperation, OperationExpired, Outcome, Purgatory
from purgatory.core.operations.operation_state import UNAFFECTED
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, Recorder
from timingwheel import InlineExecutor, ManualClock, Timer


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestFail:
    def test_the_error_itself_is_raised(self, harness):
        """`result` raises the very error, with the traceback that it had."""
        p = harness.purgatory
        futures = [p.defer("a"), p.defer("a"), p.defer("b")]

        def where_it_happened():
            raise OSError("gone")

        with pytest.raises(OSError, match="gone") as happened:
            where_it_happened()
        gone = happened.value
        assert p.fail("a", gone) == 2
        for future in futures[:2]:
            with pytest.raises(OSError, match="gone") as caught:
                future.result(0)
            assert caught.value is gone
            frames = traceback.extract_tb(caught.value.__traceback__)
            assert "where_it_happened" in [frame.name for frame in frames]
        assert not futures[2].done()
        assert (p.stats().failed, p.watched, len(harness.timer)) == (2, 1, 1)

    def test_each_sees_where_it_happened(self, harness):
        """Not where another one's result was asked for."""
        depths = []

        def ask(future):
            with contextlib.suppress(OSError):
                future.result(0)
            depths.append(len(traceback.extract_tb(future.exception(0).__traceback__)))

        for _ in range(3):
            harness.purgatory.defer("a").add_done_callback(ask)
        harness.purgatory.fail("a", OSError("gone"))
        assert len(depths) == 3
        assert len(set(depths)) == 1

    def test_a_class(self, harness):
        """Each operation gets a new error of a class, or the first if no other can be made."""

        class Once(Exception):
            def __init__(self):
                if made:
                    raise ValueError
                made.append(self)

        for kind, errors in ((KeyError, 3), (Once, 1)):
            made, futures = [], [harness.purgatory.defer("a") for _ in range(3)]
            assert harness.purgatory.fail("a", kind) == 3
            found = [future.exception(0) for future in futures]
            assert [type(error) for error in found] == [kind] * 3
            assert len({id(error) for error in found}) == errors

    @pytest.mark.parametrize("error", ["gone", None, KeyboardInterrupt, KeyboardInterrupt(), int])
    def test_what_is_no_exception(self, harness, error):
        """Anything else is a TypeError, and fails nothing."""
        future = harness.purgatory.defer("a")
        for method in (harness.purgatory.fail, harness.purgatory.fail_later):
            with pytest.raises(TypeError):
                method("a", error)
        assert not future.done()

    def test_whatever_the_need(self, harness):
        """A key that has not counted yet fails the future; one that has does not."""
        p = harness.purgatory
        future = p.defer("a", "b", "c", need=2)
        p.complete("a", 1)
        assert p.fail("a", OSError) == 0
        assert not future.done()
        assert p.fail("c", OSError) == 1
        assert isinstance(future.exception(0), OSError)
        assert (p.complete("b"), p.watched) == (0, 0)

    def test_other_operations_are_checked(self, harness):
        """As by `complete`: the condition decides."""
        p = harness.purgatory
        ops = [Recorder(5), Recorder(5)]
        for op in ops:
            p.try_complete_else_watch(op, ["a"])
        ops[0].ready = True
        assert p.fail("a", OSError) == 1
        assert (ops[0].calls, ops[1].calls) == (["complete"], [])
        assert p.stats().failed == 0

    def test_keyed_operations(self, harness):
        """They are told once, by `on_failure`; their journal has the outcome."""
        told, journal = [], []

        class Keyed(KeyedOperation):
            def on_complete(self):
                told.append("completed")

            def on_failure(self):
                told.append(self.failure)

        class Journal:
            def ended(self, operation, outcome):
                journal.append(outcome)

        p = PurgatoryHarness(journal=Journal()).purgatory
        op, error = Keyed(5), OSError()
        p.try_complete_else_watch(op, ["a"])
        p.fail("a", error)
        assert told == [error]
        assert (op.done(), op.completed, op.cancelled()) == (True, False, False)
        assert (op.by_key, op.values) == (None, {})
        assert journal == [Outcome.FAILED]

    def test_what_is_held_stays(self, harness):
        """A failure is for those that wait; an early event still counts."""
        p = harness.purgatory
        p.complete("a", 1, hold=5)
        assert p.fail("a", OSError) == 0
        assert p.defer("a").result(0) == 1

    def test_later(self, harness):
        """Posted to the loop."""
        future = harness.purgatory.defer("a")
        harness.purgatory.fail_later("a", OSError)
        assert not future.done()
        harness.purgatory.step()
        assert isinstance(future.exception(0), OSError)
        with pytest.raises(TypeError):
            harness.purgatory.fail_later([], OSError)


class TestByHand:
    @pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
    def test_it_ends_the_operation(self, harness, keys):
        """Off the wheel and the lists at once; counted by its outcome."""
        p = harness.purgatory
        futures = [p.defer(*keys, need=len(keys)) for _ in range(2)]
        p.complete("b", 1)
        calls = []
        for future in futures:
            future.add_done_callback(calls.append)
        error = OSError("gone")
        futures[0].set_result(7)
        futures[1].set_exception(error)
        assert futures[0].result(0) == 7
        with pytest.raises(OSError, match="gone") as caught:
            futures[1].result(0)
        assert caught.value is error
        assert calls == futures
        stats = p.stats()
        assert (stats.completed, stats.failed, stats.pending) == (1, 1, 0)
        assert (p.watched, len(harness.timer)) == (0, 0)
        assert (p.complete("a"), p.complete("b"), harness.errors) == (0, 0, [])

    def test_once(self, harness):
        """A future that has ended says so, as the standard library's do."""
        p = harness.purgatory
        futures = [p.defer("a"), p.defer("b", timeout=1), p.defer("c")]
        p.complete("a", 1)
        harness.advance(1)
        futures[2].cancel()
        for future in futures:
            with pytest.raises(concurrent.futures.InvalidStateError):
                future.set_result(2)
            with pytest.raises(concurrent.futures.InvalidStateError):
                future.set_exception(OSError())
        assert futures[0].result(0) == 1
        assert isinstance(futures[1].exception(0), OperationExpired)
        assert harness.errors == []

    def test_no_error_is_no_result(self, harness):
        """`set_exception(None)` is what it is in the standard library: a result of None."""
        future = harness.purgatory.defer("a")
        future.set_exception(None)
        assert future.result(0) is None


class TestContext:
    def test_callbacks_run_in_it(self, harness):
        """Those of the submission's context see its variables, wherever the key is completed."""
        variable = contextvars.ContextVar("variable", default="none")
        token = variable.set("submitted")
        context = contextvars.copy_context()
        variable.reset(token)
        p, seen = harness.purgatory, []
        futures = [p.defer("a", context=context), p.defer("a", context=context), p.defer("a")]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda done, n=number: seen.append((n, variable.get())))
        p.complete("a")
        futures[0].add_done_callback(lambda done: seen.append((3, variable.get())))
        assert seen == [(0, "submitted"), (1, "submitted"), (2, "none"), (3, "submitted")]

    def test_nested(self, harness):
        """A callback may end another future of the same context."""
        context = contextvars.copy_context()
        p, seen = harness.purgatory, []
        first, second = p.defer("a", context=context), p.defer("b", context=context)
        first.add_done_callback(lambda done: p.complete("b", done.result()))
        second.add_done_callback(lambda done: seen.append(done.result()))
        p.complete("a", 5)
        assert seen == [5]

    def test_what_is_none(self, harness):
        """Anything else is a TypeError, and nothing waits."""
        with pytest.raises(TypeError, match="context is 5"):
            harness.purgatory.defer("a", context=5)
        assert harness.purgatory.delayed == 0


class Raising(KeyedOperation):
    """Raises `error` in its callback."""

    error = None

    def on_complete(self):
        if self.error is not None:
            raise self.error


def two_of(purgatory, error):
    """Have two operations wait for "k": the first one's callback raises."""
    first, second = Raising(9), Raising(9)
    first.error = error
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["k"])
    return first, second


VERBS = {
    "complete": lambda purgatory: purgatory.complete("k", 1),
    "complete, limited": lambda purgatory: purgatory.complete("k", 1, limit=2),
    "complete and hold": lambda purgatory: purgatory.complete("k", 1, hold=1),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), GeneratorExit(), ValueError()], ids=repr
)
def test_what_a_callback_raises_stops_no_other(verb, error):
    """Neither does a CancelledError, as of `result` of a cancelled future: `on_error` is told."""
    told = []
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    with Purgatory(timer=timer, on_error=lambda raised, _: told.append(raised)) as purgatory:
        first, second = two_of(purgatory, error)
        assert VERBS[verb](purgatory) == 2
        assert (first.completed, second.completed) == (True, True)
    assert told == [error]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_what_user_code_raises_elsewhere(error):
    """In `try_complete`, the journal, `on_error`, done callbacks, on expiry and in the loop."""

    def fail(*_):
        raise error

    class Checked(DelayedOperation):
        try_complete = fail

    class Expiring(DelayedOperation):
        on_expiration = fail

    told = []
    clock = ManualClock()
    timer = Timer(clock=clock, executor=InlineExecutor())
    journal = types.SimpleNamespace(ended=fail)
    with Purgatory(timer=timer, journal=journal, on_error=fail) as purgatory:
        future, other = purgatory.defer("k", timeout=9), purgatory.defer("k", timeout=9)
        future.add_done_callback(fail)
        purgatory.try_complete_else_watch(Checked(9), ["k"])
        purgatory.complete_later("k", 5)
        assert (future.result(HANG), other.result(HANG)) == (5, 5)
    timer = Timer(clock=clock, executor=InlineExecutor())
    with Purgatory(timer=timer, on_error=lambda raised, _: told.append(raised)) as purgatory:
        purgatory.try_complete_else_watch(Expiring(1), ["x"])
        clock.advance(1)
        timer.advance_clock()
    assert told == [error]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_an_exit_comes_out_after_the_others_have_the_event(verb, error):
    """In the main thread."""
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    with Purgatory(timer=timer, on_error=lambda *_: pytest.fail("was told")) as purgatory:
        first, second = two_of(purgatory, error)
        with pytest.raises(type(error)):
            VERBS[verb](purgatory)
        assert (first.completed, second.completed) == (True, True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_second_exit_comes_out_at_once(verb):
    """Some Ctrl-C ends a long completion."""
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    with Purgatory(timer=timer) as purgatory:
        operations = [*two_of(purgatory, KeyboardInterrupt("1")), *two_of(purgatory, None)]
        operations[1].error = KeyboardInterrupt("2")
        with pytest.raises(KeyboardInterrupt, match="2"):
            VERBS[verb](purgatory)
        assert [operation.completed for operation in operations] == [True, True, False, False]


def test_an_exit_in_another_thread_is_reported():
    """It ends no process there."""
    told, error = [], SystemExit(1)
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    with Purgatory(timer=timer, on_error=lambda raised, _: told.append(raised)) as purgatory:
        two_of(purgatory, error)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(purgatory.complete, "k", 1).result(HANG) == 2
    assert told == [error]


class Waits(KeyedOperation):
    """Knows its keys; its callback submits `then`."""

    def __init__(self, keys, need, then, submit):
        super().__init__(1000, need)
        self.keys, self.then, self.submit = keys, then, submit
        self.got, self.has_ended = {}, False  # as the model has it

    def on_complete(self):
        if self.then is not None:
            self.submit(self.then)


class Event:
    """The model of a completion; `units` may be infinite."""

    def __init__(self, key, value, limit, until):
        self.key, self.value, self.until = key, value, until
        self.units = float("inf") if limit is None else limit
        self.is_spreading = limit is not None


class Model:
    """Searches all that waits and all that is held, in order."""

    def __init__(self):
        self.now, self.waiting, self.held = 0, [], {}

    def submit(self, operation):
        self.waiting.append(operation)
        for event in list(self.held.values()):
            if event.key in operation.keys and not operation.has_ended and event.units:
                if event.is_spreading:
                    self.spread(event, self.waiting[: self.waiting.index(operation)])
                self.offer(event, operation)

    def offer(self, event, operation):
        """Count an event for an operation; tell whether this completed it."""
        is_new = event.key in operation.keys and event.key not in operation.got
        if operation.has_ended or not event.units or not is_new:
            return False
        operation.got[event.key] = event.value
        event.units -= 1
        if not event.units and self.held.get(event.key) is event:
            del self.held[event.key]
        if len(operation.got) < operation.need:
            return False
        operation.has_ended = True
        self.waiting.remove(operation)
        if operation.then is not None:
            self.submit(operation.then)
        return True

    def spread(self, event, operations):
        return sum([self.offer(event, operation) for operation in operations])

    def complete(self, key, value, limit, hold):
        self.held.pop(key, None)
        event = Event(key, value, limit, self.now + hold)
        if hold:
            self.held[key] = event
        completed = self.spread(event, list(self.waiting))
        event.is_spreading = False
        return completed

    def advance(self):
        self.now += 1
        self.held = {key: event for key, event in self.held.items() if event.until >= self.now}


@pytest.mark.parametrize("seed", range(2))
def test_limited_and_held_events_are_like_a_model(harness, seed):
    """They count for what waits longest, then for what comes, also from callbacks."""
    p, model, rng, made = harness.purgatory, Model(), random.Random(seed), []

    def submit(operation):
        made.append(operation)
        assert p.try_complete_else_watch(operation, operation.keys) is operation.done()

    def operation(depth):
        keys = rng.sample("abcd", rng.randint(1, 3))
        then = operation(depth - 1) if depth and rng.random() < 0.4 else None
        return Waits(keys, rng.randint(1, len(keys)), then, submit)

    for step in range(400):
        action = rng.choices(["submit", "complete", "advance"], [5, 4, 1])[0]
        if action == "submit":
            waits = operation(2)
            submit(waits)
            model.submit(waits)
        elif action == "complete":
            key, limit = rng.choice("abcd"), rng.choice([None, 1, 2, 5])
            hold = rng.choice([0, 0.0, 1, 2, 3])
            completed = p.complete(key, step, limit=limit, hold=hold)
            assert completed == model.complete(key, step, limit, hold)
        else:
            harness.advance(1)
            model.advance()
        assert [(op.done(), op.values) for op in made] == [(op.has_ended, op.got) for op in made]
        assert p.stats().held == len(model.held)
        p._check()


class Stopped(KeyedOperation):
    """Raises when an event is offered; `ends`: it has ended by then."""

    def __init__(self, ends):
        super().__init__(9)
        self.ends = ends

    def _op_count_key(self, key, value, claim):
        if self.ends:
            self.force_complete()
        raise ZeroDivisionError


def test_an_offer_that_fails_once_it_is_left_to_another_thread(harness):
    """The other thread, which checks the condition, settles the claim."""
    p, left = harness.purgatory, []

    class Left(KeyedOperation):
        def _op_count_key(self, key, value, claim):
            left.append(claim)
            claim.is_left = True
            raise ZeroDivisionError

    p.try_complete_else_watch(Left(9), ["k"])
    with pytest.raises(ZeroDivisionError):
        p.complete("k", 1, limit=1, hold=5)
    future = p.defer("k")
    assert not future.done()
    left[0].settle(UNAFFECTED)
    assert future.result(0) == 1


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_an_offer_that_fails(harness, waits, ends):
    """The unit is used if the operation has ended, else the next one gets it.

    A submission of an operation that has ended meanwhile is as good as done.
    """
    p = harness.purgatory
    acts = [
        lambda: p.try_complete_else_watch(Stopped(ends), ["k"]),
        lambda: p.complete("k", 1, limit=1, hold=5),
    ]
    first, second = acts if waits else reversed(acts)
    first()
    with pytest.raises(ZeroDivisionError) if waits or not ends else contextlib.nullcontext():
        second()
    p._check()
    assert p.stats().held == (not ends)
    assert p.defer("k").done() is not ends
    assert p.stats().held == 0


@pytest.mark.parametrize("waits", [True, False])
def test_a_returned_unit_goes_to_an_operation_that_was_refused(harness, waits):
    """Not to one that has ended meanwhile, and to no more than one; also at a submission."""
    p, late, offers = harness.purgatory, [], []

    class Late(KeyedOperation):
        def _op_count_key(self, key, value, claim):
            offers.append(self)
            return super()._op_count_key(key, value, claim)

    class EndsMeanwhile(KeyedOperation):
        def _op_count_key(self, key, value, claim):
            if not late:
                late.extend(Late(9) for _ in range(3))
                for operation in late:
                    p.try_complete_else_watch(operation, ["k"])
                late[0].cancel()
                self.cancel()
            return super()._op_count_key(key, value, claim)

    acts = [
        lambda: p.try_complete_else_watch(EndsMeanwhile(9), ["k"]),
        lambda: p.complete("k", 1, limit=1, hold=5),
    ]
    for act in acts if waits else reversed(acts):
        act()
    assert [operation.completed for operation in late] == [False, True, False]
    assert late[2] not in offers
    assert p.stats().held == 0
