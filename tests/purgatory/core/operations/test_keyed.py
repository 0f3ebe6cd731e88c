"""KeyedOperation: waits for n distinct keys, subclassed or not."""

import gc
import random

import pytest

from purgatory import KeyedOperation, OperationCancelled, OperationExpired
from purgatory.core.operations import keyed
from purgatory.core.operations.operation_state import OperationOwner, tell_key
from tests.testing.purgatory_harness import PurgatoryHarness, in_thread
from timingwheel import COMPILED, TimerFull
from timingwheel.lowlevel import new_hot_rlock


class Order(KeyedOperation):
    """Records its callbacks."""

    def __init__(self, need=1):
        super().__init__(5, need)
        self.ends = []

    def on_complete(self):
        self.ends.append((self.by_key, self.values))


def test_the_completing_key_and_its_values():
    """by_key is the n-th distinct key; values has the completed keys in order."""
    p = PurgatoryHarness().purgatory
    order = Order(need=2)
    p.try_complete_else_watch(order, ["paid", "packed", "sent"])
    p.complete("packed", 1)
    p.complete("packed", 2)
    p.complete("sent", 3)
    p.complete("paid", 4)
    assert order.ends == [("sent", {"packed": 1, "sent": 3})]


@pytest.mark.skipif(COMPILED, reason="a compiled function cannot be replaced")
def test_an_interrupt_just_before_the_end(monkeypatch):
    """The operation is pending; the key that did not complete it leaves no value behind."""
    harness, order = PurgatoryHarness(), Order()
    harness.purgatory.try_complete_else_watch(order, ["k"])

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keyed, "try_set_outcome", interrupt)
        with pytest.raises(KeyboardInterrupt):
            harness.purgatory.complete("k", 1)
    assert (order.completed, order.by_key, order.values) == (False, None, {})
    harness.advance(5)
    assert order.ends == [(None, {})]


def test_values_are_a_copy():
    """values is a copy: changing it has no effect."""
    p = PurgatoryHarness().purgatory
    order = Order(need=2)
    p.try_complete_else_watch(order, ["a", "b"])
    p.complete("a")
    order.values.clear()
    assert order.values == {"a": None}
    assert order.by_key is None


def test_expiry_keeps_what_came():
    """An expired operation still has the values of its completed keys."""
    harness = PurgatoryHarness()
    order = Order(need=2)
    harness.purgatory.try_complete_else_watch(order, ["a", "b"])
    harness.purgatory.complete("a", 1)
    harness.advance(5)
    assert order.ends == [(None, {"a": 1})]
    harness.purgatory.complete("b", 2)
    assert order.values == {"a": 1}


class Key:
    """A key that calls `hook` at its `turn`-th comparison from now on."""

    hook = None
    turn = 0

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        Key.turn -= 1
        if Key.turn == 0:
            Key.hook()
        return self.number == other.number


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("by", ["a callback", "a finalizer"])
def test_a_comparison_may_end_what_is_being_counted(turn, by):
    """A key's __eq__, or a finalizer in it, cancels the operation: one outcome, no deadlock."""
    harness = PurgatoryHarness()
    p = harness.purgatory
    order = Order(need=2)
    p.try_complete_else_watch(order, [Key(1), Key(2), Key(3)])
    p.complete(Key(1))

    class Trash:
        def __init__(self):
            self.me = self

        def __del__(self):
            order.cancel()

    def finalize():
        Trash()
        gc.collect()

    Key.hook = order.cancel if by == "a callback" else finalize
    Key.turn = turn
    completed = in_thread(lambda: p.complete(Key(3), 3))
    Key.turn = 0
    assert completed == len(order.ends)
    assert completed + order.cancelled() == 1
    p._check()
    assert p.delayed == 0


@pytest.mark.skipif(COMPILED, reason="functions of compiled modules cannot be replaced")
@pytest.mark.parametrize("is_first", [True, False])
def test_an_interrupt_just_after_the_end(monkeypatch, is_first):
    """Who has ended the operation finishes it, whatever is raised then; nobody else does."""
    p = PurgatoryHarness().purgatory
    order = Order()
    p.try_complete_else_watch(order, ["a"])
    finalize, calls = keyed.finalize, []

    def interrupted(operation, outcome):
        calls.append(outcome)
        if len(calls) == 1:
            raise KeyboardInterrupt
        finalize(operation, outcome)

    def never(*_):
        raise KeyboardInterrupt

    if is_first:
        monkeypatch.setattr(keyed, "finalize", interrupted)
    else:
        monkeypatch.setattr(keyed, "_try_end", never)
    with pytest.raises(KeyboardInterrupt):
        p.complete("a", 1)
    assert order.done() == is_first
    assert order.ends == [("a", {"a": 1})] * is_first
    assert p.watched == 1 - is_first


class Told(KeyedOperation):
    """Has the names of its callbacks, in order."""

    def __init__(self, need):
        super().__init__(5, need)
        self.told = []

    def on_complete(self):
        self.told.append("complete")

    def on_expiration(self):
        self.told.append("expiration")

    def on_cancel(self):
        self.told.append("cancel")

    def on_failure(self):
        self.told.append("failure")


class Modelled:
    """An operation or a future, and what it should be."""

    def __init__(self, purgatory, keys, need, is_future):
        self.keys, self.need, self.got = keys, need, {}
        self.told, self.by_key, self.error, self.result = [], None, None, None
        if is_future:
            self.subject = purgatory.defer(*keys, timeout=5, need=need)
        else:
            self.subject = Told(need)
            assert not purgatory.try_complete_else_watch(self.subject, keys)
        self.is_future = is_future

    def end(self, *told, by_key=None, error=None, result=None):
        self.told, self.by_key, self.error, self.result = list(told), by_key, error, result
        return True

    def complete(self, key, value):
        if self.told or key not in self.keys or key in self.got:
            return False
        self.got[key] = value
        if len(self.got) < self.need:
            return False
        return self.end("complete", by_key=key, result=value if self.need == 1 else self.got)

    def fail(self, key, error):
        is_counted = self.told or key not in self.keys or key in self.got
        return not is_counted and self.end("failure", error=error)

    def expire(self):
        if not self.told:
            self.end("complete", "expiration", error=OperationExpired)

    def end_by_hand(self, way):
        """End it with its own method; a future that gets a result drops the values."""
        if way == "cancel":
            assert self.subject.cancel()
            self.end("cancel", error=OperationCancelled)
        elif not self.is_future:
            assert self.subject.force_complete()
            self.end("complete")
        elif way == "result":
            self.subject.set_result(7)
            self.end("complete", result=7)
        else:
            error = OSError()
            self.subject.set_exception(error)
            self.end("failure", error=error)

    def check(self):
        subject = self.subject
        assert subject.done() == bool(self.told)
        if not self.is_future:
            failure = self.error if self.told == ["failure"] else None
            assert (subject.told, subject.by_key, subject.values, subject.failure) == (
                self.told,
                self.by_key,
                self.got,
                failure,
            )
        elif subject.cancelled():
            assert self.told == ["cancel"]
        elif self.told:
            error = subject.exception(0)
            assert error is self.error or type(error) is self.error
            assert error is not None or subject.result(0) == self.result


@pytest.mark.parametrize("seed", range(3))
def test_like_a_model(seed):
    """Each key counts once, until the operation ends, whatever ends it: operations and futures."""
    harness, rng, all_made = PurgatoryHarness(), random.Random(seed), []
    p = harness.purgatory
    for step in range(250):
        action, key = (
            rng.choice(["submit", "complete", "complete", "fail", "end"]),
            rng.choice("abcd"),
        )
        waiting = [one for one in all_made if not one.told]
        if action == "submit" or len(waiting) < 3:
            keys = rng.sample("abcd", rng.randint(1, 4))
            all_made.append(Modelled(p, keys, rng.randint(1, len(keys)), rng.random() < 0.5))
        elif action == "complete":
            assert p.complete(key, step) == [one.complete(key, step) for one in waiting].count(True)
        elif action == "fail" and rng.random() < 0.2:
            error = OSError()
            assert p.fail(key, error) == [one.fail(key, error) for one in waiting].count(True)
        elif action == "end":
            rng.choice(waiting).end_by_hand(rng.choice(["cancel", "result", "exception"]))
        for one in all_made:
            one.check()
        assert p.delayed == len(harness.timer) == len([one for one in all_made if not one.told])
    harness.advance(5)
    for one in all_made:
        one.expire()
        one.check()
    assert (p.watched, harness.errors) == (0, [])


def test_need_is_a_number():
    """Other values are a TypeError; an int of another class is an int."""

    class Number(int):
        pass

    assert (KeyedOperation(5).need, KeyedOperation(5, Number(2)).need) == (1, 2)
    for need in ("2", 2.0, None, True):
        with pytest.raises(TypeError, match=f"need is {need!r}; expected an int"):
            KeyedOperation(5, need)


def test_a_condition_beside_the_keys():
    """A subclass may also complete by `try_complete`; the class itself has no condition."""

    class Checked(KeyedOperation):
        def try_complete(self):
            return ready and self.force_complete()

    p, ready = PurgatoryHarness().purgatory, []
    checked, plain = Checked(5), KeyedOperation(5)
    for operation in (checked, plain):
        p.try_complete_else_watch(operation, ["k"])
    assert p.check_and_complete("k") == 0
    ready.append(True)
    assert p.check_and_complete("k") == 1
    assert (checked.completed, plain.done()) == (True, False)


def test_an_operation_that_was_refused_forgets_what_counted():
    """It counts the same keys anew when it is submitted again."""
    harness = PurgatoryHarness(max_pending=1)
    p, order = harness.purgatory, Order(need=2)
    p.complete("a", 1, hold=5)
    with pytest.raises(TimerFull):
        p.try_complete_else_watch(order, ["a", "b"])
    assert order.values == {}
    p._parts.held.drop("a")
    assert not p.try_complete_else_watch(order, ["a", "b"])
    p.complete("b", 2)
    assert order.ends == []
    p.complete("a", 3)
    assert order.ends == [("a", {"b": 2, "a": 3})]


@pytest.mark.parametrize("need", [1, 2])
def test_a_prepared_operation_is_like_a_made_one(need):
    """But for its owner, and its condition: keys alone end it."""

    class Prepared(KeyedOperation):
        def __init__(self):
            keyed.prepare_keyed(self, need, owner, lock)

    owner, lock = OperationOwner("p"), new_hot_rlock()
    made, prepared = KeyedOperation(0, need), Prepared()
    fields = ("keys", "has_condition", "outcome", "busy", "recheck", "stage", "values")
    for name in ("need", "by_key", "values", "delay_ns", *(f"_op_{field}" for field in fields)):
        assert getattr(prepared, name) == getattr(made, name)
    assert (prepared._op_owner, prepared._op_lock) == (owner, lock)
    assert (prepared._op_values_lock is lock) == (need > 1)


def test_a_key_that_cannot_be_counted():
    """The error reaches the caller, and the operation goes on."""
    harness, order = PurgatoryHarness(), Order(need=2)
    harness.purgatory.try_complete_else_watch(order, ["a", "b"])
    with pytest.raises(TypeError):
        tell_key(order, [], 1)
    assert (harness.purgatory.watched, len(harness.timer), order.ends) == (2, 1, [])
