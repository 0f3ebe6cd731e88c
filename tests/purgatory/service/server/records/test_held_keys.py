"""Events that are held for operations submitted later."""

from purgatory.service.server.memory import held_bytes
from purgatory.service.server.records.held_keys import HeldKeys
from purgatory.service.store.rows import UNLIMITED, StoredEvent


def event(number, until_ms, value=b""):
    return StoredEvent(number, 0, until_ms, UNLIMITED, value)


def test_the_last_instant():
    """An event counts until its end, included; it is released in the millisecond after."""
    held = HeldKeys()
    held.set("k", event(1, 100))
    assert held.in_force("k", 100) == event(1, 100)
    assert held.in_force("k", 101) is None
    assert held.in_force("other", 100) is None
    assert held.next_end_ms() == 101
    assert held.first_ended(100) is None
    assert held.first_ended(101) == "k"


def test_the_first_to_end():
    """Whatever the order in which they came; when it is gone, the next one."""
    held = HeldKeys()
    for number, (key, until_ms) in enumerate([("a", 300), ("b", 100), ("c", 200)], 1):
        held.set(key, event(number, until_ms))
    assert held.first_ended(1000) == "b"
    held.set("b", None)
    assert held.first_ended(1000) == "c"
    held.set("c", event(4, 400))
    assert held.first_ended(1000) == "a"


def test_one_event_for_each_key():
    """The later one takes its place, and its bytes."""
    held = HeldKeys()
    held.set("k", event(1, 100, b"a long value"))
    held.set("k", event(2, 50, b"v"))
    assert (len(held), held.bytes) == (1, held_bytes("k", 1))
    assert held.next_end_ms() == 51
    held.set("k", None)
    assert (len(held), held.bytes) == (0, 0)


def test_numbers_are_not_given_again():
    """A number stays used when its event is gone."""
    held = HeldKeys()
    assert held.next_number() == 1
    held.set("k", event(7, 100))
    held.set("k", None)
    assert held.next_number() == 8


def test_ends_of_events_that_are_not_held_any_more():
    """They do not gather while one key is held again and again."""
    held = HeldKeys()
    for n in range(1000):
        held.set("k", StoredEvent(n, 0, 1000 + n, UNLIMITED, b""))
    assert len(held._ends) < 200
    assert held.next_end_ms() == 2000
    held.set("k", None)
    assert held.next_end_ms() is None
    assert len(held) == 0
