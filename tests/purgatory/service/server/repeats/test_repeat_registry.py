"""All repeats of a server, and when to look at which."""

import pytest

from purgatory.service.job_messages import Repeat
from purgatory.service.server.repeats import repeat_registry
from purgatory.service.server.repeats.repeat_record import RepeatRecord
from purgatory.service.server.repeats.repeat_registry import RepeatChanges, RepeatRegistry
from purgatory.service.store.changes import Changes


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


KEY = ("c", "a")


def record_of_repeat_changes(name="a", wake_ms=10, client="c"):
    """Make a record_of_repeat_changes."""
    return RepeatRecord(client, Repeat(name, every_ms=10), None, 5, wake_ms=wake_ms)


@pytest.fixture
def registry():
    """A registry with one repeat."""
    registry = RepeatRegistry()
    registry.put(record_of_repeat_changes())
    return registry


def test_changes_are_seen_in_the_transaction_and_then_by_all(registry):
    """Before `publish` by nobody else."""
    changes = RepeatChanges(registry, Changes())
    changes.put(record_of_repeat_changes("b"))
    changes.put(record_of_repeat_changes()._replace(skipped=1))
    assert changes.find(KEY).skipped == 1
    assert changes.find(("c", "b")) is not None
    assert list(registry.by_key) == [KEY]
    assert registry.by_key[KEY].skipped == 0
    changes.remove(KEY)
    assert changes.find(KEY) is None
    changes.publish()
    assert list(registry.by_key) == [("c", "b")]


def test_counts(registry):
    """They are those after the transaction."""
    changes = RepeatChanges(registry, Changes())
    changes.put(record_of_repeat_changes()._replace(skipped=1))
    changes.put(record_of_repeat_changes("b"))
    changes.put(record_of_repeat_changes("b", client="d"))
    changes.remove(("c", "unknown"))
    assert (changes.count(), changes.count("c"), changes.count("d")) == (3, 2, 1)
    assert changes.bytes_more() == record_of_repeat_changes("b").bytes * 2
    changes.remove(KEY)
    assert (changes.count(), changes.count("c")) == (2, 1)
    assert changes.bytes_more() == record_of_repeat_changes("b").bytes


def test_only_what_lasts_is_written(registry):
    """A look that changes times in memory alone writes nothing."""
    written = Changes()
    changes = RepeatChanges(registry, written)
    changes.put(registry.by_key[KEY]._replace(wake_ms=99, busy_until_ms=5, runs=("x",)))
    changes.remove(("c", "unknown"))
    changes.prepare()
    assert not written
    changes.put(registry.by_key[KEY]._replace(next_ms=6))
    changes.remove(("c", "unknown"))
    changes.prepare()
    assert written.repeats[:3] == ["c", "a", 6]
    assert written.delete_repeats == []
    written = Changes()
    changes = RepeatChanges(registry, written)
    changes.remove(KEY)
    changes.prepare()
    assert (written.repeats, written.delete_repeats) == ([], [KEY])


@pytest.mark.parametrize("end", ["publish", "roll_back"])
def test_what_was_taken_and_not_changed_comes_again(registry, end):
    """Whether the commit succeeds or not."""
    changes = RepeatChanges(registry, Changes())
    assert [one.key for one in changes.take_due(10, 9)] == [KEY]
    assert registry.next_wake_ms() is None
    getattr(changes, end)()
    assert registry.next_wake_ms() == 10


def test_what_was_changed_comes_at_its_new_time(registry):
    """Unless the commit fails."""
    changes = RepeatChanges(registry, Changes())
    changes.take_due(10, 9)
    changes.put(record_of_repeat_changes(wake_ms=70))
    changes.roll_back()
    assert registry.next_wake_ms() == 10
    changes = RepeatChanges(registry, Changes())
    changes.take_due(10, 9)
    changes.put(record_of_repeat_changes(wake_ms=70))
    changes.publish()
    assert registry.next_wake_ms() == 70


def test_what_the_transaction_has_paused_or_deleted_is_not_due(registry):
    """It is not taken."""
    registry.put(record_of_repeat_changes("b"))
    registry.put(record_of_repeat_changes("d"))
    changes = RepeatChanges(registry, Changes())
    changes.put(record_of_repeat_changes(wake_ms=0))
    changes.remove(("c", "b"))
    assert [one.key for one in changes.take_due(10, 9)] == [("c", "d")]
