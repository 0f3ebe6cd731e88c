"""What one transaction changes of repeats."""

import pytest

from purgatory.service.job_messages import Repeat
from purgatory.service.server.repeats.repeat_changes import RepeatChanges
from purgatory.service.server.repeats.repeat_record import RepeatRecord
from purgatory.service.server.repeats.repeat_registry import RepeatRegistry
from purgatory.service.store.changes import Changes

KEY = ("c", "a")


def record(name="a", wake_ms=10, client="c"):
    """Make a record."""
    return RepeatRecord(client, Repeat(name, every_ms=10), None, 5, wake_ms=wake_ms)


@pytest.fixture
def registry():
    """A registry with one repeat."""
    registry = RepeatRegistry()
    registry.put(record())
    return registry


def test_changes_are_seen_in_the_transaction_and_then_by_all(registry):
    """Before `publish` by nobody else."""
    changes = RepeatChanges(registry, Changes())
    changes.put(record("b"))
    changes.put(record()._replace(skipped=1))
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
    changes.put(record()._replace(skipped=1))
    changes.put(record("b"))
    changes.put(record("b", client="d"))
    changes.remove(("c", "unknown"))
    assert (changes.count(), changes.count("c"), changes.count("d")) == (3, 2, 1)
    assert changes.bytes_more() == record("b").bytes * 2
    changes.remove(KEY)
    assert (changes.count(), changes.count("c")) == (2, 1)
    assert changes.bytes_more() == record("b").bytes


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
    changes.put(record(wake_ms=70))
    changes.roll_back()
    assert registry.next_wake_ms() == 10
    changes = RepeatChanges(registry, Changes())
    changes.take_due(10, 9)
    changes.put(record(wake_ms=70))
    changes.publish()
    assert registry.next_wake_ms() == 70


def test_what_the_transaction_has_paused_or_deleted_is_not_due(registry):
    """It is not taken."""
    registry.put(record("b"))
    registry.put(record("d"))
    changes = RepeatChanges(registry, Changes())
    changes.put(record(wake_ms=0))
    changes.remove(("c", "b"))
    assert [one.key for one in changes.take_due(10, 9)] == [("c", "d")]
