"""KeyedOperation: n distinct keys, subclassed or not."""

import gc

from purgatory import KeyedOperation
from tests.purgatory.helpers import Bench


class Order(KeyedOperation):
    """Records its end."""

    def __init__(self, need=1):
        super().__init__(5, need)
        self.ends = []

    def on_complete(self):
        self.ends.append((self.by_key, self.values))


def test_the_completing_key_and_its_values():
    """by_key is the n-th distinct key, values those that came in, in order."""
    p = Bench().purgatory
    order = Order(need=2)
    p.try_complete_else_watch(order, ["paid", "packed", "sent"])
    p.complete("packed", 1)
    p.complete("packed", 2)
    p.complete("sent", 3)
    p.complete("paid", 4)
    assert order.ends == [("sent", {"packed": 1, "sent": 3})]


def test_values_are_a_copy():
    """What a caller does with values changes nothing."""
    p = Bench().purgatory
    order = Order(need=2)
    p.try_complete_else_watch(order, ["a", "b"])
    p.complete("a")
    order.values.clear()
    assert order.values == {"a": None}
    assert order.by_key is None


def test_expiry_keeps_what_came():
    """An expired operation still tells which keys had been completed."""
    bench = Bench()
    order = Order(need=2)
    bench.purgatory.try_complete_else_watch(order, ["a", "b"])
    bench.purgatory.complete("a", 1)
    bench.advance(5)
    assert order.ends == [(None, {"a": 1})]
    bench.purgatory.complete("b", 2)
    assert order.values == {"a": 1}


def test_a_key_may_come_back_while_it_is_counted():
    """A key's __eq__ that cancels the operation neither hangs nor completes it."""
    p = Bench().purgatory

    class Key:
        hook = None

        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return 7

        def __eq__(self, other):
            if Key.hook is not None:
                Key.hook()
            return self.number == other.number

    order = Order(need=2)
    p.try_complete_else_watch(order, [Key(1), Key(2)])
    p.complete(Key(1))
    Key.hook = order.cancel
    assert p.complete(Key(2)) == 0
    Key.hook = None
    assert order.cancelled()
    assert order.ends == []
    p._check()


def test_a_finalizer_may_cancel_it_while_it_is_counted():
    """The collector runs finalizers anywhere, also where the operation's lock is held."""
    p = Bench().purgatory
    threshold = gc.get_threshold()

    class Key:
        """A key in Python, whose hash makes the collector run."""

        def __init__(self, number):
            self.number = number

        def __hash__(self):
            [[] for _ in range(3)]
            return hash(self.number)

        def __eq__(self, other):
            return self.number == other.number

    class Trash:
        def __init__(self, order):
            self.order = order
            self.me = self

        def __del__(self):
            self.order.cancel()

    gc.set_threshold(5)
    try:
        for _ in range(300):
            order = Order(need=2)
            p.try_complete_else_watch(order, [Key(1), Key(2)])
            Trash(order)
            p.complete(Key(1))
            p.complete(Key(2))
            assert order.done() or order.cancel()
            assert len(order.ends) + order.cancelled() == 1
    finally:
        gc.set_threshold(*threshold)
    p._check()
    assert p.delayed == 0
