"""KeyedOperation: waits for n distinct keys, subclassed or not."""

import gc

import pytest

from purgatory import KeyedOperation
from purgatory.core.operations import keyed
from tests.testing.purgatory_harness import PurgatoryHarness, in_thread
from timingwheel import COMPILED


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
