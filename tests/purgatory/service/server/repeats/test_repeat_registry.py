"""All repeats of a server, and when to look at which."""

from purgatory.service.job_messages import Repeat
from purgatory.service.server.repeats import repeat_registry
from purgatory.service.server.repeats.repeat_record import RepeatRecord
from purgatory.service.server.repeats.repeat_registry import RepeatRegistry


def record(name, wake_ms, client="c"):
    """Make a record."""
    return RepeatRecord(client, Repeat(name, every_ms=10), None, 5, wake_ms=wake_ms)


def names(records):
    return [one.settings.name for one in records]


def test_those_that_are_due_come_in_order():
    """As many as are asked for, each once; the others wait."""
    registry = RepeatRegistry()
    for name, wake_ms in [("a", 30), ("b", 10), ("c", 20), ("never", 0), ("d", 40)]:
        registry.put(record(name, wake_ms))
    assert registry.next_wake_ms() == 10
    assert names(registry.take_due(30, 2)) == ["b", "c"]
    assert names(registry.take_due(30, 2)) == ["a"]
    assert registry.take_due(30, 2) == []
    assert registry.next_wake_ms() == 40


def test_what_was_replaced_is_stale():
    """A repeat comes at its new time only; a removed one not at all."""
    registry = RepeatRegistry()
    registry.put(record("a", 10))
    registry.put(record("a", 20))
    registry.put(record("b", 15))
    registry.remove(("c", "b"))
    assert registry.next_wake_ms() == 20
    assert names(registry.take_due(100, 9)) == ["a"]
    registry.watch(registry.by_key["c", "a"])
    registry.watch(registry.by_key["c", "a"])
    assert names(registry.take_due(100, 9)) == ["a"]


def test_figures():
    """Of all, of each client, and their memory."""
    registry = RepeatRegistry()
    registry.put(record("a", 10))
    registry.put(record("a", 20))
    registry.put(record("b", 10))
    registry.put(record("a", 10, client="d"))
    assert (len(registry), registry.counts) == (3, {"c": 2, "d": 1})
    assert registry.bytes == sum(one.bytes for one in registry.by_key.values())
    for key in list(registry.by_key):
        registry.remove(key)
    registry.remove(("c", "a"))
    assert (len(registry), registry.counts, registry.bytes) == (0, {}, 0)


def test_stale_entries_are_dropped(monkeypatch):
    """A repeat that is declared again and again takes no more memory."""
    monkeypatch.setattr(repeat_registry, "_STALE_ENTRIES", 10)
    registry = RepeatRegistry()
    for wake_ms in range(1000, 2000):
        registry.put(record("a", wake_ms))
    assert len(registry._wakes) <= 13
    assert registry.next_wake_ms() == 1999
