"""OperationBatches against a model: writes, deletions, moves and reads in any order."""

import sqlite3

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Raw

from purgatory.service.store.rows import MAX_BATCH, OperationBatch, StoredOperation
from purgatory.service.store.sqlite.migrations import create_tables
from purgatory.service.store.sqlite.operation_batches import OperationBatches


def table():
    """Return a connection with empty tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_tables(connection)
    return connection


def item(number, timeout_ms=1000, payload=b"\xc0"):
    """Return an operation as a client submits it."""
    return [f"op-{number}", ["k", f"k{number}", "k"], timeout_ms, 1, "kind", Raw(payload)]


def stored(number, client, submitted_ms, payload=None):
    """Return the same operation as it is read."""
    deadline_ms = submitted_ms + 1000
    keys = ("k", f"k{number}")
    return StoredOperation(
        number, client, f"op-{number}", "kind", submitted_ms, deadline_ms, 1, keys, payload
    )


class BatchesModel(RuleBasedStateMachine):
    """A dict of operations, and a table that must have the same ones."""

    @initialize()
    def begin(self):
        """Begin with an empty table."""
        self.connection = table()
        self.batches = OperationBatches(self.connection)
        self.model = {}
        self.next = 1
        self.now = 100

    def teardown(self):
        """Close the connection."""
        if hasattr(self, "connection"):
            self.connection.close()

    @rule(count=st.integers(1, MAX_BATCH), gap=st.integers(0, 3), client=st.sampled_from("ab"))
    def write(self, count, gap, client):
        """Write a batch; there may be a gap in the numbers before it."""
        first = self.next + gap
        self.next = first + count
        self.now += 1
        numbers = range(first, first + count)
        self.batches.write([OperationBatch(first, client, self.now, [item(n) for n in numbers])])
        self.model.update((n, stored(n, client, self.now)) for n in numbers)

    @rule(data=st.data(), share=st.sampled_from([0.02, 0.3, 1.0]))
    def delete(self, data, share):
        """Delete some operations, in any order."""
        chosen = [n for n in self.model if data.draw(st.floats(0, 1)) < share][:600]
        self.batches.delete(data.draw(st.permutations(chosen)) if len(chosen) < 50 else chosen)
        for number in chosen:
            del self.model[number]

    @rule(by_ms=st.integers(-50, 50), data=st.data())
    def shift_times(self, by_ms, data):
        """Move the times of all but some."""
        stay = {n for n in self.model if data.draw(st.booleans())}
        self.batches.shift_times(by_ms, sorted(stay))
        for number in self.model.keys() - stay:
            row = self.model[number]
            self.model[number] = row._replace(
                submitted_ms=row.submitted_ms + by_ms, deadline_ms=row.deadline_ms + by_ms
            )

    @rule(data=st.data())
    def look_up(self, data):
        """Read by number: those that exist are found."""
        asked = data.draw(st.lists(st.integers(1, self.next), max_size=40, unique=True))
        there = [n for n in asked if n in self.model]
        assert self.batches.by_numbers(there) == {n: self.model[n] for n in there}

    @rule(data=st.data())
    def read(self, data):
        """Read from any number on, in order."""
        after = data.draw(st.integers(0, self.next))
        assert list(self.batches.all(after)) == [
            row for n, row in sorted(self.model.items()) if n > after
        ]

    @invariant()
    def no_waste(self):
        """Deleted operations take no more space than those that exist."""
        [(size, rows)] = self.connection.execute("SELECT total(size), count(*) FROM batches")
        [(gone,)] = self.connection.execute("SELECT count(*) FROM forgotten")
        assert size - gone == len(self.model)
        assert 2 * gone <= size
        assert rows <= len(self.model)
        assert (self.batches.oldest_submission_ms() is None) == (not self.model)


TestModel = BatchesModel.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


@pytest.fixture
def batches():
    connection = table()
    yield OperationBatches(connection)
    connection.close()


def test_an_empty_table(batches):
    """An empty table has no last number and no oldest submission."""
    assert (batches.last(), batches.oldest_submission_ms()) == (0, None)
    assert list(batches.all(0)) == []
    assert batches.by_numbers([1]) == {}


def test_payloads_are_kept(batches):
    """Payloads are stored to the byte; nil counts as none."""
    batches.write([OperationBatch(7, "c", 5, [item(7, payload=b"\x93\x01\x02\x03"), item(8)])])
    assert batches.by_numbers([7, 8, 9]) == {
        7: stored(7, "c", 5, b"\x93\x01\x02\x03"),
        8: stored(8, "c", 5),
    }
    assert batches.last() == 8


def test_the_last_number_outlives_those_before_it(batches):
    """The last number stays, also when its batch was rewritten without it."""
    batches.write([OperationBatch(1, "c", 5, [item(n) for n in range(1, 11)])])
    batches.delete([8, 9, 10])
    assert batches.last() == 10
    batches.delete([5, 6, 7])
    assert batches.last() == 10
    assert [row.number for row in batches.all(2)] == [3, 4]
